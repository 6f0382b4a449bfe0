package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

var userFields = command.NewFields("killAllSessions", command.String("user").Required(), command.String("db").Required())

var killAllSessionsFields = command.NewFields("killAllSessions",
	command.Value(command.ArrayOf("", command.Struct("", userFields)).Required())).Lenient()

// killAllSessions ends the operations and cursors of all sessions of the named users
// or, without names, of all users.
func (p *Process) killAllSessions() *command.Command {
	return &command.Command{
		Name: "killAllSessions", Fields: killAllSessionsFields, Help: "kill all logical sessions, for a user, and their operations",
		Run: func(_ context.Context, op *command.Op) error {
			users := map[[32]byte]bool{}
			for _, u := range op.Args.Structs("killAllSessions") {
				users[command.UserDigest(u.Str("user"), u.Str("db"))] = true
			}
			op.Dispatcher.KillSessions(op, func(s command.SessionID) bool { return len(users) == 0 || users[s.UID] })
			return nil
		},
	}
}
