package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// grantPrivilegesToRole adds privileges to a role.
func (s *Store) grantPrivilegesToRole() *command.Command {
	fields := command.NewFields("grantPrivilegesToRole", command.Value(command.String("").Required()), privilegesArgument().Required())
	return accountCommand("grantPrivilegesToRole", "Grants privileges to a role", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		more, err := somePrivileges(op)
		if err != nil {
			return err
		}
		if err := more.CheckGrantable(role); err != nil {
			return err
		}
		return s.changeRole(ctx, role, func(d roleDocument) ([]field, error) {
			have, err := d.privileges()
			return []field{privilegesField(have.AddAll(more))}, err
		})
	})
}
