package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// refreshSessions resets the timeout of sessions.
func (p *Process) refreshSessions() *command.Command {
	return &command.Command{
		Name: "refreshSessions", Flags: command.APIv1, Fields: sessionFields("refreshSessions"),
		Help: "renew a set of logical sessions",
		Run: func(_ context.Context, op *command.Op) error {
			ids, err := sessions(op)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := op.Dispatcher.Sessions.Refresh(id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
