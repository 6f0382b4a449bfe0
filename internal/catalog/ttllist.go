package catalog

import (
	"cmp"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/schema"
)

// TTLIndex is an index by which documents expire; Index is nil for the
// collection's own expireAfterSeconds.
type TTLIndex struct {
	Collection *Collection
	Index      *Index
}

// ttlList knows the collections that belong in TTL. DDL notes one collection;
// the list is made when it is next needed, so that many DDL make it once.
type ttlList struct {
	mu    sync.Mutex
	lives map[*live]struct{}
	all   []TTLIndex // nil: to be rebuilt
}

// note notes whether a collection belongs in the list from now on.
func (t *ttlList) note(l *live, listed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, was := t.lives[l]; !was && !listed {
		return
	}
	t.all = nil
	if !listed {
		delete(t.lives, l)
		return
	}
	if t.lives == nil {
		t.lives = map[*live]struct{}{}
	}
	t.lives[l] = struct{}{}
}

// TTL returns the indexes with expireAfterSeconds of all collections, and the
// collections that have it themselves, by namespace. Callers must not change the
// slice.
func (c *Catalog) TTL() []TTLIndex {
	t := &c.ttl
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all != nil {
		return t.all
	}
	colls := make([]*Collection, 0, len(t.lives))
	for l := range t.lives {
		colls = append(colls, l.current.Load())
	}
	slices.SortFunc(colls, func(a, b *Collection) int {
		return cmp.Or(cmp.Compare(a.Namespace.DB, b.Namespace.DB), cmp.Compare(a.Namespace.Coll, b.Namespace.Coll))
	})
	t.all = make([]TTLIndex, 0, len(colls))
	for _, coll := range colls {
		if coll.Settings.ExpireAfterSeconds != schema.NoExpiry {
			t.all = append(t.all, TTLIndex{coll, nil})
		}
		for _, ix := range coll.indexes {
			if ix.IsTTL() && ix.Ready {
				t.all = append(t.all, TTLIndex{coll, ix})
			}
		}
	}
	return t.all
}

// expires reports whether coll belongs in TTL.
func expires(coll *Collection) bool {
	return coll != nil && (coll.Settings.ExpireAfterSeconds != schema.NoExpiry ||
		slices.ContainsFunc(coll.indexes, func(ix *Index) bool { return ix.IsTTL() }))
}

// OnTTL registers f, which is called whenever the list that TTL returns has changed, or
// a rule in it. f must not block. There is only one f.
func (c *Catalog) OnTTL(f func()) { c.onTTL.Store(&f) }

// ttlChanged calls the function registered with OnTTL.
func (c *Catalog) ttlChanged() {
	if f := c.onTTL.Load(); f != nil {
		(*f)()
	}
}
