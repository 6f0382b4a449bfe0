package account

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

// change is one atomic change of users and roles.
type change struct {
	s   *Store
	ctx context.Context
	u   *catalog.Unit
}

// changeAccounts runs f, which reads and then writes users and roles,
// exclusively.
func (s *Store) changeAccounts(ctx context.Context, f func(c *change) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Principals that are resolved from now on see what is committed, or are
	// resolved again because of the generation.
	defer s.generation.Add(1)
	return s.catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error { return f(&change{s, ctx, u}) })
}

// makeAccounts creates the collection of users or roles if there is none
// yet; name is the field with the name of one.
func (s *Store) makeAccounts(ctx context.Context, ns schema.Namespace, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.tellAuthSchema(ctx); err != nil {
		return err
	}
	if s.catalog.Lookup(ns) != nil {
		return nil
	}
	if _, err := s.catalog.Create(ctx, ns, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return err
	}
	index := new(bson.Builder).Int32("v", 2).OpenDoc("key").Int32(name, 1).Int32("db", 1).Close().
		String("name", name+"_1_db_1").Bool("unique", true).Finish()
	_, _, err := s.catalog.CreateIndexes(ctx, ns, []bson.Doc{index})
	return err
}

// tellAuthSchema writes the schema version of users and roles where
// mongorestore reads it.
func (s *Store) tellAuthSchema(ctx context.Context) error {
	if c := s.catalog.Lookup(versionNamespace); c != nil {
		if d, err := s.kept(versionNamespace, authSchemaID); d != nil || err != nil {
			return err
		}
	} else if _, err := s.catalog.Create(ctx, versionNamespace, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
		return err
	}
	d := new(bson.Builder).String("_id", authSchemaID).Int32("currentVersion", authSchemaVersion).Finish()
	return s.catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		c := s.catalog.Lookup(versionNamespace)
		if c == nil {
			return nil // dropped: the next change writes it
		}
		return u.Insert(ctx, c, d)
	})
}

// insert inserts a document; taken is the error where its _id exists.
func (c *change) insert(ns schema.Namespace, d bson.Doc, taken error) error {
	err := c.u.Insert(c.ctx, c.s.catalog.Lookup(ns), d)
	if mongoerr.Is(err, mongoerr.DuplicateKey) {
		return taken
	}
	return err
}

// replace replaces the document with the same _id by d; missing is the error
// if there is none.
func (c *change) replace(ns schema.Namespace, d bson.Doc, missing error) error {
	return c.locked(ns, d.Lookup("_id"), missing, func(coll *catalog.Collection, key catalog.RecordKey, old bson.Doc) error {
		return c.u.Update(c.ctx, coll, key, old, d)
	})
}

// remove deletes a document; missing is the error if there is none.
func (c *change) remove(ns schema.Namespace, id bson.Value, missing error) error {
	return c.locked(ns, id, missing, func(coll *catalog.Collection, key catalog.RecordKey, old bson.Doc) error {
		return c.u.Delete(c.ctx, coll, key, old)
	})
}

func (c *change) locked(ns schema.Namespace, id bson.Value, missing error, f func(*catalog.Collection, catalog.RecordKey, bson.Doc) error) error {
	coll := c.s.catalog.Lookup(ns)
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

// changeRole replaces fields of a role by those that f returns.
func (s *Store) changeRole(ctx context.Context, role auth.RoleName, f func(roleDocument) ([]field, error)) error {
	return s.changeAccounts(ctx, func(c *change) error { return c.changeRole(role, f) })
}

func (c *change) changeRole(role auth.RoleName, f func(roleDocument) ([]field, error)) error {
	d, err := c.s.role(role)
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

// changeInherited sets the roles that a role inherits to what f returns for
// those it has and those that the command names, once that passes check.
func (s *Store) changeInherited(ctx context.Context, op *command.Op, check func(auth.RoleName, []auth.RoleName) error,
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
	return s.changeRole(ctx, role, func(d roleDocument) ([]field, error) {
		if err := check(role, named); err != nil {
			return nil, err
		}
		return []field{rolesField(f(d.roles(), named))}, nil
	})
}

// changeUserRoles sets a user's roles to what f returns for those it has and
// those that the command names.
func (s *Store) changeUserRoles(ctx context.Context, op *command.Op, f func(have, named []auth.RoleName) []auth.RoleName) error {
	name := argumentUser(op)
	named, err := someRoles(op)
	if err != nil {
		return err
	}
	return s.changeAccounts(ctx, func(c *change) error {
		d, err := s.user(name)
		if err != nil {
			return err
		}
		if err := auth.RoleStore(s.role).CheckExist(named); err != nil {
			return err
		}
		have := auth.ParseRoles(d.Lookup("roles").Doc().Slice(), "")
		return c.replace(usersNamespace, withFields(d, rolesField(f(have, named))), userMissing(name))
	})
}

func (c *change) dropRole(r auth.RoleName) error {
	return c.remove(rolesNamespace, bson.String(r.ID()), roleMissing(r))
}

// disinherit removes dropped roles from all users and roles that have them and
// are not dropped themselves.
func (c *change) disinherit(gone func(auth.RoleName) bool) error {
	for _, ns := range []schema.Namespace{usersNamespace, rolesNamespace} {
		docs, err := c.s.accountsOf(ns, "")
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
