package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Create makes a collection, a view or the descriptor of a time-series
// collection, as its options say; options are validated and normalised, as
// listCollections shows them. A collection gets its index on _id. Errors: 48
// where the name is taken.
func (c *Catalog) Create(ctx context.Context, ns schema.Namespace, options bson.Doc) (*Collection, error) {
	return c.CreateWithUUID(ctx, ns, options, NewUUID())
}

// CreateWithUUID is Create with a chosen UUID.
func (c *Catalog) CreateWithUUID(ctx context.Context, ns schema.Namespace, options bson.Doc, uuid UUID) (*Collection, error) {
	coll, err := c.newCollection(ns, options, uuid)
	if err != nil {
		return nil, err
	}
	err = c.change(ctx, func(t *change) error {
		if c.Lookup(ns) != nil {
			return exists(ns)
		}
		return t.store(coll)
	})
	if err != nil {
		return nil, err
	}
	return coll, nil
}

func exists(ns schema.Namespace) error {
	return mongoerr.New(mongoerr.NamespaceExists, "Collection %s already exists.", ns)
}

func (c *Catalog) newCollection(ns schema.Namespace, options bson.Doc, uuid UUID) (*Collection, error) {
	if options == nil {
		options = bson.Empty
	}
	coll := &Collection{Namespace: ns, UUID: uuid, Options: options, live: &live{}}
	if err := coll.applyOptions(); err != nil {
		return nil, err
	}
	var err error
	if coll.id, err = c.engine.NewIdent(); err != nil {
		return nil, err
	}
	if coll.IsView() || coll.IsTimeseries() {
		return coll, nil
	}
	coll.Ident = coll.id
	ident := coll.Ident
	if !coll.ClusteredByID() {
		if ident, err = c.engine.NewIdent(); err != nil {
			return nil, err
		}
	}
	id, err := idIndex(coll.Settings)
	if err != nil {
		return nil, err
	}
	coll.indexes = []*Index{newIndex(id, ident, ident == coll.Ident, true)}
	return coll, c.openLive(coll)
}

// idIndex is the index on _id; for a clustered collection the entry that
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
