package process

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/command"
)

// killSessions ends the operations and cursors of the named sessions or, without names,
// of all sessions of the client's user.
func (p *Process) killSessions() *command.Command {
	return &command.Command{
		Name: "killSessions", Fields: sessionFields("killSessions"), Help: "kill a logical session and its operations",
		Run: func(_ context.Context, op *command.Op) error {
			ids, err := sessions(op)
			if err != nil {
				return err
			}
			user := op.Client.Owner()
			op.Dispatcher.KillSessions(op, func(s command.SessionID) bool {
				return len(ids) == 0 && s.UID == user || slices.Contains(ids, s)
			})
			return nil
		},
	}
}
