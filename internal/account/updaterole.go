package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var updateRoleFields = command.NewFields("updateRole", command.Value(command.String("").Required()),
	privilegesArgument(), rolesArgument(), restrictionsArgument())

// updateRole replaces a role's privileges, roles and restrictions.
func (s *Store) updateRole() *command.Command {
	return accountCommand("updateRole", "Used to update a role", updateRoleFields, s.runUpdateRole)
}

func (s *Store) runUpdateRole(ctx context.Context, op *command.Op) error {
	a, role := &op.Args, argumentRole(op)
	var fields []field
	privileges, err := auth.ParsePrivileges(a.Array("privileges"))
	if err != nil {
		return err
	}
	if a.Has("privileges") {
		fields = append(fields, privilegesField(privileges))
	}
	roles, err := argumentRoles(op)
	if err != nil {
		return err
	}
	if a.Has("roles") {
		fields = append(fields, rolesField(roles))
	}
	restrictions, err := argumentRestrictions(op)
	if err != nil {
		return err
	}
	if a.Has("authenticationRestrictions") {
		fields = append(fields, restrictionsField(restrictions))
	}
	if len(fields) == 0 {
		return mongoerr.New(mongoerr.BadValue, "Must specify at least one field to update in updateRole")
	}
	return s.changeAccounts(ctx, func(c *change) error {
		store := auth.RoleStore(s.role)
		if err := store.CheckExist([]auth.RoleName{role}); err != nil {
			return err
		}
		if err := store.CheckGrantable(role, roles); err != nil {
			return err
		}
		if err := privileges.CheckGrantable(role); err != nil {
			return err
		}
		return c.changeRole(role, func(d roleDocument) ([]field, error) { return fields, nil })
	})
}
