package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// grantPrivilegesToRole adds to what a role may do.
func (n *Node) grantPrivilegesToRole() *command.Command {
	fields := command.NewFields("grantPrivilegesToRole", command.Value(command.String("").Required()), privilegesArgument.Required())
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
		return n.changeRole(ctx, role, func(d roleDocument) ([]accountField, error) {
			have, err := d.privileges()
			return []accountField{privilegesField(have.AddAll(more))}, err
		})
	})
}
