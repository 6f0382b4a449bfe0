package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// grantRolesToUser gives roles to a user.
func (n *Node) grantRolesToUser() *command.Command {
	fields := command.NewFields("grantRolesToUser", command.Value(command.String("").Required()), rolesArgument.Required())
	return accountCommand("grantRolesToUser", "Grants roles to a user.", fields, func(ctx context.Context, op *command.Op) error {
		return n.changeUserRoles(ctx, op, auth.Union)
	})
}

// changeUserRoles sets a user's roles to what f makes of those it has and those
// that the command names.
func (n *Node) changeUserRoles(ctx context.Context, op *command.Op, f func(have, named []auth.RoleName) []auth.RoleName) error {
	name := argumentUser(op)
	named, err := someRoles(op)
	if err != nil {
		return err
	}
	return n.changeAccounts(ctx, func(c *accountChange) error {
		d, err := n.user(name)
		if err != nil {
			return err
		}
		if err := auth.RoleStore(n.role).CheckExist(named); err != nil {
			return err
		}
		have := auth.ParseRoles(d.Lookup("roles").Doc().Slice(), "")
		return c.replace(usersNamespace, withFields(d, rolesField(f(have, named))), userMissing(name))
	})
}
