package plan

import (
	"github.com/mayflydb/mayfly/internal/bson"
)

// providesSort reports whether a scan of ix within bounds has the query's order, and
// whether it must run backward for that. Parts bound to one point do not affect the
// order and may be missing in the sort.
func providesSort(q *Query, ix *Index, bounds []Intervals) (sorted, backward bool) {
	if q.Sort.IsEmpty() {
		return true, false
	}
	part, known := 0, false
	for _, want := range q.Sort.Parts {
		if want.Meta != "" {
			return false, false
		}
		for part < len(ix.Parts) && ix.Parts[part].Path != want.Path && onePoint(bounds[part]) && !ix.MultikeyPart(part) {
			part++
		}
		if part == len(ix.Parts) || ix.Parts[part].Path != want.Path {
			if !equalityOn(q, ix, bounds, want.Path, part) {
				return false, false
			}
			continue
		}
		if !orders(q, ix, bounds, part) {
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

// orders reports whether the keys of a part are in the order of the query's sort. An
// array sorts by its smallest or greatest element: the scan must not
// miss it, so neither this part nor one that leads through the same array may
// be bounded.
func orders(q *Query, ix *Index, bounds []Intervals, part int) bool {
	if ix.Parts[part].Plugin != "" || !ix.sameCollation(q) && mayHoldStrings(bounds[part]) {
		return false
	}
	if w := ix.Wild; w != nil && w.vague && part == w.part+1 {
		return false // a document may have a key of another field before its own
	}
	if !ix.MultikeyPart(part) {
		return true
	}
	for i, l := range bounds {
		if !l.IsAll() && (i == part || shareArray(ix, i, part)) {
			return false
		}
	}
	return true
}

// shareArray reports whether the paths of two parts lead through one array.
func shareArray(ix *Index, a, b int) bool {
	ca, cb := ix.Parts[a].Components, ix.Parts[b].Components
	for c := 0; c < len(ca) && c < len(cb) && ca[c] == cb[c]; c++ {
		if ix.multikeyAt(a, c) || ix.multikeyAt(b, c) {
			return true
		}
	}
	return false
}

// stringy is the set of values whose order depends on a collation.
var stringy = Intervals{wholeClass(bson.TypeString), wholeClass(bson.TypeDocument), wholeClass(bson.TypeArray)}

func mayHoldStrings(l Intervals) bool { return len(intersect(l, stringy)) > 0 }

// equalityOn reports whether path is an earlier part bound to one point, which
// satisfies any order.
func equalityOn(q *Query, ix *Index, bounds []Intervals, path string, before int) bool {
	for i := 0; i < before; i++ {
		if ix.Parts[i].Path == path && onePoint(bounds[i]) && !ix.MultikeyPart(i) && (ix.sameCollation(q) || !mayHoldStrings(bounds[i])) {
			return ix.Parts[i].Plugin == ""
		}
	}
	return false
}

func onePoint(l Intervals) bool { return len(l) == 1 && l[0].IsPoint() }
