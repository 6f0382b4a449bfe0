package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

var killCursorsFields = command.NewFields("killCursors",
	command.Collection(), command.ArrayOf("cursors", command.Int64("")).Required())

// killCursors closes cursors.
func (p *Process) killCursors() *command.Command {
	return &command.Command{
		Name: "killCursors", Fields: killCursorsFields, Flags: command.APIv1 | command.Transaction,
		Help: "Kill a list of cursor ids", Run: p.runKillCursors,
	}
}

func (p *Process) runKillCursors(_ context.Context, op *command.Op) error {
	var killed, unknown []int64
	for _, v := range op.Args.Array("cursors") {
		switch {
		case v.Type != bson.TypeInt64:
		case op.Dispatcher.Cursors.Kill(v.Int64()):
			killed = append(killed, v.Int64())
		default:
			unknown = append(unknown, v.Int64())
		}
	}
	for _, l := range []struct {
		name string
		ids  []int64
	}{{"cursorsKilled", killed}, {"cursorsNotFound", unknown}, {"cursorsAlive", nil}, {"cursorsUnknown", nil}} {
		op.Reply.OpenArray(l.name)
		for i, id := range l.ids {
			op.Reply.Int64(bson.Index(i), id)
		}
		op.Reply.Close()
	}
	return nil
}
