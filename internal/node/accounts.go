package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where users and roles are kept.
var (
	usersNamespace = schema.Namespace{DB: "admin", Coll: "system.users"}
	rolesNamespace = schema.Namespace{DB: "admin", Coll: "system.roles"}
)

// accounts serializes changes of users and roles.
type accounts struct {
	mu sync.Mutex
	// generation counts changes: a principal of an older one is resolved anew.
	generation atomic.Uint64
}

// kept returns the document of an _id in a collection of the server's own, or
// nil.
func (n *Node) kept(ns schema.Namespace, id string) (bson.Doc, error) {
	if n.Catalog == nil {
		return nil, nil
	}
	c := n.Catalog.Lookup(ns)
	if c == nil {
		return nil, nil
	}
	data, closer, err := n.Catalog.Engine().Get(c.Ident, c.AppendIDKey(nil, bson.String(id)))
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	defer closer.Close()
	return bson.Doc(data).Clone(), nil
}

// accountsOf returns the documents of users or roles, in order of their _id,
// all or those of one database.
func (n *Node) accountsOf(ns schema.Namespace, db string) (docs []bson.Doc, err error) {
	if n.Catalog == nil {
		return nil, nil
	}
	c := n.Catalog.Lookup(ns)
	if c == nil {
		return nil, nil
	}
	it, err := n.Catalog.Engine().NewIter(c.Ident, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		if d := bson.Doc(v); db == "" || d.Lookup("db").Type == bson.TypeString && d.Lookup("db").Str() == db {
			docs = append(docs, d.Clone())
		}
	}
	return docs, nil
}

// role is the auth.RoleStore.
func (n *Node) role(r auth.RoleName) (bson.Doc, error) { return n.kept(rolesNamespace, r.ID()) }

// user returns a user, or an error that says that there is none (code 11).
func (n *Node) user(u auth.UserName) (bson.Doc, error) {
	d, err := n.kept(usersNamespace, u.ID())
	if err == nil && d == nil {
		err = mongoerr.New(mongoerr.UserNotFound, "Could not find user \"%s\" for db \"%s\"", u.User, u.DB)
	}
	return d, err
}

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

// withFields is d with some fields replaced, or left out where they are
// Missing; what d has not comes behind.
func withFields(d bson.Doc, fields ...accountField) bson.Doc {
	var b bson.Builder
	done := map[string]bool{}
	put := func(name string, v bson.Value) {
		if !v.IsMissing() {
			b.Value(name, v)
		}
	}
	for name, v := range d.All() {
		for _, f := range fields {
			if f.name == name {
				v, done[name] = f.value, true
			}
		}
		put(name, v)
	}
	for _, f := range fields {
		if !done[f.name] {
			put(f.name, f.value)
		}
	}
	return b.Finish()
}

type accountField struct {
	name  string
	value bson.Value
}

// rolesField is the field roles of a user or a role.
func rolesField(roles []auth.RoleName) accountField {
	var b bson.Builder
	auth.WriteRoles(&b, "roles", roles)
	return accountField{"roles", b.Finish().Lookup("roles")}
}

// privilegesField is the field privileges of a role.
func privilegesField(ps auth.Privileges) accountField {
	var b bson.Builder
	ps.Write(&b, "privileges")
	return accountField{"privileges", b.Finish().Lookup("privileges")}
}

// restrictionsField is the field authenticationRestrictions; none for an empty
// array.
func restrictionsField(v bson.Value) accountField {
	if v.Doc().IsEmpty() {
		v = bson.Value{}
	}
	return accountField{"authenticationRestrictions", v}
}
