package plan

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// providesSort says whether a scan of ix within bounds delivers the query's
// order, and whether it must run backward for it. Parts bound to one point
// say nothing about order and may be left out of the sort.
func providesSort(q *Query, ix *Index, bounds []Intervals) (sorted, backward bool) {
	if q.Sort.IsEmpty() {
		return true, false
	}
	if !ix.sameCollation(q) {
		return false, false
	}
	part, known := 0, false
	for _, want := range q.Sort.Parts {
		if want.Meta != "" {
			return false, false
		}
		for part < len(ix.Parts) && ix.Parts[part].Path != want.Path && onePoint(bounds[part]) && !ix.multikeyPart(part) {
			part++
		}
		if part == len(ix.Parts) {
			return false, false
		}
		if ix.Parts[part].Path != want.Path {
			return equalityOn(ix, bounds, want.Path, part), backward
		}
		if ix.Parts[part].Plugin != "" || ix.multikeyPart(part) && !bounds[part].IsAll() {
			return false, false
		}
		if !onePoint(bounds[part]) {
			back := ix.Parts[part].Descending != want.Descending
			if known && back != backward {
				return false, false
			}
			known, backward = true, back
		}
		part++
	}
	return true, backward
}

// equalityOn says whether path is an earlier part bound to one point, which
// any order satisfies.
func equalityOn(ix *Index, bounds []Intervals, path string, before int) bool {
	for i := 0; i < before; i++ {
		if ix.Parts[i].Path == path && onePoint(bounds[i]) && !ix.multikeyPart(i) {
			return true
		}
	}
	return false
}

func onePoint(l Intervals) bool { return len(l) == 1 && l[0].IsPoint() }

// finish puts fetch, sort, skip, limit and projection on top of a source.
func finish(q *Query, s source) Node {
	n := s.node
	ixscan, _ := n.(*IndexScan)
	if ixscan != nil {
		ixscan.Min, ixscan.Max = keyBound(ixscan.Index, q.Min), keyBound(ixscan.Index, q.Max)
	}
	covered := ixscan != nil && len(s.residual) == 0 && covers(q, s.ix)
	switch {
	case covered:
		ixscan.Keys = true
	case ixscan != nil && q.ReturnKey && len(s.residual) == 0:
	case ixscan != nil || isOr(n):
		n = &Fetch{n, join(s.residual)}
	}
	if !s.sorted {
		limit := int64(0)
		if q.Limit > 0 {
			limit = q.Limit + q.Skip
		}
		n = &Sort{n, q.Sort, limit}
	}
	if q.Skip > 0 {
		n = &Skip{n, q.Skip}
	}
	if q.Limit > 0 && (s.sorted || q.Skip > 0) {
		n = &Limit{n, q.Limit}
	}
	if q.ReturnKey {
		return &ReturnKey{n}
	}
	if q.Projection == nil {
		return n
	}
	kind := ProjectionDefault
	if covered {
		kind = ProjectionCovered
	} else if q.Projection.IsSimple() {
		kind = ProjectionSimple
	}
	return &Projection{n, kind, q.Projection}
}

func isOr(n Node) bool { _, ok := n.(*Or); return ok }

// keyBound takes the values of a min or max document in the order of the
// index's parts.
func keyBound(ix *Index, d bson.Doc) []bson.Value {
	if d == nil {
		return nil
	}
	return d.Slice()
}

// covers says whether the keys of ix hold all that the reader needs.
func covers(q *Query, ix *Index) bool {
	if q.Paths == nil || ix.IsMultikey() || ix.Plugin != "" || ix.Collator != nil || overlapping(ix) {
		return false
	}
	if q.Sort.Natural() != 0 {
		return false
	}
	for _, path := range q.Paths {
		if !holds(ix, path) {
			return false
		}
	}
	for _, p := range q.Sort.Parts {
		if p.Meta != "" || !holds(ix, p.Path) {
			return false
		}
	}
	return true
}

func holds(ix *Index, path string) bool {
	for _, p := range ix.Parts {
		if p.Path == path && p.Plugin == "" {
			return true
		}
	}
	return false
}

// Paths that end at, or lead through, another part of the index cannot be
// rebuilt from its key side by side.
func overlapping(ix *Index) bool {
	for i, a := range ix.Parts {
		for j, b := range ix.Parts {
			if i != j && strings.HasPrefix(a.Path, b.Path+".") {
				return true
			}
		}
	}
	return false
}
