package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Drop removes a collection or view with everything in it, and returns its last
// descriptor. Index builds on it are aborted. Errors: 26.
func (c *Catalog) Drop(ctx context.Context, ns schema.Namespace) (*Collection, error) {
	var dropped *Collection
	err := c.change(ctx, c.named(ns), func(t *change) (err error) {
		if dropped, err = t.find(ns); err != nil {
			return err
		}
		t.command(dropped, "drop", nil)
		return t.drop(dropped)
	})
	return dropped, err
}

// DropDatabase removes all collections and views of a database, all or none, and returns
// their last descriptors. Collections that belong to this member alone are removed after
// the others.
func (c *Catalog) DropDatabase(ctx context.Context, db string) ([]*Collection, error) {
	var all []*Collection
	err := c.change(ctx, c.database(db), func(t *change) error {
		for _, coll := range c.Collections(db) {
			if coll.own() {
				continue
			}
			t.command(coll, "drop", nil)
			if err := t.drop(coll); err != nil {
				return err
			}
			all = append(all, coll)
		}
		if len(all) > 0 {
			t.e.note(&databaseNote{db: db})
			if t.e.ops.on {
				t.recordCommand(place{ns: schema.Namespace{DB: db}}, new(bson.Builder).Int32("dropDatabase", 1).Finish(), nil)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	own, err := c.dropOwn(ctx, db)
	return append(all, own...), err
}

// dropOwn removes the collections in a database that belong to this member
// alone.
func (c *Catalog) dropOwn(ctx context.Context, db string) (own []*Collection, err error) {
	err = c.change(ctx, c.database(db), func(t *change) error {
		for _, coll := range c.Collections(db) {
			if !coll.own() || coll.virtual != nil {
				continue
			}
			if err := t.drop(coll); err != nil {
				return err
			}
			own = append(own, coll)
		}
		return nil
	})
	return own, err
}

// DropIndexes removes the indexes that pick chooses from the newest descriptor of a
// collection. Builds among them are aborted. It returns how many indexes there were
// before. Errors: 26; those of pick; 72 for the index on _id, 5979800 for the one of a
// clustered collection.
func (c *Catalog) DropIndexes(ctx context.Context, ns schema.Namespace, pick func(*Collection) ([]*Index, error)) (before int, err error) {
	err = c.change(ctx, c.named(ns), func(t *change) error {
		coll, err := t.find(ns)
		if err != nil {
			return err
		}
		before = len(coll.indexes)
		gone, err := pick(coll)
		if err != nil {
			return err
		}
		for _, ix := range gone {
			if coll.Settings.Clustered != nil && ix.Clusters() {
				return mongoerr.New(mongoerr.Code(5979800), "Cannot drop the clustered index. Try dropping the collection instead.")
			}
			if ix.IsID() {
				return mongoerr.New(mongoerr.InvalidOptions, "cannot drop _id index")
			}
			t.dropsIndex(coll, ix)
		}
		return t.dropIndexes(coll, gone)
	})
	return before, err
}

// dropIndexes stages the removal of some indexes of coll.
func (t *change) dropIndexes(coll *Collection, gone []*Index) error {
	if len(gone) == 0 {
		return nil
	}
	drop := map[string]bool{}
	for _, ix := range gone {
		drop[ix.Name] = true
		if err := t.dropEntries(ix); err != nil {
			return err
		}
	}
	return t.store(coll.with(func(n *Collection) {
		n.indexes = nil
		for _, ix := range coll.indexes {
			if !drop[ix.Name] {
				n.indexes = append(n.indexes, ix)
			}
		}
	}))
}
