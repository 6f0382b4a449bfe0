package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// hello answers the first message of every driver, and its monitoring: what
// this member is and what it can do.
func (n *Node) hello() *command.Command {
	return &command.Command{
		Name: "hello", Flags: command.NoAuth | command.APIv1 | command.Quiet, Fields: process.HelloFields,
		Help: "Status information for clients negotiating a connection with this server", Run: n.runHello,
	}
}

// isMaster is hello under its old name, with an old name for its first field.
func (n *Node) isMaster() *command.Command {
	return &command.Command{
		Name: "isMaster", Aliases: []string{"ismaster"}, Flags: command.NoAuth | command.Quiet, Fields: process.HelloFields,
		Help: "Check if this server is primary for a replica set\n{ isMaster : 1 }", Run: n.runHello,
	}
}

func (n *Node) runHello(ctx context.Context, op *command.Op) error {
	a := &op.Args
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
		appendRole(b, m, op.Command.Name == "hello")
		if n.ConfigServer {
			b.Int32("configsvr", 2)
		}
	} else {
		b.Bool(primaryField(op.Command.Name == "hello"), true)
		b.Value("topologyVersion", told)
	}
	n.Process.AppendHello(b, op)
	if user == nil && a.Value("speculativeAuthenticate").Type != bson.TypeDocument {
		return nil
	}
	return n.inside(ctx, func(ctx context.Context) error { return n.helloAuthentication(ctx, op, user) })
}

// helloAuthentication answers what hello asks about a user, and takes the first
// step of an authentication that is part of it. Where that fails, the client
// begins again with saslStart.
func (n *Node) helloAuthentication(ctx context.Context, op *command.Op, name *auth.UserName) error {
	if name != nil {
		u, err := n.accounts.User(*name)
		if err != nil {
			return err
		}
		if u != nil {
			op.Reply.Strings("saslSupportedMechs", u.Mechanisms()...)
		}
	}
	if v := op.Args.Value("speculativeAuthenticate"); v.Type == bson.TypeDocument {
		if answer := n.accounts.Speculate(ctx, op, v.Doc()); answer != nil {
			op.Reply.Doc("speculativeAuthenticate", answer)
		}
	}
	return nil
}

// primaryField is the name of the field by which hello, or isMaster, says that the
// member takes writes.
func primaryField(hello bool) string {
	if hello {
		return "isWritablePrimary"
	}
	return "ismaster"
}
