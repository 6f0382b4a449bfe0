package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// hello answers as a router does: drivers know one by msg, and by the want of a setName.
func (r *Router) hello() *command.Command {
	return &command.Command{
		Name: "hello", Flags: command.NoAuth | command.APIv1 | command.Quiet, Fields: process.HelloFields,
		Help: "Status information for clients negotiating a connection with this server", Run: r.runHello,
	}
}

// isMaster is hello under its old name, with an old name for its first field.
func (r *Router) isMaster() *command.Command {
	return &command.Command{
		Name: "isMaster", Aliases: []string{"ismaster"}, Flags: command.NoAuth | command.Quiet, Fields: process.HelloFields,
		Help: "test if this is master half of a replica pair", Run: r.runHello,
	}
}

func (r *Router) runHello(ctx context.Context, op *command.Op) error {
	if err := process.ClientMetadata(op); err != nil {
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
	primary := "isWritablePrimary"
	if op.Command.Name != "hello" {
		primary = "ismaster"
	}
	b.Bool(primary, true).String("msg", "isdbgrid").Value("topologyVersion", told)
	r.Process.AppendHello(b, op)
	return nil
}
