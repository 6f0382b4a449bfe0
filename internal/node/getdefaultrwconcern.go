package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

var getDefaultRWConcernFields = command.NewFields("getDefaultRWConcern", command.Bool("inMemory"))

// getDefaultRWConcern answers with the concerns of clients that give none. (Manual:
// database command getDefaultRWConcern.)
func (n *Node) getDefaultRWConcern() *command.Command {
	return &command.Command{
		Name: "getDefaultRWConcern", Fields: getDefaultRWConcernFields, Help: "get the current read/write concern defaults (cluster-wide)",
		Run: n.runGetDefaultRWConcern,
	}
}

func (n *Node) runGetDefaultRWConcern(_ context.Context, op *command.Op) error {
	d, err := n.loadConcerns()
	if err != nil {
		return err
	}
	d.append(op.Reply)
	op.Reply.Date("localUpdateWallClockTime", time.Now().UnixMilli())
	if op.Args.Bool("inMemory") {
		op.Reply.Bool("inMemory", true)
	}
	return nil
}
