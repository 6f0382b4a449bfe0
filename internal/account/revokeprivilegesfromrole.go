package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// revokePrivilegesFromRole removes privileges from a role.
func (s *Store) revokePrivilegesFromRole() *command.Command {
	fields := command.NewFields("revokePrivilegesFromRole", command.Value(command.String("").Required()), privilegesArgument().Required())
	return accountCommand("revokePrivilegesFromRole", "Revokes privileges from a role", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		less, err := somePrivileges(op)
		if err != nil {
			return err
		}
		return s.changeRole(ctx, role, func(d roleDocument) ([]field, error) {
			kept, err := d.privileges()
			for _, p := range less {
				kept = kept.Remove(p)
			}
			return []field{privilegesField(kept)}, err
		})
	})
}
