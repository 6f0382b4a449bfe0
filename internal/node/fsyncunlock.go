package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// fsyncUnlock releases one of fsync's locks.
func (n *Node) fsyncUnlock() *command.Command {
	return &command.Command{
		Name: "fsyncUnlock", Flags: command.AdminOnly, Help: "unlock a database locked by fsync",
		Run: func(_ context.Context, op *command.Op) error {
			left, err := op.Dispatcher.Gate.Unlock()
			if err == nil {
				if n.Process.ResumeIdleCompaction != nil {
					n.Process.ResumeIdleCompaction()
				}
				op.Reply.String("info", "fsyncUnlock completed").Int64("lockCount", left)
			}
			return err
		},
	}
}
