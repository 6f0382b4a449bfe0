package process

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// startSession starts a session with an id from the server.
func (p *Process) startSession() *command.Command {
	return &command.Command{
		Name: "startSession", Help: "start a logical session", Run: p.runStartSession,
	}
}

func (p *Process) runStartSession(_ context.Context, op *command.Op) error {
	s, err := op.Dispatcher.Sessions.Start(op.Client.Owner())
	if err != nil {
		return err
	}
	op.Reply.OpenDoc("id").Binary("id", 4, s.ID.ID[:]).Close().
		Int32("timeoutMinutes", int32(command.SessionTimeout/time.Minute))
	return nil
}
