package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// whatsMyURI tells the client the address it has here.
func (p *Process) whatsMyURI() *command.Command {
	return &command.Command{
		Name: "whatsmyuri", Flags: command.NoAuth | command.Quiet, Help: "{whatsmyuri:1}",
		Run: func(_ context.Context, op *command.Op) error {
			op.Reply.String("you", op.Client.Remote)
			return nil
		},
	}
}
