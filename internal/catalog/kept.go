package catalog

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Kept returns the document with an _id, as last committed, from an internal
// collection that is clustered by _id; nil if there is none. The caller owns it.
func (c *Catalog) Kept(ns schema.Namespace, id bson.Value) (bson.Doc, error) {
	coll := c.Lookup(ns)
	if coll == nil {
		return nil, nil
	}
	data, closer, err := c.Engine().Get(coll.Ident, coll.AppendIDKey(nil, id))
	if err != nil {
		if errors.Is(err, storage.ErrNotFound) {
			return nil, nil
		}
		return nil, err
	}
	defer closer.Close()
	return bson.Doc(data).Clone(), nil
}

// Unkeep removes the document with an _id from such a collection, if it is there.
func (c *Catalog) Unkeep(ctx context.Context, ns schema.Namespace, id bson.Value) error {
	coll := c.Lookup(ns)
	if coll == nil {
		return nil
	}
	key := coll.AppendIDKey(nil, id)
	return c.Run(ctx, storage.Journaled, func(u *Unit) error {
		old, err := u.LockRecord(ctx, coll, key)
		if err != nil || old == nil {
			return err
		}
		return u.Delete(ctx, coll, key, old)
	})
}

// Keep makes doc the document with its _id in such a collection, which it creates where
// there is none.
func (c *Catalog) Keep(ctx context.Context, ns schema.Namespace, doc bson.Doc) error {
	coll := c.Lookup(ns)
	if coll == nil {
		if _, err := c.Create(ctx, ns, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
			return err
		}
		coll = c.Lookup(ns)
	}
	key := coll.AppendIDKey(nil, doc.Lookup("_id"))
	return c.Run(ctx, storage.Journaled, func(u *Unit) error {
		old, err := u.LockRecord(ctx, coll, key)
		if err != nil {
			return err
		}
		if old == nil {
			return u.Insert(ctx, coll, doc)
		}
		return u.Update(ctx, coll, key, old, doc)
	})
}
