package plan

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// maxCandidates bounds the plans tried against each other
// (internalQueryPlannerMaxIndexedSolutions).
const maxCandidates = 64

// source is a way to reach the documents of a query, before sorting and
// shaping.
type source struct {
	node     Node
	ix       *Index       // nil for an $or and for collection scans
	bounds   []Intervals  // of ix
	residual []match.Node // what remains to be checked on each document
	sorted   bool         // in the order of the query's sort
	points   int          // leading parts bound to points
	bound    int          // parts bound at all
}

// Candidates returns the plans worth trying for q, best guess first; never
// none. Errors: 2 for a hint that names no index, 291 for notablescan.
func Candidates(c *Collection, q *Query) ([]Node, error) {
	root := q.Filter.Root()
	if n, ok := root.(*match.Always); ok && !n.True {
		return []Node{finish(q, source{node: &EOF{}, sorted: true})}, nil
	}
	hinted, natural, err := resolveHint(c, q)
	if err != nil {
		return nil, err
	}
	if natural != 0 {
		return []Node{finish(q, scan(q, natural < 0))}, nil
	}
	if hinted == nil {
		if id, ok := PointID(q, c.Collation); ok && !c.NoIDIndex {
			return []Node{finish(q, source{node: &IDHack{id}, sorted: true})}, nil
		}
	}
	cs := conjuncts(root)
	sources := indexSources(c, q, root, cs, hinted)
	if hinted == nil || len(sources) == 0 {
		sources = append(sources, orSources(c, q, cs, hinted)...)
	}
	if hinted != nil && len(sources) == 0 {
		sources = append(sources, wholeIndex(q, hinted, cs))
	}
	var plans []Node
	for _, s := range sources {
		if len(plans) < maxCandidates {
			plans = append(plans, finish(q, s))
		}
	}
	if len(plans) == 0 {
		if q.NoScan {
			return nil, mongoerr.New(mongoerr.NoQueryExecutionPlans, "error processing query: ns=%s: No indexed plans available, and running with 'notablescan'", c.Namespace)
		}
		plans = append(plans, finish(q, scan(q, false)))
	}
	return plans, nil
}

// scan reads the whole collection.
func scan(q *Query, backward bool) source {
	n := &CollScan{Backward: backward, Tailable: q.Tailable}
	if f, ok := q.Filter.Root().(*match.And); !ok || len(f.Children) > 0 {
		n.Filter = q.Filter.Root()
	}
	natural := q.Sort.Natural()
	if natural != 0 {
		n.Backward = natural < 0
	}
	return source{node: n, sorted: q.Sort.IsEmpty() || natural != 0}
}

// resolveHint finds the index that the query insists on, or the direction of
// a scan it insists on.
func resolveHint(c *Collection, q *Query) (*Index, int, error) {
	if n := q.Sort.Natural(); n != 0 && q.Hint.IsMissing() {
		return nil, n, nil
	}
	switch q.Hint.Type {
	case bson.Missing:
		return nil, 0, nil
	case bson.TypeString:
		for _, ix := range c.Indexes {
			if ix.Name == q.Hint.Str() && !ix.Hidden {
				return ix, 0, nil
			}
		}
	case bson.TypeDocument:
		k, v := q.Hint.Doc().First()
		if k == "" {
			return nil, 0, nil
		}
		if k == "$natural" {
			if n := bson.ToDouble(v); n == 1 || n == -1 {
				return nil, int(n), nil
			}
			return nil, 0, mongoerr.New(mongoerr.BadValue, "$natural hint must be 1 or -1")
		}
		for _, ix := range c.Indexes {
			if bson.CompareDocs(ix.Key, q.Hint.Doc(), nil) == 0 && !ix.Hidden {
				return ix, 0, nil
			}
		}
	}
	return nil, 0, mongoerr.New(mongoerr.BadValue, "error processing query: ns=%s planner returned error :: caused by :: hint provided does not correspond to an existing index", c.Namespace)
}

// PointID recognises a query for one _id and nothing else, on a collection
// with that default collation.
func PointID(q *Query, collation bson.Doc) (bson.Value, bool) {
	cmp, ok := q.Filter.Root().(*match.Compare)
	if !ok || cmp.FieldPath() != "_id" || cmp.Op != match.Eq || !q.Hint.IsMissing() || q.ReturnKey || q.Tailable || q.Min != nil || q.Max != nil {
		return bson.Value{}, false
	}
	switch cmp.Value.Type {
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined, bson.TypeNull:
		return bson.Value{}, false
	}
	if hasStrings(cmp.Value) && string(collation) != string(q.Collation) {
		return bson.Value{}, false
	}
	return cmp.Value, true
}

// indexSources returns a source for each index that answers a conjunct or
// the sort.
func indexSources(c *Collection, q *Query, root match.Node, cs []match.Node, hinted *Index) []source {
	preds := predicates(cs)
	var out []source
	for _, ix := range c.Indexes {
		if hinted != nil && ix != hinted || ix.Hidden {
			continue
		}
		if ix.Partial != nil && !implies(root, ix.Partial) && hinted == nil {
			continue
		}
		s, ok := indexSource(q, ix, cs, preds)
		if !ok && hinted == nil {
			if s, ok = sortSource(q, ix, cs); !ok {
				continue
			}
		}
		if ok {
			out = append(out, s)
		}
	}
	return out
}

