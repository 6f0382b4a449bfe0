package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
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

// roleDocument is a document of admin.system.roles.
type roleDocument bson.Doc

func (d roleDocument) privileges() (auth.Privileges, error) {
	return auth.ParsePrivileges(bson.Doc(d).Lookup("privileges").Doc().Slice())
}

func (d roleDocument) roles() []auth.RoleName {
	return auth.ParseRoles(bson.Doc(d).Lookup("roles").Doc().Slice(), "")
}

// changeRole replaces fields of a role by those that f makes of it.
func (n *Node) changeRole(ctx context.Context, role auth.RoleName, f func(roleDocument) ([]accountField, error)) error {
	return n.changeAccounts(ctx, func(c *accountChange) error { return c.changeRole(role, f) })
}

func (c *accountChange) changeRole(role auth.RoleName, f func(roleDocument) ([]accountField, error)) error {
	d, err := c.n.role(role)
	if err != nil {
		return err
	}
	if d == nil {
		return roleMissing(role)
	}
	fields, err := f(roleDocument(d))
	if err != nil {
		return err
	}
	return c.replace(rolesNamespace, withFields(d, fields...), roleMissing(role))
}
