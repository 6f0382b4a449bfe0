package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// getLog returns the last lines of the server's log.
func (p *Process) getLog() *command.Command {
	return &command.Command{
		Name: "getLog", Flags: command.AdminOnly | command.Quiet,
		Fields: command.NewFields("getLog", command.Value(command.String("").Required())),
		Help:   "{ getLog : '*' }  OR { getLog : 'global' }", Run: p.runGetLog,
	}
}

func (p *Process) runGetLog(_ context.Context, op *command.Op) error {
	name, log := op.Args.Str("getLog"), p.Log
	if name == "*" {
		var names []string
		if log != nil {
			names = log.Names()
		}
		op.Reply.Strings("names", names...)
		return nil
	}
	if log != nil {
		if lines, total, ok := log.Lines(name); ok {
			b := op.Reply.Int("totalLinesWritten", total).OpenArray("log")
			for i, line := range lines {
				b.String(bson.Index(i), line)
			}
			b.Close()
			return nil
		}
	}
	return mongoerr.New(mongoerr.OperationFailed, "No log named '%s'", name)
}
