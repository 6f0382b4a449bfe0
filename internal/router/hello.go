package router

import (
	"context"
	"github.com/mayflydb/mayfly/internal/account"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// runHello answers as mongos does: drivers recognize a router by msg, and by the missing
// setName.
func (r *Router) runHello(ctx context.Context, op *command.Op) error {
	if err := process.CheckPeer(op, true); err != nil {
		return err
	}
	if err := process.ClientMetadata(op); err != nil {
		return err
	}
	user, err := account.MechanismsUser(op.Args.Value("saslSupportedMechs"))
	if err != nil {
		return err
	}
	told, err := process.AwaitTopology(ctx, op)
	if err != nil {
		return err
	}
	b := op.Reply
	if op.Args.Bool("helloOk") {
		b.Bool("helloOk", true)
	}
	b.Bool(process.PrimaryField(op.Command.Name == "hello"), true).String("msg", "isdbgrid").Value("topologyVersion", told)
	r.Process.AppendHello(b, op)
	return r.accounts.Hello(ctx, op, user)
}
