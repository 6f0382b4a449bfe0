package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxBounding bounds the predicates that bound one part of an index: any more
// are left to be checked on the documents.
const maxBounding = 100

// tightness is what remains to be checked of a conjunct after a scan of an index.
type tightness uint8

const (
	checkDocument tightness = iota // the whole conjunct, on the document
	checkKey                       // the conjunct, on the values of the key
	checkNothing                   // nothing: the bounds are exact
)

// bounder collects the bounds that the predicates of a query put on the parts of an index.
type bounder struct {
	q      *Query
	ix     *Index
	preds  []predicate
	prefer int // the predicate that is applied first, or −1
	used   []predicate
	done   []tightness // by conjunct
	bound  bool        // a predicate bounds the field of a wildcard index
}

// part combines the predicates on one part and counts those it took.
func (b *bounder) part(part int) (Intervals, int) {
	if b.ix.Parts[part].Plugin == pathPlugin {
		return b.ix.Wild.paths, 1
	}
	l := All
	var chosen []predicate
	for _, round := range []func(i int, points bool) bool{
		func(i int, _ bool) bool { return i == b.prefer },
		func(i int, points bool) bool { return points && i != b.prefer }, // the most selective ones
		func(i int, points bool) bool { return !points && i != b.prefer },
	} {
		for i, p := range b.preds {
			if p.path != b.ix.Parts[part].Path || len(chosen) == maxBounding {
				continue
			}
			a, ok := translator{b.ix, part, b.q}.access(p)
			if !ok || !round(i, a.intervals.ArePoints()) || !b.fits(p, part, chosen) {
				continue
			}
			l = intersect(l, a.intervals)
			chosen = append(chosen, p)
			b.settle(p, part, a)
		}
	}
	b.used = append(b.used, chosen...)
	if w := b.ix.Wild; w != nil && part == w.part+1 {
		b.bound = len(chosen) > 0
	}
	return l, len(chosen)
}

// fits reports whether a predicate may bound the scan together with those that already do.
func (b *bounder) fits(p predicate, part int, chosen []predicate) bool {
	for _, u := range b.used {
		if !compatible(b.ix, p, u, part) {
			return false
		}
	}
	for _, u := range chosen {
		if !compatible(b.ix, p, u, part) {
			return false
		}
	}
	return len(chosen) == 0 || !b.ix.MultikeyPart(part) || sameElem(p, chosen[0])
}

// settle records what no longer needs to be checked of a predicate's conjunct.
func (b *bounder) settle(p predicate, part int, a access) {
	// A number in a path may select an array element, which a filter does not descend
	// into, but an index does.
	if !p.whole || b.ix.Wild.guesses(part, a.intervals) || slices.ContainsFunc(b.ix.Parts[part].Components, bson.AllDigits) {
		return
	}
	switch {
	case a.exact:
		b.done[p.conjunct] = checkNothing
	case !b.ix.MultikeyPart(part) && b.ix.Collator == nil && b.ix.Plugin == "" && decidedByKey(p.node):
		b.done[p.conjunct] = checkKey
	}
}

// decidedByKey reports whether the value in a key decides a predicate. Null in a key
// may also be a missing field, so it does not decide predicates that tell them apart.
func decidedByKey(n match.Node) bool {
	switch n := n.(type) {
	case *match.Regex, *match.Mod:
		return true
	case *match.In:
		for _, v := range n.Values {
			if !isPoint(v) {
				return false
			}
		}
		return len(n.Regexes) > 0
	}
	return false
}

// sameElem reports whether one $elemMatch applies two predicates to the same element.
func sameElem(a, b predicate) bool {
	return len(a.elems) > 0 && len(a.elems) == len(b.elems) && a.elems[len(a.elems)-1] == b.elems[len(b.elems)-1]
}
