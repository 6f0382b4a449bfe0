package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// logout forgets who the client authenticated as on the database.
func (s *Store) logout() *command.Command {
	return &command.Command{
		Name: "logout", Flags: command.NoAuth | command.APIv1, Fields: command.NewFields("logout"), Help: "de-authenticate",
		Run: func(_ context.Context, op *command.Op) error {
			if p := op.Client.Principal(); p != nil && p.User.Name.DB == op.DB {
				op.Client.SetPrincipal(nil)
			}
			return nil
		},
	}
}
