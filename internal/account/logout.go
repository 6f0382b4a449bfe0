package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// logout forgets who the client authenticated as on the database.
func (s *Store) logout() *command.Command {
	return &command.Command{
		Name: "logout", Flags: command.NoAuth | command.APIv1, Fields: command.NewFields("logout"), Help: "de-authenticate",
		Run: func(_ context.Context, op *command.Op) error {
			p := op.Client.Principal()
			if p == nil || p.User.Name.DB != op.DB {
				return nil
			}
			b := new(bson.Builder).String("reason", "Logging out on user request").OpenArray("initialUsers").OpenDoc("0")
			p.User.Name.Write(b)
			b.Close().Close().OpenArray("updatedUsers").Close()
			if err := op.Audit("logout", b.Finish(), 0); err != nil {
				return err
			}
			op.Client.SetPrincipal(nil)
			return nil
		},
	}
}
