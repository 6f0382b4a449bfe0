package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// runHello answers the first message of every driver, and its monitoring: what
// this member is and what it can do.
func (n *Node) runHello(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if err := process.CheckPeer(op, n.shard || n.ConfigServer); err != nil {
		return err
	}
	if err := process.ClientMetadata(op); err != nil {
		return err
	}
	user, err := account.MechanismsUser(a.Value("saslSupportedMechs"))
	if err != nil {
		return err
	}
	told, err := process.AwaitTopology(ctx, op)
	if err != nil {
		return err
	}
	b := op.Reply
	if a.Bool("helloOk") {
		b.Bool("helloOk", true)
	}
	if m := n.Dispatcher.Member; m != nil {
		b.Value("topologyVersion", told)
		appendRole(b, m, op.Command.Name == "hello", op.Client.AskedFor)
		if n.ConfigServer {
			b.Int32("configsvr", 2)
		}
	} else {
		b.Bool(process.PrimaryField(op.Command.Name == "hello"), true)
		b.Value("topologyVersion", told)
	}
	n.Process.AppendHello(b, op)
	if user == nil && a.Value("speculativeAuthenticate").Type != bson.TypeDocument {
		return nil
	}
	return n.inside(ctx, func(ctx context.Context) error { return n.accounts.Hello(ctx, op, user) })
}
