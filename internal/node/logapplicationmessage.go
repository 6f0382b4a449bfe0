package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// logApplicationMessage writes a client's message into the server's log.
func (n *Node) logApplicationMessage() *command.Command {
	return &command.Command{
		Name: "logApplicationMessage", Flags: command.AdminOnly, Help: "Insert a custom message into the audit log",
		Fields: command.NewFields("logApplicationMessage", command.Value(command.String("").Required())),
		Run: func(ctx context.Context, op *command.Op) error {
			n.Log.InfoContext(ctx, "Application message", "c", "COMMAND", "id", 9000010, "message", op.Args.Str("logApplicationMessage"))
			return nil
		},
	}
}
