package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Modification is what collMod changes, all in one step.
type Modification struct {
	// Options replaces the collection's options, if not nil.
	Options bson.Doc
	// Indexes holds the changed descriptors, by name: TTL, hidden, unique and
	// prepareUnique may change, but nothing that determines the keys.
	Indexes map[string]*schema.Index
}

// Modify changes options of a collection and of its indexes. f decides on the
// newest descriptor, while no other unit writes to the collection, so what it
// finds in the data stays true; it must be short. Errors: 26, and those of f.
func (c *Catalog) Modify(ctx context.Context, ns schema.Namespace, f func(*Collection) (Modification, error)) (*Collection, error) {
	var changed *Collection
	err := c.change(ctx, c.named(ns), func(t *change) error {
		coll, err := t.find(ns)
		if err != nil {
			return err
		}
		m, err := f(coll)
		if err != nil {
			return err
		}
		changed = coll.with(func(n *Collection) {
			if m.Options != nil {
				n.Options = m.Options
			}
			n.indexes = nil
			for _, ix := range coll.indexes {
				if to := m.Indexes[ix.Name]; to != nil {
					k := *ix
					if err = k.describe(coll, to); err == nil && k.OnPlace != nil && !coll.layout.Serves(to) {
						err = mongoerr.New(mongoerr.Code(16764), "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.")
					}
					if err != nil {
						return
					}
					ix = &k
				}
				n.indexes = append(n.indexes, ix)
			}
		})
		if err != nil {
			return err
		}
		if err := changed.applyOptions(); err != nil {
			return err
		}
		t.recordModification(coll, changed)
		return t.store(changed)
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}
