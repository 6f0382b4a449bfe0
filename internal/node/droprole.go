package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// dropRole removes a role, from those who have it too.
func (n *Node) dropRole() *command.Command {
	fields := command.NewFields("dropRole", command.Value(command.String("").Required()))
	return accountCommand("dropRole", "Drops a single role.", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		return n.changeAccounts(ctx, func(c *accountChange) error {
			if err := auth.RoleStore(n.role).CheckExist([]auth.RoleName{role}); err != nil {
				return err
			}
			if err := c.dropRole(role); err != nil {
				return err
			}
			return c.disinherit(func(r auth.RoleName) bool { return r == role })
		})
	})
}
