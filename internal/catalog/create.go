package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// NewCollection describes what CreateWith creates.
type NewCollection struct {
	// Options are validated and normalised, as schema.Options.Doc returns them;
	// nil for none.
	Options bson.Doc
	// IDIndex is the specification of the index on _id, where one was given.
	IDIndex *schema.Index
	// UUID is chosen at random if it is zero.
	UUID UUID
	// Sharding makes it a sharded collection; nil for none.
	Sharding *schema.Sharding
	// Indexes are created with it, whole or not at all; see CreateIndexes. What CreateWith
	// returns does not have them yet, its Latest does. Not for views and time series.
	Indexes []bson.Doc
}

// Create creates a collection, a view or a time-series collection, as its
// options say. A collection gets its index on _id. Errors: 48 if the name is
// taken.
func (c *Catalog) Create(ctx context.Context, ns schema.Namespace, options bson.Doc) (*Collection, error) {
	return c.CreateWith(ctx, ns, NewCollection{Options: options})
}

// CreateWith is Create with all choices. Errors: those of CreateIndexes, too, where there are
// some.
func (c *Catalog) CreateWith(ctx context.Context, ns schema.Namespace, n NewCollection) (*Collection, error) {
	var coll *Collection
	err := c.change(ctx, nothing, func(t *change) (err error) {
		if coll, err = t.newCollection(ns, n); err != nil {
			return err
		}
		if c.Lookup(ns) != nil {
			return exists(ns)
		}
		if err := c.CheckCase(ns.DB); err != nil {
			return err
		}
		t.command(coll, "create", func(b *bson.Builder) {
			b.Fields(coll.Options)
			if n.IDIndex != nil {
				b.Doc("idIndex", n.IDIndex.Spec)
			}
		})
		if len(n.Indexes) == 0 {
			return t.store(coll)
		}
		if coll.live.gate.TryLock() { // as nobody else sees it yet
			t.gates = append(t.gates, coll.live)
		}
		_, _, err = t.addIndexes(ctx, coll, n.Indexes)
		return err
	})
	if err != nil {
		return nil, err
	}
	return coll, nil
}

func exists(ns schema.Namespace) error {
	return mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists.", ns)
}

func (t *change) newCollection(ns schema.Namespace, n NewCollection) (*Collection, error) {
	coll := &Collection{Namespace: ns, UUID: n.UUID, Options: n.Options, live: &live{}, derived: &derived{}}
	coll.sharding = n.Sharding
	if coll.Options == nil {
		coll.Options = bson.Empty
	}
	if coll.UUID == (UUID{}) {
		coll.UUID = bson.NewUUID()
	}
	if err := coll.applyOptions(); err != nil {
		return nil, err
	}
	coll.id = t.u.NewIdent(identRange(ns))
	coll.live.id = coll.id
	if coll.IsView() {
		return coll, nil
	}
	coll.Ident = coll.id
	if coll.IsTimeseries() {
		return coll, t.newTimeseries(coll)
	}
	ident := coll.Ident
	if !coll.ClusteredByID() {
		ident = t.u.NewIdent(identRange(ns))
	}
	id, err := n.IDIndex, error(nil)
	if id == nil {
		if id, err = idIndex(coll.Settings); err != nil {
			return nil, err
		}
	}
	ix, err := newIndex(coll, id, ident, false, true)
	if err != nil {
		return nil, err
	}
	coll.indexes = []*Index{ix}
	return coll, t.c.openLive(coll)
}

// idIndex returns the index on _id; for a clustered collection the entry that
// listIndexes shows in its place.
func idIndex(o *schema.Options) (*schema.Index, error) {
	if o.Clustered == nil {
		return schema.IDIndex(o.Collation), nil
	}
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key").Int32("_id", 1).Close().String("name", o.Clustered.Name)
	b.Bool("unique", true).Bool("clustered", true)
	return schema.LoadIndex(b.Finish())
}
