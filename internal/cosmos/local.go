package cosmos

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// local is the keeper of a server that is in no cluster: collections are in its catalog.
type local struct{ s *Server }

// load implements keeper.
func (k local) load(ctx context.Context, c *container, adopts bool) error {
	coll := k.s.o.Catalog.Lookup(namespace(c.db, c.id))
	if coll == nil {
		return nil
	}
	c.collect(coll)
	if err := c.findNumbers(ctx, k.s.o.Exec); err != nil {
		return err
	}
	if adopts && c.retention > 0 && k.s.o.Member != nil {
		if err := k.s.keepImages(ctx, c, true); err != nil {
			return err
		}
	}
	return k.s.setRule(ctx, c)
}

// retain implements keeper.
func (k local) retain(ctx context.Context) error { return k.s.retain(ctx) }

// exists implements keeper.
func (k local) exists(c *container) bool { return c.collection.Latest() != nil }

// create implements keeper.
func (k local) create(ctx context.Context, c *container) error {
	ns, cat := namespace(c.db, c.id), k.s.o.Catalog
	if _, err := cat.Create(ctx, ns, (&schema.Options{PreAndPostImages: c.retention > 0}).Doc()); err != nil {
		return err
	}
	own, unique := c.indexes()
	_, _, err := cat.CreateIndexes(ctx, ns, own)
	for _, spec := range unique {
		if err == nil {
			if _, _, err = cat.CreateIndexes(ctx, ns, []bson.Doc{spec}); err != nil {
				err = badRequest("The unique key policy is invalid: %v", err)
			}
		}
	}
	if err != nil { // a definition that the catalog rejects leaves nothing behind
		if _, dropErr := cat.Drop(ctx, ns); dropErr != nil {
			return dropErr
		}
		return err
	}
	c.collect(cat.Lookup(ns))
	return k.s.setRule(ctx, c)
}

// change implements keeper.
func (k local) change(ctx context.Context, c *container) error {
	if err := k.s.keepImages(ctx, c, c.retention > 0); err != nil {
		return err
	}
	return k.s.setRule(ctx, c)
}

// drop implements keeper. It ignores what MongoDB clients have dropped already.
func (k local) drop(ctx context.Context, c *container) error {
	_, err := k.s.o.Catalog.Drop(ctx, c.collection.Namespace)
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	return err
}

// names implements keeper.
func (k local) names(_ context.Context, db string) (all []schema.Namespace, err error) {
	for _, c := range k.s.o.Catalog.Collections(db) {
		all = append(all, c.Namespace)
	}
	return all, nil
}
