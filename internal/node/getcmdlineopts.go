package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// getCmdLineOpts tells the options that the server was started with.
func (n *Node) getCmdLineOpts() *command.Command {
	return &command.Command{
		Name: "getCmdLineOpts", Flags: command.AdminOnly, Fields: command.NewFields("getCmdLineOpts"),
		Help: "get argv", Run: n.runGetCmdLineOpts,
	}
}

func (n *Node) runGetCmdLineOpts(_ context.Context, op *command.Op) error {
	parsed := n.Process.Parsed
	if parsed == nil {
		parsed = bson.Empty
	}
	op.Reply.Strings("argv", n.Process.Argv...).Doc("parsed", parsed)
	return nil
}
