package catalog

import (
	"sync"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
)

// derived is what follows from a descriptor and is made when it is asked for.
type derived struct {
	once    sync.Once
	buckets *Collection
	order   *Index
}

// IsTimeseries says whether the namespace is a time-series collection, whose
// documents are measurements: most in buckets, the newest in a keyspace of
// their own.
func (c *Collection) IsTimeseries() bool {
	return c.Settings.Timeseries != nil && !c.Namespace.IsBuckets()
}

// Buckets is a time-series collection as the collection of its buckets, always
// the same one for a descriptor. REQUIRES: IsTimeseries.
func (c *Collection) Buckets() *Collection {
	if !invariant.Check(c.IsTimeseries(), "catalog: Buckets is of a time-series collection") {
		return c
	}
	c.derived.once.Do(func() {
		n := *c
		n.Namespace = c.Namespace.Buckets()
		if s, err := c.Settings.Timeseries.BucketOrder(); err == nil {
			c.derived.order = &Index{Index: s, Form: s, Ident: c.Ident, Records: true, Ready: true, live: &indexLive{}}
		}
		c.derived.buckets = &n
	})
	return c.derived.buckets
}

// HoldsBuckets says whether the documents are the buckets of a time-series
// collection.
func (c *Collection) HoldsBuckets() bool { return c.Open != 0 && c.Namespace.IsBuckets() }

// BucketOrder is the order of the records, where they are buckets, as an index;
// nil for any other collection. No list of indexes has it.
func (c *Collection) BucketOrder() *Index {
	if !c.HoldsBuckets() {
		return nil
	}
	return c.derived.order
}

// newTimeseries gives a new time-series collection its keyspaces, and the
// index that it starts with.
func (t *change) newTimeseries(coll *Collection) error {
	coll.Open = t.u.NewIdent(coll.identRange())
	if spec := coll.Settings.Timeseries.DefaultIndex(); spec != nil {
		s, err := schema.LoadIndex(spec)
		if err != nil {
			return err
		}
		ix, err := newIndex(coll, s, t.u.NewIdent(coll.identRange()), false, true)
		if err != nil {
			return err
		}
		coll.indexes = []*Index{ix}
	}
	return t.c.openLive(coll)
}
