package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxIntersections bounds the pairs of indexes that are intersected
// (internalQueryEnumerationMaxIntersectPerAnd).
const maxIntersections = 3

// AndSorted delivers the records that all of its inputs have, each of which is in
// record order. A Fetch above it checks all conjuncts once more, even those that the
// inputs decide: a document may change between the scans.
type AndSorted struct{ Nodes []Node }

// Stage is AND_SORTED.
func (*AndSorted) Stage() string { return "AND_SORTED" }

// Inputs are the scans.
func (n *AndSorted) Inputs() []Node { return n.Nodes }

// intersections pairs scans of one point each, which return records in order, if each
// narrows conditions that the other does not. They are tried last: two scans win only
// if each alone reads much, and both together little.
func intersections(q *Query, cs []match.Node, sources []source) []source {
	var points []source
	for _, s := range sources {
		if s.ix != nil && !s.ix.Clustered && s.ix.Wild == nil && s.variant == 0 && !slices.ContainsFunc(s.bounds, func(l Intervals) bool { return !onePoint(l) }) {
			points = append(points, s)
		}
	}
	var out []source
	for i, a := range points {
		for _, b := range points[i+1:] {
			if a.ix.Index == b.ix.Index || !narrows(a, b) || !narrows(b, a) {
				continue
			}
			if len(out) == maxIntersections {
				q.Reached.And = true
				return out
			}
			out = append(out, source{
				node: &AndSorted{[]Node{a.node, b.node}}, residual: cs, sorted: q.Sort.IsEmpty(), bound: max(a.bound, b.bound),
			})
		}
	}
	return out
}

// narrows reports whether a answers a conjunct that b leaves to be checked.
func narrows(a, b source) bool {
	return slices.ContainsFunc(b.residual, func(c match.Node) bool { return !slices.Contains(a.residual, c) })
}
