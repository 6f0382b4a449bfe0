package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// grantRolesToUser gives roles to a user.
func (s *Store) grantRolesToUser() *command.Command {
	fields := command.NewFields("grantRolesToUser", command.Value(command.String("").Required()), rolesArgument().Required())
	return accountCommand("grantRolesToUser", "Grants roles to a user.", fields, func(ctx context.Context, op *command.Op) error {
		return s.changeUserRoles(ctx, op, auth.Union)
	})
}
