package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// dropRole removes a role, also from users and roles that have it.
func (s *Store) dropRole() *command.Command {
	fields := command.NewFields("dropRole", command.Value(command.String("").Required()))
	return accountCommand("dropRole", "Drops a single role.", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		return s.changeAccounts(ctx, func(c *change) error {
			if err := auth.RoleStore(s.role).CheckExist([]auth.RoleName{role}); err != nil {
				return err
			}
			if err := c.dropRole(role); err != nil {
				return err
			}
			return c.disinherit(func(r auth.RoleName) bool { return r == role })
		})
	})
}
