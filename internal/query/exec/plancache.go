package exec

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// maxCachedPlans bounds the entries of one collection
	// (internalQueryCacheMaxEntriesPerCollection).
	maxCachedPlans = 5000
	// maxCachedBytes bounds what they take: shapes can be as large as filters.
	maxCachedBytes = 64 << 20
	// maxCachedPlanBytes bounds what an entry shows of each plan.
	maxCachedPlanBytes = 1 << 20
	// worksGrowth is by how much an entry that waits to become active lets its
	// limit grow each time the trial took longer (internalQueryCacheWorksGrowthCoefficient).
	worksGrowth = 2
	// evictionRatio is how many times the works of its entry a cached plan may
	// take before the plans are tried again (internalQueryCacheEvictionRatio).
	evictionRatio = 10
)

// learned is what the executor keeps about a collection: plans that won, and
// the index filters.
type learned struct {
	mu struct {
		sync.Mutex
		indexes []*catalog.Index         // that the plans are for
		entries map[string]*list.Element // by key; the values are *CachedPlan
		order   list.List                // the one used last is in front
		bytes   int64                    // of the entries
		filters []*IndexFilter
	}
}

// CachedPlan is an entry of a plan cache.
type CachedPlan struct {
	Shape, Key string
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

	shape     plan.Shape
	signature string
}

// Size estimates the bytes of an entry.
func (p *CachedPlan) Size() int64 {
	n := 256 + len(p.Query) + len(p.Sort) + len(p.Projection) + len(p.Collation) + len(p.Plan) + len(p.signature) + len(p.shape)
	for _, d := range p.Stats {
		n += len(d)
	}
	return int64(n)
}

// learnedOf returns what is known about a collection.
func learnedOf(c *catalog.Collection) *learned {
	if l, ok := c.Learned().Load().(*learned); ok {
		return l
	}
	c.Learned().CompareAndSwap(nil, &learned{})
	return c.Learned().Load().(*learned)
}

// renewLocked drops the plans where the indexes of the collection have changed.
func (l *learned) renewLocked(c *catalog.Collection) {
	if l.mu.entries == nil || !slices.Equal(l.mu.indexes, c.Indexes()) {
		l.mu.entries, l.mu.indexes = map[string]*list.Element{}, c.Indexes()
		l.mu.order.Init()
		l.mu.bytes = 0
	}
}

// trimLocked drops the entries used longest ago that are too many or too much.
func (l *learned) trimLocked() {
	for l.mu.order.Len() > maxCachedPlans || l.mu.bytes > maxCachedBytes {
		l.dropLocked(l.mu.order.Back())
	}
}

func (l *learned) dropLocked(e *list.Element) {
	p := l.mu.order.Remove(e).(*CachedPlan)
	delete(l.mu.entries, p.Key)
	l.mu.bytes -= p.Size()
}

// plan returns a copy of the entry with that key, or nil.
func (l *learned) plan(c *catalog.Collection, key string) *CachedPlan {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewLocked(c)
	e := l.mu.entries[key]
	if e == nil {
		return nil
	}
	l.mu.order.MoveToFront(e)
	p := *e.Value.(*CachedPlan)
	return &p
}

