package plancache

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

const (
	// maxEntries bounds the entries of one collection
	// (internalQueryCacheMaxEntriesPerCollection).
	maxEntries = 5000
	// maxBytes bounds their memory: shapes can be as large as filters.
	maxBytes = 64 << 20
	// worksGrowth is the factor by which the limit of an inactive entry grows each time a
	// trial takes longer (internalQueryCacheWorksGrowthCoefficient).
	worksGrowth = 2
)

// Cache is what queries have taught about a collection, the plans that won, and what
// an operator has said about it, the index filters. Safe for use by many goroutines.
type Cache struct {
	mu struct {
		sync.Mutex
		indexes []*catalog.Index         // that the plans are for
		entries map[string]*list.Element // by key; the values are *Entry
		order   list.List                // most recently used first
		bytes   int64                    // of the entries
		filters []*Filter
	}
}

// Entry is a plan that won a trial, for the queries of a shape while the candidates are
// the same.
type Entry struct {
	Shape plan.Shape
	Key   string // names the shape and the candidates
	// Signature is that of the plan; see plan.Signature.
	Signature string
	// Query, Sort, Projection and Collation are those of the query that made the
	// entry.
	Query, Sort, Projection, Collation bson.Doc
	Active                             bool
	Works                              int64
	Created                            time.Time
	IndexFilterSet                     bool
	Plan                               bson.Doc
	Stats                              []bson.Doc // of the trial, by candidate
	Scores                             []float64
}

// Size estimates the bytes of an entry.
func (p *Entry) Size() int64 {
	n := 256 + len(p.Query) + len(p.Sort) + len(p.Projection) + len(p.Collation) + len(p.Plan) + len(p.Signature) + len(p.Shape)
	for _, d := range p.Stats {
		n += len(d)
	}
	return int64(n)
}

// Of returns the cache of a collection.
func Of(c *catalog.Collection) *Cache {
	if l := known(c); l != nil {
		return l
	}
	c.Learned().CompareAndSwap(nil, &Cache{})
	return known(c)
}

// known returns the cache of a collection, nil if it is empty.
func known(c *catalog.Collection) *Cache {
	l, _ := c.Learned().Load().(*Cache)
	return l
}

// renewLocked drops the plans if the indexes of the collection have changed.
func (l *Cache) renewLocked(c *catalog.Collection) {
	if l.mu.entries == nil || !slices.Equal(l.mu.indexes, c.Indexes()) {
		l.mu.entries, l.mu.indexes = map[string]*list.Element{}, c.Indexes()
		l.mu.order.Init()
		l.mu.bytes = 0
	}
}

// trimLocked drops the least recently used entries beyond the bounds.
func (l *Cache) trimLocked() {
	for l.mu.order.Len() > maxEntries || l.mu.bytes > maxBytes {
		l.dropLocked(l.mu.order.Back())
	}
}

func (l *Cache) dropLocked(e *list.Element) {
	p := l.mu.order.Remove(e).(*Entry)
	delete(l.mu.entries, p.Key)
	l.mu.bytes -= p.Size()
}

// Lookup returns a copy of the entry with a key, or nil. The collection is the cache's.
func (l *Cache) Lookup(c *catalog.Collection, key string) *Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewLocked(c)
	e := l.mu.entries[key]
	if e == nil {
		return nil
	}
	l.mu.order.MoveToFront(e)
	p := *e.Value.(*Entry)
	return &p
}

// Store books the outcome of a trial. A new entry is inactive: it counts only
// when another trial needs no more works. An active one stays, unless the new
// one needs fewer.
func (l *Cache) Store(c *catalog.Collection, p *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewLocked(c)
	e := l.mu.entries[p.Key]
	if e == nil {
		l.mu.entries[p.Key] = l.mu.order.PushFront(p)
		l.mu.bytes += p.Size()
		l.trimLocked()
		return
	}
	old := e.Value.(*Entry)
	switch {
	case old.Active && p.Works >= old.Works:
	case !old.Active && p.Works > old.Works:
		grown := *old
		grown.Works = old.Works * worksGrowth
		e.Value = &grown
	default:
		p.Active = true
		e.Value = p
		l.mu.bytes += p.Size() - old.Size()
	}
	l.mu.order.MoveToFront(e)
	l.trimLocked()
}

// Doubt makes an entry inactive whose plan has taken much longer than before.
func (l *Cache) Doubt(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.mu.entries[key]; e != nil {
		p := *e.Value.(*Entry)
		p.Active = false
		e.Value = &p
	}
}

// Entries lists the entries, the one used last first.
func (l *Cache) Entries(c *catalog.Collection) []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewLocked(c)
	var out []Entry
	for e := l.mu.order.Front(); e != nil; e = e.Next() {
		out = append(out, *e.Value.(*Entry))
	}
	return out
}

// Size is the bytes and the number of the entries for a collection.
func Size(c *catalog.Collection) (size, count int64) {
	l := known(c)
	if l == nil {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes, int64(l.mu.order.Len())
}

// Clear drops the plans for queries of the shape of q, or all of them where q is nil.
func (l *Cache) Clear(q *plan.Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked(q)
}

func (l *Cache) clearLocked(q *plan.Query) {
	if q == nil {
		l.mu.entries, l.mu.bytes = nil, 0
		l.mu.order.Init()
		return
	}
	shape := plan.ShapeOf(q)
	for _, e := range l.mu.entries {
		if e.Value.(*Entry).Shape == shape {
			l.dropLocked(e)
		}
	}
}
