package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// replSetGetRBID returns how often this member has rolled back: never, as nothing
// takes effect before a majority has it. mongod begins to count at 1.
func (n *Node) replSetGetRBID() *command.Command {
	return &command.Command{
		Name: "replSetGetRBID", Help: "internal",
		Run: func(_ context.Context, op *command.Op) error {
			op.Reply.Int32("rbid", 1)
			return nil
		},
	}
}
