package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// dropAllRolesFromDatabase removes the user-defined roles of a database.
func (s *Store) dropAllRolesFromDatabase() *command.Command {
	return accountCommand("dropAllRolesFromDatabase", "Drops all roles from the given database.", command.NewFields("dropAllRolesFromDatabase"),
		func(ctx context.Context, op *command.Op) error {
			count := 0
			err := s.changeAccounts(ctx, func(c *change) error {
				docs, err := s.accountsOf(rolesNamespace, op.DB)
				if err != nil {
					return err
				}
				for _, d := range docs {
					if err := c.dropRole(roleNamed(d)); err != nil {
						return err
					}
				}
				count = len(docs)
				return c.disinherit(func(r auth.RoleName) bool { return r.DB == op.DB && !r.IsBuiltin() })
			})
			op.Reply.Int32("n", int32(count))
			return err
		})
}
