package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// revokePrivilegesFromRole takes from what a role may do.
func (n *Node) revokePrivilegesFromRole() *command.Command {
	fields := command.NewFields("revokePrivilegesFromRole", command.Value(command.String("").Required()), privilegesArgument.Required())
	return accountCommand("revokePrivilegesFromRole", "Revokes privileges from a role", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		less, err := somePrivileges(op)
		if err != nil {
			return err
		}
		return n.changeRole(ctx, role, func(d roleDocument) ([]accountField, error) {
			kept, err := d.privileges()
			for _, p := range less {
				kept = kept.Remove(p)
			}
			return []accountField{privilegesField(kept)}, err
		})
	})
}
