package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// dropAllUsersFromDatabase removes the users of a database.
func (s *Store) dropAllUsersFromDatabase() *command.Command {
	return accountCommand("dropAllUsersFromDatabase", "Drops all users for a single database.", command.NewFields("dropAllUsersFromDatabase"),
		func(ctx context.Context, op *command.Op) error {
			count := 0
			err := s.changeAccounts(ctx, func(c *change) error {
				users, err := s.accountsOf(usersNamespace, op.DB)
				if err != nil {
					return err
				}
				for _, d := range users {
					if err := c.remove(usersNamespace, d.Lookup("_id"), nil); err != nil {
						return err
					}
				}
				count = len(users)
				return nil
			})
			op.Reply.Int32("n", int32(count))
			return err
		})
}
