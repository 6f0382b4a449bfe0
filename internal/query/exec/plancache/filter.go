package plancache

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Filter limits the queries of one shape to some indexes.
type Filter struct {
	Query, Sort, Projection, Collation bson.Doc
	// Indexes is the array of indexes that may be used, as it was given; Keys and
	// Names are its elements.
	Indexes bson.Doc
	Keys    []bson.Doc
	Names   []string

	shape plan.Shape
}

// Allows reports whether the filter allows an index for the query.
func (f *Filter) Allows(ix *schema.Index) bool {
	return slices.Contains(f.Names, ix.Name) || slices.ContainsFunc(f.Keys, func(k bson.Doc) bool {
		return bson.CompareDocs(k, ix.Key, nil) == 0
	})
}

// SetFilter sets the filter for queries of the shape of q, in place of
// one that there is.
func (l *Cache) SetFilter(q *plan.Query, f *Filter) {
	f.shape = plan.ShapeOf(q)
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

// ClearFilters drops the filter for queries of the shape of q, or all of
// them where q is nil.
func (l *Cache) ClearFilters(q *plan.Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clearLocked(q)
	if q == nil {
		l.mu.filters = nil
		return
	}
	shape := plan.ShapeOf(q)
	l.mu.filters = slices.DeleteFunc(slices.Clone(l.mu.filters), func(f *Filter) bool { return f.shape == shape })
}

// Filters lists the filters.
func (l *Cache) Filters() []*Filter {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.filters
}

// ApplyFilter puts the filter of a collection for the shape of q, if there is one,
// into q.
func ApplyFilter(c *catalog.Collection, q *plan.Query) {
	l := known(c)
	if l == nil {
		return
	}
	l.mu.Lock()
	filters := l.mu.filters
	l.mu.Unlock()
	if len(filters) == 0 {
		return
	}
	shape := plan.ShapeOf(q)
	for _, f := range filters {
		if f.shape == shape {
			q.Allowed = f.Allows
		}
	}
}
