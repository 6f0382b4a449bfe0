package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// whatsMyURI returns the client's address as the server sees it.
func (p *Process) whatsMyURI() *command.Command {
	return &command.Command{
		Name: "whatsmyuri", Flags: command.NoAuth | command.Quiet, Help: "{whatsmyuri:1}",
		Run: func(_ context.Context, op *command.Op) error {
			op.Reply.String("you", op.Client.Remote)
			return nil
		},
	}
}
