package plan

import "github.com/mayflydb/mayfly/internal/query/match"

// KeyBounds are the values that the fields of a key may have in documents that satisfy
// n: one list a field, All where n says nothing of it. ix need not be an index that
// exists: it may be a shard key.
func KeyBounds(q *Query, ix *Index, n match.Node) []Intervals {
	cs := conjuncts(n)
	b := bounder{q: q, ix: ix, preds: predicates(q, cs), prefer: -1, done: make([]tightness, len(cs))}
	out := make([]Intervals, len(ix.Parts))
	for part := range ix.Parts {
		out[part], _ = b.part(part)
	}
	return out
}
