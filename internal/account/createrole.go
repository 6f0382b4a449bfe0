package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var createRoleFields = command.NewFields("createRole", command.Value(command.String("").Required()),
	privilegesArgument().Required(), rolesArgument().Required(), restrictionsArgument())

// createRole creates a role.
func (s *Store) createRole() *command.Command {
	return accountCommand("createRole", "Adds a role to the system", createRoleFields, s.runCreateRole)
}

func (s *Store) runCreateRole(ctx context.Context, op *command.Op) error {
	role := argumentRole(op)
	if err := checkNewRole(role); err != nil {
		return err
	}
	privileges, err := auth.ParsePrivileges(op.Args.Array("privileges"))
	if err != nil {
		return err
	}
	roles, err := argumentRoles(op)
	if err != nil {
		return err
	}
	restrictions, err := argumentRestrictions(op)
	if err != nil {
		return err
	}
	d := new(bson.Builder).String("_id", role.ID()).String("role", role.Role).String("db", role.DB).Finish()
	d = withFields(d, privilegesField(privileges), rolesField(roles), restrictionsField(restrictions))
	if err := s.makeAccounts(ctx, rolesNamespace, "role"); err != nil {
		return err
	}
	return s.changeAccounts(ctx, func(c *change) error {
		if err := auth.RoleStore(s.role).CheckGrantable(role, roles); err != nil {
			return err
		}
		if err := privileges.CheckGrantable(role); err != nil {
			return err
		}
		return c.insert(rolesNamespace, d, mongoerr.New(51002, "Role \"%s\" already exists", role))
	})
}

func checkNewRole(role auth.RoleName) error {
	bad := func(message string) error { return mongoerr.New(mongoerr.BadValue, "%s", message) }
	switch {
	case role.Role == "":
		return bad("Role name must be non-empty")
	case role.DB == "local":
		return bad("Cannot create roles in the local database")
	case role.DB == auth.External:
		return bad("Cannot create roles in the $external database")
	case role.IsBuiltin():
		return bad("Cannot create roles with the same name as a built-in role")
	}
	return nil
}
