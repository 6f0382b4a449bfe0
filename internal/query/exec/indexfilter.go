package exec

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

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
