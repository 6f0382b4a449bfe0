package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// revokeRolesFromUser removes roles from a user.
func (s *Store) revokeRolesFromUser() *command.Command {
	fields := command.NewFields("revokeRolesFromUser", command.Value(command.String("").Required()), rolesArgument().Required())
	return accountCommand("revokeRolesFromUser", "Revokes roles from a user.", fields, func(ctx context.Context, op *command.Op) error {
		return s.changeUserRoles(ctx, op, auth.Less)
	})
}