// indexSource bounds a scan of ix by the predicates it can answer.
func indexSource(q *Query, ix *Index, cs []match.Node, preds []predicate) (source, bool) {
	s := source{ix: ix}
	done := make([]bool, len(cs))
	var used []predicate
	leading := true
	for part := range ix.Parts {
		l, ps := boundPart(q, ix, part, preds, used, done)
		if part == 0 && len(ps) == 0 || ix.Parts[part].Plugin != "" && ix.Parts[part].Plugin != "hashed" {
			return source{}, false
		}
		used = append(used, ps...)
		leading = leading && l.ArePoints()
		if leading {
			s.points++
		}
		if len(ps) > 0 {
			s.bound++
		}
		s.bounds = append(s.bounds, l)
	}
	for i, c := range cs {
		if !done[i] {
			s.residual = append(s.residual, c)
		}
	}
	s.scan(q)
	return s, true
}

// boundPart combines the predicates on one part of ix. done collects the
// conjuncts that need no further check.
func boundPart(q *Query, ix *Index, part int, preds, used []predicate, done []bool) (Intervals, []predicate) {
	l := All
	var chosen []predicate
	t := translator{ix, part, q}
	for _, points := range []bool{true, false} { // points first: they narrow most
		for _, p := range preds {
			if p.path != ix.Parts[part].Path {
				continue
			}
			a, ok := t.bounds(p.node)
			if !ok || a.intervals.ArePoints() != points {
				continue
			}
			fits := true
			for _, u := range append(used, chosen...) {
				fits = fits && compatible(ix, p, u, part)
			}
			if !fits || len(chosen) > 0 && ix.multikeyPart(part) && !sameElem(p, chosen[0]) {
				continue
			}
			l = intersect(l, a.intervals)
			chosen = append(chosen, p)
			if p.whole && a.exact {
				done[p.conjunct] = true
			}
		}
	}
	return l, chosen
}

func sameElem(a, b predicate) bool {
	return len(a.elems) > 0 && len(a.elems) == len(b.elems) && a.elems[len(a.elems)-1] == b.elems[len(b.elems)-1] && a.conjunct == b.conjunct
}

// scan makes the node of s and finds whether it delivers the query's order.
func (s *source) scan(q *Query) {
	sorted, backward := providesSort(q, s.ix, s.bounds)
	s.sorted = sorted
	s.node = &IndexScan{Index: s.ix, Bounds: s.bounds, Backward: backward, Dedup: s.ix.IsMultikey()}
}

// sortSource reads a whole index for its order.
func sortSource(q *Query, ix *Index, cs []match.Node) (source, bool) {
	if q.Sort.IsEmpty() || ix.Sparse || ix.Plugin != "" {
		return source{}, false
	}
	s := wholeIndex(q, ix, cs)
	return s, s.sorted
}

// wholeIndex reads all of an index.
func wholeIndex(q *Query, ix *Index, cs []match.Node) source {
	s := source{ix: ix, residual: cs}
	for range ix.Parts {
		s.bounds = append(s.bounds, All)
	}
	s.scan(q)
	return s
}

// orSources answers a conjunct that is an $or by one scan for each branch.
func orSources(c *Collection, q *Query, cs []match.Node, hinted *Index) []source {
	var out []source
	for i, n := range cs {
		or, ok := n.(*match.Or)
		if !ok {
			continue
		}
		var nodes []Node
		for _, branch := range or.Children {
			n := orBranch(c, q, branch, hinted)
			if n == nil {
				nodes = nil
				break
			}
			nodes = append(nodes, n)
		}
		if len(nodes) == 0 {
			continue
		}
		rest := append(append([]match.Node(nil), cs[:i]...), cs[i+1:]...)
		out = append(out, source{node: &Or{nodes}, residual: rest, sorted: q.Sort.IsEmpty()})
	}
	return out
}

// orBranch is the most promising indexed access for one branch, or nil.
func orBranch(c *Collection, q *Query, branch match.Node, hinted *Index) Node {
	cs := conjuncts(branch)
	var best *source
	for _, s := range indexSources(c, q, branch, cs, hinted) {
		if s.bound > 0 && (best == nil || s.points > best.points || s.points == best.points && s.bound > best.bound) {
			best = &s
		}
	}
	if best == nil {
		for _, s := range orSources(c, q, cs, hinted) {
			best = &s
			break
		}
	}
	if best == nil {
		return nil
	}
	if len(best.residual) == 0 {
		return best.node
	}
	return &Fetch{best.node, join(best.residual)}
}

// join makes one filter of conjuncts, or nil of none.
func join(cs []match.Node) match.Node {
	switch len(cs) {
	case 0:
		return nil
	case 1:
		return cs[0]
	}
	return &match.And{Children: cs}
}
