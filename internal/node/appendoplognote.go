package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

var appendOplogNoteFields = command.NewFields("appendOplogNote", command.Object("data").Required(), command.Timestamp("maxClusterTime")).Lenient()

// appendOplogNote appends a document to the set's log that changes nothing.
// (Manual: privilege action appendOplogNote.)
func (n *Node) appendOplogNote() *command.Command {
	return &command.Command{
		Name: "appendOplogNote", Flags: command.TakesWriteConcern, Help: "Adds a no-op entry to the oplog", Run: n.runAppendOplogNote,
	}
}

func (n *Node) runAppendOplogNote(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, appendOplogNoteFields)
	if err != nil {
		return err
	}
	m := n.Dispatcher.Member
	if v := a.Value("maxClusterTime"); !v.IsMissing() {
		if at, last := repl.Timestamp(v.Timestamp()), m.Applied().Time; at <= last {
			return mongoerr.New(mongoerr.StaleClusterTime, "Requested maxClusterTime %s is less or equal to the last primary OpTime: %s", at, last)
		}
	}
	_, err = m.Note(ctx, a.Doc("data"))
	return err
}
