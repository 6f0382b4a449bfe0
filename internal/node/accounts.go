package node

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where users and roles are kept.
var (
	usersNamespace = schema.Namespace{DB: "admin", Coll: "system.users"}
	rolesNamespace = schema.Namespace{DB: "admin", Coll: "system.roles"}
	// versionNamespace has a document that says which form they have.
	versionNamespace = schema.Namespace{DB: "admin", Coll: "system.version"}
)

const (
	authSchemaID      = "authSchema"
	authSchemaVersion = 5
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
