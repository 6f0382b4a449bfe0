package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// grantRolesToRole lets a role inherit others.
func (s *Store) grantRolesToRole() *command.Command {
	fields := command.NewFields("grantRolesToRole", command.Value(command.String("").Required()), rolesArgument().Required())
	return accountCommand("grantRolesToRole", "Grants roles to another role.", fields, func(ctx context.Context, op *command.Op) error {
		return s.changeInherited(ctx, op, func(role auth.RoleName, named []auth.RoleName) error {
			return auth.RoleStore(s.role).CheckGrantable(role, named)
		}, auth.Union)
	})
}
