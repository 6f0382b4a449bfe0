package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// CurrentOp lists the running operations. Fields that are not options filter them.
func (p *Process) CurrentOp() *command.Command {
	return &command.Command{Name: "currentOp", Flags: command.AdminOnly, Help: "show current operations", Run: p.runCurrentOp}
}

func (p *Process) runCurrentOp(_ context.Context, op *command.Op) error {
	options := command.CurrentOpOptions{
		Truncate: true, IdleSessions: true, For: op,
		OwnOps: op.Body.Lookup("$ownOps").Truthy(), // the first one, as access control reads it
	}
	var filter bson.Builder
	first := true
	for name, v := range op.Body.All() {
		switch {
		case first:
			first = false
		case name == "$ownOps":
		case name == "$all":
			options.IdleConnections = v.Truthy()
		case name == "$truncateOps":
			options.Truncate = v.Truthy()
		case name == "comment" || command.IsGeneric(name):
		default:
			filter.Value(name, v)
		}
	}
	f, err := match.Parse(filter.Finish(), &match.Options{})
	if err != nil {
		return err
	}
	b := op.Reply.OpenArray("inprog")
	i := 0
	for _, d := range op.Dispatcher.CurrentOps(options) {
		ok, err := f.Match(d)
		if err != nil {
			return err
		}
		if ok {
			b.Doc(bson.Index(i), d)
			i++
		}
	}
	b.Close()
	if op.Dispatcher.Gate.Locks() > 0 {
		b.Bool("fsyncLock", true).String("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock")
	}
	return nil
}
