package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// getCmdLineOpts returns the options that the server was started with.
func (p *Process) getCmdLineOpts() *command.Command {
	return &command.Command{
		Name: "getCmdLineOpts", Flags: command.AdminOnly, Fields: command.NewFields("getCmdLineOpts"),
		Help: "get argv", Run: p.runGetCmdLineOpts,
	}
}

func (p *Process) runGetCmdLineOpts(_ context.Context, op *command.Op) error {
	parsed := p.Parsed
	if parsed == nil {
		parsed = bson.Empty
	}
	op.Reply.Strings("argv", p.Argv...).Doc("parsed", parsed)
	return nil
}
