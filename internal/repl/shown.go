package repl

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// shownConfig is the collection in which MongoDB has the configuration, and where
// tools read it: in the database that each member has for itself. The set itself
// uses the configuration in Store.
var shownConfig = schema.Namespace{DB: "local", Coll: "system.replset"}

// replaceOnly makes a document the only one of a collection, which it creates where
// there is none.
func replaceOnly(ctx context.Context, c *catalog.Catalog, ns schema.Namespace, doc bson.Doc, d storage.Durability) error {
	coll := c.Lookup(ns)
	if coll == nil {
		if _, err := c.Create(ctx, ns, nil); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
			return err
		}
		coll = c.Lookup(ns)
	}
	return c.Run(ctx, d, func(u *catalog.Unit) error {
		var keys []catalog.RecordKey
		it, err := u.Reader().NewIter(coll.Ident, nil, nil)
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			keys = append(keys, append(catalog.RecordKey(nil), it.Key()...))
		}
		if err := it.Close(); err != nil {
			return err
		}
		for _, key := range keys {
			old, err := u.LockRecord(ctx, coll, key)
			if err != nil {
				return err
			}
			if err := u.Delete(ctx, coll, key, old); err != nil {
				return err
			}
		}
		return u.Insert(ctx, coll, doc)
	})
}
