package cosmos

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
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

// create implements keeper. The definition is stored first: without a collection it is none, and
// the next creation of the name replaces it. The collection comes with all that it needs.
func (k local) create(ctx context.Context, c *container) error {
	ns, cat, g := namespace(c.db, c.id), k.s.o.Catalog, k.s.registry
	if cat.Lookup(ns) != nil {
		return mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists.", ns)
	}
	if err := g.put(ctx, containersNamespace, c.stored()); err != nil {
		return err
	}
	own, unique := c.indexes()
	n := catalog.NewCollection{Options: (&schema.Options{PreAndPostImages: c.retention > 0}).Doc(), Indexes: append(own, unique...)}
	if c.ttl.on {
		n.Indexes = append(n.Indexes, c.rule())
	}
	coll, err := cat.CreateWith(ctx, ns, n)
	if err != nil { // a definition that the catalog rejects leaves nothing behind
		if len(unique) > 0 && !mongoerr.Is(err, mongoerr.NamespaceExists, mongoerr.InternalError, mongoerr.OutOfDiskSpace) && !ofServers(err) {
			err = badRequest("The unique key policy is invalid: %v", err)
		}
		if gone := g.remove(ctx, containersNamespace, c.storedID()); gone != nil {
			return gone
		}
		return err
	}
	c.collect(coll)
	return nil
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
