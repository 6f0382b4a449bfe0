package catalog

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
)

// CreateIndexes creates the indexes of specs, which schema.ParseIndexSpec has returned,
// and builds them in one scan, without keeping writers out. It returns when they are
// ready, with the number of indexes before and after. Indexes that exist are left as
// they are; it waits for those that another call is building. Where it fails or ctx
// ends, none of the new ones remains. Errors: 26, those of schema.ResolveIndexes, 11000,
// 276 if the build was aborted, and those of the documents' keys.
func (c *Catalog) CreateIndexes(ctx context.Context, ns schema.Namespace, specs []bson.Doc) (before, after int, err error) {
	return c.CreateIndexesWhen(ctx, ns, specs, nil)
}

// CreateIndexesWhen is CreateIndexes whose build, if there is one, calls built once all
// entries are written, and makes the indexes ready when that returns. built may block; its
// error fails the build. Nil for nothing.
func (c *Catalog) CreateIndexesWhen(ctx context.Context, ns schema.Namespace, specs []bson.Doc, built func(context.Context, UUID) error) (before, after int, err error) {
	for {
		var b *build
		var other *build
		err = c.change(ctx, c.named(ns), func(t *change) error {
			coll, err := t.find(ns)
			if err != nil {
				return err
			}
			before = len(coll.indexes)
			b, other, err = t.addIndexes(ctx, coll, specs)
			return err
		})
		switch {
		case err != nil:
			return before, before, err
		case other != nil:
			select {
			case <-other.done:
				continue
			case <-ctx.Done():
				return before, before, context.Cause(ctx)
			}
		case b == nil:
			return before, c.countIndexes(ns), nil
		}
		b.built = built
		if err := b.run(); err != nil {
			return before, before, err
		}
		return before, c.countIndexes(ns), nil
	}
}

func (c *Catalog) countIndexes(ns schema.Namespace) int {
	if coll := c.Lookup(ns); coll != nil {
		return len(coll.indexes)
	}
	return 0
}

// cluster lays out an empty collection by windows of expiry, or by its shard key; its
// index on _id has entries from then on.
func (t *change) cluster(coll *Collection, w layout.Layout) error {
	id := *coll.indexes[0]
	id.Ident, id.Records, id.ByPrefix = t.u.NewIdent(coll.identRange()), false, w
	coll.indexes[0] = &id
	coll.setLayout(w)
	return t.serve(coll)
}

// serve lets the records of an empty collection be the entries of those indexes that its
// layout serves, and gives others keyspaces of their own that had none.
func (t *change) serve(coll *Collection) error {
	for i, ix := range coll.indexes {
		served := coll.serves(ix)
		if i == 0 || served == (ix.OnPlace != nil) {
			continue
		}
		n := *ix
		n.OnPlace = nil
		if served {
			n.OnPlace = coll.layout.(*layout.ByKey)
		}
		switch {
		case served && !n.OnPlace.SetsApart():
			if err := t.dropEntries(ix); err != nil {
				return err
			}
			n.Ident, n.Records = coll.Ident, true
		case ix.Records:
			n.Ident, n.Records = t.u.NewIdent(coll.identRange()), false
		}
		coll.indexes[i] = &n
	}
	return nil
}

// newIndex makes an index of a collection, with a keyspace for its entries unless the records
// are all of those.
func (t *change) newIndex(coll *Collection, s *schema.Index, ready bool) (*Index, error) {
	served := coll.layout.Serves(s)
	if served && !coll.layout.(*layout.ByKey).SetsApart() {
		return newIndex(coll, s, coll.Ident, true, ready)
	}
	return newIndex(coll, s, t.u.NewIdent(coll.identRange()), served, ready)
}

// serves reports whether the records can be the entries of an index.
func (c *Collection) serves(ix *Index) bool {
	return ix.Form != nil && c.layout.Serves(ix.Index) && !ix.Multikey().Any()
}

// addIndexes stages new indexes: ready ones if there are no documents, else
// ones that b builds. other is a build by another call to wait for instead.
func (t *change) addIndexes(ctx context.Context, coll *Collection, specs []bson.Doc) (b, other *build, err error) {
	specs = slices.Clone(specs)
	second := t.c.Clock.Stamped()
	for i, s := range specs {
		specs[i] = schema.WatchedFrom(s, second)
	}
	fresh, existed, err := schema.ResolveIndexes(coll.Namespace, coll.Settings, coll.schemaIndexes(), specs)
	if err != nil {
		return nil, nil, err
	}
	if existed {
		for _, s := range specs {
			if ix := coll.Index(s.Lookup("name").Str()); ix != nil && !ix.Ready {
				return nil, ix.live.build, nil
			}
		}
	}
	if len(fresh) == 0 {
		return nil, nil, nil
	}
	ready := coll.Count() == 0 // exact: no writer is active
	var added []*Index
	for _, s := range fresh {
		ix, err := t.newIndex(coll, s, ready)
		if err != nil {
			return nil, nil, err
		}
		added = append(added, ix)
	}
	if err := coll.checkOpenKeys(added); err != nil {
		return nil, nil, buildFailed(bson.NewUUID(), coll, err)
	}
	if !ready {
		b = newBuild(ctx, t.c, coll)
		b.indexes = added
		for _, ix := range added {
			ix.live.build = b
		}
		t.begun = b
	}
	t.recordIndexes(coll, added, b)
	next := coll.with(func(n *Collection) {
		n.indexes = append(append([]*Index(nil), coll.indexes...), added...)
	})
	if w := windowsFor(coll, fresh); ready && w != nil && !t.c.NoWindows.Load() {
		if err := t.cluster(next, w); err != nil {
			return nil, nil, err
		}
	}
	return b, nil, t.store(next)
}
