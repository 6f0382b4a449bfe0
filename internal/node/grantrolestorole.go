package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// grantRolesToRole lets a role inherit others.
func (n *Node) grantRolesToRole() *command.Command {
	fields := command.NewFields("grantRolesToRole", command.Value(command.String("").Required()), rolesArgument.Required())
	return accountCommand("grantRolesToRole", "Grants roles to another role.", fields, func(ctx context.Context, op *command.Op) error {
		return n.changeInherited(ctx, op, func(role auth.RoleName, named []auth.RoleName) error {
			return auth.RoleStore(n.role).CheckGrantable(role, named)
		}, auth.Union)
	})
}

// changeInherited sets what a role inherits to what f makes of what it has and
// of what the command names, once that passes check.
func (n *Node) changeInherited(ctx context.Context, op *command.Op, check func(auth.RoleName, []auth.RoleName) error,
	f func(have, named []auth.RoleName) []auth.RoleName,
) error {
	named, err := someRoles(op)
	if err != nil {
		return err
	}
	role, err := userRole(op)
	if err != nil {
		return err
	}
	return n.changeRole(ctx, role, func(d roleDocument) ([]accountField, error) {
		if err := check(role, named); err != nil {
			return nil, err
		}
		return []accountField{rolesField(f(d.roles(), named))}, nil
	})
}
