package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// top returns how often and how long each collection was used since the start.
func (n *Node) top() *command.Command {
	return &command.Command{
		Name: "top", Flags: command.AdminOnly, Help: "usage by collection, in micros ",
		Run: func(_ context.Context, op *command.Op) error {
			op.Reply.OpenDoc("totals").String("note", "all times in microseconds")
			op.Dispatcher.Top.Append(op.Reply)
			op.Reply.Close()
			return nil
		},
	}
}
