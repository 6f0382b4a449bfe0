package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// dropRole removes a role, from those who have it too.
func (n *Node) dropRole() *command.Command {
	fields := command.NewFields("dropRole", command.Value(command.String("").Required()))
	return accountCommand("dropRole", "Drops a single role.", fields, func(ctx context.Context, op *command.Op) error {
		role, err := userRole(op)
		if err != nil {
			return err
		}
		return n.changeAccounts(ctx, func(c *accountChange) error {
			if err := auth.RoleStore(n.role).CheckExist([]auth.RoleName{role}); err != nil {
				return err
			}
			if err := c.dropRole(role); err != nil {
				return err
			}
			return c.disinherit(func(r auth.RoleName) bool { return r == role })
		})
	})
}

func (c *accountChange) dropRole(r auth.RoleName) error {
	return c.remove(rolesNamespace, bson.String(r.ID()), roleMissing(r))
}

// disinherit takes the roles that are gone from all users and roles that have
// them and are not among those themselves.
func (c *accountChange) disinherit(gone func(auth.RoleName) bool) error {
	for _, ns := range []schema.Namespace{usersNamespace, rolesNamespace} {
		docs, err := c.n.accountsOf(ns, "")
		if err != nil {
			return err
		}
		for _, d := range docs {
			roles := auth.ParseRoles(d.Lookup("roles").Doc().Slice(), "")
			if !slices.ContainsFunc(roles, gone) || ns == rolesNamespace && gone(roleNamed(d)) {
				continue
			}
			if err := c.replace(ns, withFields(d, rolesField(slices.DeleteFunc(roles, gone))), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// roleNamed is the name of the role that a document describes.
func roleNamed(d bson.Doc) auth.RoleName {
	return auth.RoleName{Role: d.Lookup("role").Str(), DB: d.Lookup("db").Str()}
}