// store books the outcome of a trial. A new entry is inactive: it counts only
// when another trial needs no more works. An active one stays, unless the new
// one needs fewer.
func (l *learned) store(c *catalog.Collection, p *CachedPlan) {
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
	old := e.Value.(*CachedPlan)
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

// doubt makes an entry inactive whose plan has taken much longer than before.
func (l *learned) doubt(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.mu.entries[key]; e != nil {
		p := *e.Value.(*CachedPlan)
		p.Active = false
		e.Value = &p
	}
}

// CachedPlans lists the entries for a collection, the one used last first.
func (x *Executor) CachedPlans(c *catalog.Collection) []CachedPlan {
	l := learnedOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewLocked(c)
	var out []CachedPlan
	for e := l.mu.order.Front(); e != nil; e = e.Next() {
		out = append(out, *e.Value.(*CachedPlan))
	}
	return out
}

// PlanCacheSize is the bytes and the number of the entries for a collection.
func (x *Executor) PlanCacheSize(c *catalog.Collection) (size, count int64) {
	l, ok := c.Learned().Load().(*learned)
	if !ok {
		return 0, 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.bytes, int64(l.mu.order.Len())
}

// ClearCachedPlans drops the plans for queries of the shape of q, or all of
// them where q is nil.
func (x *Executor) ClearCachedPlans(c *catalog.Collection, q *Query) {
	l := learnedOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked(q)
}

func (l *learned) clearLocked(q *Query) {
	if q == nil {
		l.mu.entries, l.mu.bytes = nil, 0
		l.mu.order.Init()
		return
	}
	shape := plan.ShapeOf(&q.Query)
	for _, e := range l.mu.entries {
		if e.Value.(*CachedPlan).shape == shape {
			l.dropLocked(e)
		}
	}
}

// cacheable says whether the outcome of a trial may serve other queries of the
// same shape.
func cacheable(q *Query) bool {
	return q.Hint.IsMissing() && q.Min == nil && q.Max == nil && !q.Tailable && !q.ReturnKey && q.Sort.Natural() == 0 &&
		!(plan.MatchesAll(q.Filter) && q.Sort.IsEmpty())
}

// newCachedPlan makes the entry of a trial that best has won.
func newCachedPlan(q *Query, shape plan.Shape, key string, best *candidate, all []*candidate) *CachedPlan {
	p := &CachedPlan{
		Shape: shape.Hash(), Key: key, shape: shape, signature: plan.Signature(best.node),
		Query: q.Filter.Text().Clone(), Sort: orEmpty(q.Sort.Spec()), Projection: projectionSpec(q.Projection), Collation: q.Collation.Clone(),
		Works: best.stage.Stats().Works, Created: time.Now(), IndexFilterSet: q.Allowed != nil, Plan: plan.Explain(best.node, nil, maxCachedPlanBytes),
	}
	for _, c := range append([]*candidate{best}, others(all, best)...) {
		p.Stats = append(p.Stats, c.stats(false, maxCachedPlanBytes))
		p.Scores = append(p.Scores, c.score())
	}
	return p
}

func projectionSpec(p *project.Projection) bson.Doc {
	if p == nil {
		return bson.Empty
	}
	return p.Serialize().Clone()
}

func orEmpty(d bson.Doc) bson.Doc {
	if d == nil {
		return bson.Empty
	}
	return d.Clone()
}

func others(all []*candidate, best *candidate) []*candidate {
	var out []*candidate
	for _, c := range all {
		if c != best {
			out = append(out, c)
		}
	}
	return out
}

// IndexFilter limits the queries of one shape to some indexes.
type IndexFilter struct {
	Query, Sort, Projection, Collation bson.Doc
	// Indexes is the array of indexes that may be used, as it was given; Keys and
	// Names are its elements.
	Indexes bson.Doc
	Keys    []bson.Doc
	Names   []string

	shape plan.Shape
}

// allows says whether the filter leaves an index to the query.
func (f *IndexFilter) allows(ix *schema.Index) bool {
	return slices.Contains(f.Names, ix.Name) || slices.ContainsFunc(f.Keys, func(k bson.Doc) bool {
		return bson.CompareDocs(k, ix.Key, nil) == 0
	})
}

// SetIndexFilter sets the filter for queries of the shape of q, in place of
// one that there is.
func (x *Executor) SetIndexFilter(c *catalog.Collection, q *Query, f *IndexFilter) {
	f.shape = plan.ShapeOf(&q.Query)
	l := learnedOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked(q)
	for i, old := range l.mu.filters {
		if old.shape == f.shape {
			l.mu.filters = slices.Clone(l.mu.filters)
			l.mu.filters[i] = f
			return
		}
	}
	l.mu.filters = append(slices.Clip(l.mu.filters), f)
}

// ClearIndexFilters drops the filter for queries of the shape of q, or all of
// them where q is nil.
func (x *Executor) ClearIndexFilters(c *catalog.Collection, q *Query) {
	l := learnedOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked(q)
	if q == nil {
		l.mu.filters = nil
		return
	}
	shape := plan.ShapeOf(&q.Query)
	l.mu.filters = slices.DeleteFunc(slices.Clone(l.mu.filters), func(f *IndexFilter) bool { return f.shape == shape })
}

// IndexFilters lists the filters of a collection.
func (x *Executor) IndexFilters(c *catalog.Collection) []*IndexFilter {
	l := learnedOf(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.filters
}

// applyIndexFilter puts the filter for the shape of q, if there is one, into
// q.
func applyIndexFilter(c *catalog.Collection, q *Query) {
	l, ok := c.Learned().Load().(*learned)
	if !ok {
		return
	}
	l.mu.Lock()
	filters := l.mu.filters
	l.mu.Unlock()
	if len(filters) == 0 {
		return
	}
	shape := plan.ShapeOf(&q.Query)
	for _, f := range filters {
		if f.shape == shape {
			q.Allowed = f.allows
		}
	}
}
