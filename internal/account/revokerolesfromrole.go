package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
)

// revokeRolesFromRole removes roles that a role inherits.
func (s *Store) revokeRolesFromRole() *command.Command {
	fields := command.NewFields("revokeRolesFromRole", command.Value(command.String("").Required()), rolesArgument().Required())
	return accountCommand("revokeRolesFromRole", "Revokes roles from another role.", fields, func(ctx context.Context, op *command.Op) error {
		anything := func(auth.RoleName, []auth.RoleName) error { return nil }
		return s.changeInherited(ctx, op, anything, auth.Less)
	})
}
