package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// accountChange is one atomic change of users and roles.
type accountChange struct {
	n   *Node
	ctx context.Context
	u   *catalog.Unit
}

// changeAccounts runs f, which reads and then writes users and roles, alone.
func (n *Node) changeAccounts(ctx context.Context, f func(c *accountChange) error) error {
	n.accounts.mu.Lock()
	defer n.accounts.mu.Unlock()
	// Whoever resolves a principal from now on sees what is committed, or is told
	// by the generation to do it again.
	defer n.accounts.generation.Add(1)
	return n.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error { return f(&accountChange{n, ctx, u}) })
}

// makeAccounts makes the collection of users or roles where there is none yet;
// name is the field that names one of them.
func (n *Node) makeAccounts(ctx context.Context, ns schema.Namespace, name string) error {
	n.accounts.mu.Lock()
	defer n.accounts.mu.Unlock()
	if err := n.tellAuthSchema(ctx); err != nil {
		return err
	}
	if n.Catalog.Lookup(ns) != nil {
		return nil
	}
	if _, err := n.Catalog.Create(ctx, ns, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return err
	}
	index := new(bson.Builder).Int32("v", 2).OpenDoc("key").Int32(name, 1).Int32("db", 1).Close().
		String("name", name+"_1_db_1").Bool("unique", true).Finish()
	_, _, err := n.Catalog.CreateIndexes(ctx, ns, []bson.Doc{index})
	return err
}

// tellAuthSchema says which form users and roles have, where whoever restores a
// dump of them looks for it.
func (n *Node) tellAuthSchema(ctx context.Context) error {
	if c := n.Catalog.Lookup(versionNamespace); c != nil {
		if d, err := n.kept(versionNamespace, authSchemaID); d != nil || err != nil {
			return err
		}
	} else if _, err := n.Catalog.Create(ctx, versionNamespace, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return err
	}
	d := new(bson.Builder).String("_id", authSchemaID).Int32("currentVersion", authSchemaVersion).Finish()
	return n.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		c := n.Catalog.Lookup(versionNamespace)
		if c == nil {
			return nil // dropped: the next one tells
		}
		return u.Insert(ctx, c, d)
	})
}

// insert puts a new document; taken is the error where its _id exists.
func (c *accountChange) insert(ns schema.Namespace, d bson.Doc, taken error) error {
	err := c.u.Insert(c.ctx, c.n.Catalog.Lookup(ns), d)
	if mongoerr.Is(err, mongoerr.DuplicateKey) {
		return taken
	}
	return err
}

// replace puts d in the place of the document with its _id; missing is the error
// where there is none.
func (c *accountChange) replace(ns schema.Namespace, d bson.Doc, missing error) error {
	return c.locked(ns, d.Lookup("_id"), missing, func(coll *catalog.Collection, key catalog.RecordKey, old bson.Doc) error {
		return c.u.Update(c.ctx, coll, key, old, d)
	})
}

// remove takes a document away; missing is the error where there is none.
func (c *accountChange) remove(ns schema.Namespace, id bson.Value, missing error) error {
	return c.locked(ns, id, missing, func(coll *catalog.Collection, key catalog.RecordKey, old bson.Doc) error {
		return c.u.Delete(c.ctx, coll, key, old)
	})
}

func (c *accountChange) locked(ns schema.Namespace, id bson.Value, missing error, f func(*catalog.Collection, catalog.RecordKey, bson.Doc) error) error {
	coll := c.n.Catalog.Lookup(ns)
	if coll == nil {
		return missing
	}
	key := coll.AppendIDKey(nil, id)
	old, err := c.u.LockRecord(c.ctx, coll, key)
	if err != nil {
		return err
	}
	if old == nil {
		return missing
	}
	return f(coll, key, old)
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

// changeInherited sets what a role inherits to what f makes of what it has and
// of what the command names, once that passes check.
func (n *Node) changeInherited(ctx context.Context, op *command.Op, check func(auth.RoleName, []auth.RoleName) error,
	f func(have, named []auth.RoleName) []auth.RoleName,
) error {
	named, err := someRoles(op)
	if err != nil {
		return err
	}
	role, err := userRole(op)
	if err != nil {
		return err
	}
	return n.changeRole(ctx, role, func(d roleDocument) ([]accountField, error) {
		if err := check(role, named); err != nil {
			return nil, err
		}
		return []accountField{rolesField(f(d.roles(), named))}, nil
	})
}

// changeUserRoles sets a user's roles to what f makes of those it has and those
// that the command names.
func (n *Node) changeUserRoles(ctx context.Context, op *command.Op, f func(have, named []auth.RoleName) []auth.RoleName) error {
	name := argumentUser(op)
	named, err := someRoles(op)
	if err != nil {
		return err
	}
	return n.changeAccounts(ctx, func(c *accountChange) error {
		d, err := n.user(name)
		if err != nil {
			return err
		}
		if err := auth.RoleStore(n.role).CheckExist(named); err != nil {
			return err
		}
		have := auth.ParseRoles(d.Lookup("roles").Doc().Slice(), "")
		return c.replace(usersNamespace, withFields(d, rolesField(f(have, named))), userMissing(name))
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
