package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxCandidates bounds the plans tried against each other
// (internalQueryPlannerMaxIndexedSolutions).
const maxCandidates = 64

// source is an access path to the documents of a query, before sort and projection.
type source struct {
	node     Node
	ix       *Index       // nil for an $or and for collection scans
	bounds   []Intervals  // of ix
	onKey    []match.Node // conditions that are decided by the key
	residual []match.Node // conditions that remain to be checked on each document
	sorted   bool         // in the order of the query's sort
	points   int          // leading parts bound to points
	bound    int          // parts bound at all
	variant  int          // distinguishes sources over the same index
}

// Candidates returns the plans worth trying for q, best guess first; never
// none. Errors: 2 for a hint that names no index, 291 for notablescan and for
// hints that cannot be followed, 51173 and following for min and max, and that
// of the operation that q.Env watches, where it ends before a large filter is planned.
func Candidates(c *Collection, q *Query) (nodes []Node, err error) {
	defer expr.Interrupted(&err)
	if q.Env != nil {
		q.interrupt.Of = q.Env
	}
	root := q.Filter.Root()
	if n, ok := root.(*match.Always); ok && !n.True {
		return []Node{finish(q, source{node: &EOF{}, sorted: true})}, nil
	}
	if err := checkText(c, q); err != nil {
		return nil, err
	}
	hinted, natural, err := resolveHint(c, q)
	if err != nil {
		return nil, err
	}
	if err := checkMinMax(q, hinted, natural); err != nil {
		return nil, err
	}
	if natural != 0 && nearOf(conjuncts(root)) >= 0 {
		return nil, errNearNatural(q)
	}
	if natural != 0 && q.NoScan && !c.Exempt {
		return nil, errPlanning(c, q, mongoerr.NoQueryExecutionPlans, "hint $natural is not allowed, because 'notablescan' is enabled")
	}
	if natural != 0 || q.Tailable { // an index has no tail to follow
		return []Node{finish(q, scan(q, natural < 0))}, nil
	}
	searches := match.TextIn(root) != nil
	if hinted == nil && !searches {
		if nodes := pointPlan(c, q); nodes != nil {
			return nodes, nil
		}
	}
	sources, err := sourcesOf(c, q, hinted)
	if err != nil {
		return nil, err
	}
	rooted := isRootedOr(q, root)
	var plans []Node
	for _, s := range sources {
		if len(plans) < maxCandidates {
			plans = append(plans, subplan(rooted, finish(q, s)))
		}
	}
	if len(plans) == 0 {
		if searches {
			return nil, errNoTextPlan(c, q)
		}
		if q.NoScan && !MatchesAll(q.Filter) && !c.Exempt {
			return nil, mongoerr.New(mongoerr.NoQueryExecutionPlans, "error processing query: ns=%s: No indexed plans available, and running with 'notablescan'", c.Namespace)
		}
		plans = append(plans, subplan(rooted, finish(q, scan(q, false))))
	}
	return plans, nil
}

// sourcesOf returns the index access paths, best guess first.
func sourcesOf(c *Collection, q *Query, hinted *Index) ([]source, error) {
	root := q.Filter.Root()
	cs := conjuncts(root)
	if at := nearOf(cs); at >= 0 {
		return nearSources(c, q, cs, at, hinted)
	}
	if at := textOf(cs); at >= 0 {
		s, err := textSource(c, q, root, cs, at)
		return []source{s}, err
	}
	if match.TextIn(root) != nil { // under an $or, and no other index has a score
		return orSources(c, q, cs, hinted), nil
	}
	if q.Min != nil || q.Max != nil {
		return []source{boundedByKeys(q, hinted, cs)}, nil
	}
	sources := indexSources(c, q, root, cs, hinted)
	if hinted == nil || len(sources) == 0 {
		sources = append(sources, orSources(c, q, cs, hinted)...)
	}
	if hinted != nil && len(sources) == 0 {
		if hinted.Plugin != "" && hinted.Plugin != "hashed" && !isGeo(hinted.Plugin) {
			return nil, errPlanning(c, q, mongoerr.NoQueryExecutionPlans,
				"$hint: refusing to build whole-index solution, because it's a "+hinted.Plugin+" index")
		}
		return []source{wholeIndex(q, hinted, cs)}, nil
	}
	if hinted == nil && !q.Sort.IsEmpty() && !slices.ContainsFunc(sources, func(s source) bool { return s.sorted }) {
		sources = append(sources, sortSources(c, q, root, cs)...)
	}
	if hinted == nil && q.Distinct != "" {
		sources = append(sources, distinctSources(c, q, root, cs, sources)...)
	}
	slices.SortStableFunc(sources, func(a, b source) int {
		if a.points != b.points {
			return b.points - a.points
		}
		return b.bound - a.bound
	})
	if hinted == nil {
		sources = append(sources, intersections(q, cs, sources)...)
	}
	return sources, nil
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

// usable returns the indexes that a query may use: not hidden, allowed by the index
// filter, and with all documents.
func usable(c *Collection, q *Query, hinted *Index) []*Index {
	var out []*Index
	for _, ix := range c.Indexes {
		if ix.Hidden || hinted != nil && ix != hinted || q.Allowed != nil && !q.Allowed(ix.Index) || ix.LeavesOut(ix.Multikey) {
			continue
		}
		out = append(out, ix)
	}
	return out
}

// indexSources returns the index sources for the conjuncts.
func indexSources(c *Collection, q *Query, root match.Node, cs []match.Node, hinted *Index) []source {
	preds := predicates(q, cs)
	var out []source
	for _, ix := range usable(c, q, hinted) {
		if !ix.hasAllOf(q, root) {
			continue
		}
		if isGeo(ix.Plugin) {
			if s, ok := geoSource(q, ix, cs, preds); ok {
				out = append(out, s)
			}
			continue
		}
		known := len(out)
		for _, v := range views(ix, preds) {
			out = append(out, variants(q, v, cs, preds)...)
		}
		if v := prefixView(ix, preds); v != nil && len(out) == known {
			out = append(out, variants(q, v, cs, preds)...)
		}
	}
	return out
}

// variants returns the sources of one index. If an array keeps several predicates on
// the first part from bounding it together, each gets a source.
func variants(q *Query, ix *Index, cs []match.Node, preds []predicate) []source {
	s, ok := indexSource(q, ix, cs, preds, -1)
	if !ok {
		return nil
	}
	out := []source{s}
	if !ix.MultikeyPart(0) {
		return out
	}
	for i, p := range preds {
		if p.path != ix.Parts[0].Path {
			continue
		}
		v, ok := indexSource(q, ix, cs, preds, i)
		if ok && !slices.ContainsFunc(out, func(o source) bool { return sameBounds(o.bounds, v.bounds) }) {
			v.variant = len(out)
			v.scan(q)
			out = append(out, v)
		}
	}
	return out
}

func sameBounds(a, b []Intervals) bool {
	return slices.EqualFunc(a, b, func(x, y Intervals) bool {
		return slices.EqualFunc(x, y, func(i, j Interval) bool { return compareLo(i, j) == 0 && compareHi(i, j) == 0 })
	})
}

// indexSource bounds a scan of ix by the predicates that it can answer; the one at
// prefer, if not negative, is applied first.
func indexSource(q *Query, ix *Index, cs []match.Node, preds []predicate, prefer int) (source, bool) {
	s := source{ix: ix}
	b := bounder{q: q, ix: ix, preds: preds, prefer: prefer, done: make([]tightness, len(cs))}
	leading := true
	for part := range ix.Parts {
		if p := ix.Parts[part].Plugin; p != "" && p != "hashed" && p != pathPlugin && p != schema.PluginExtreme {
			return source{}, false
		}
		l, n := b.part(part)
		if part == 0 && n == 0 {
			return source{}, false
		}
		leading = leading && l.ArePoints()
		if leading {
			s.points++
		}
		if n > 0 {
			s.bound++
		}
		s.bounds = append(s.bounds, l)
	}
	if ix.Wild != nil && !ix.Wild.settle(ix, s.bounds, b.bound) {
		return source{}, false
	}
	for i, c := range cs {
		switch b.done[i] {
		case checkKey:
			s.onKey = append(s.onKey, c)
		case checkDocument:
			s.residual = append(s.residual, c)
		}
	}
	s.scan(q)
	return s, true
}

// scan makes the node of s and determines whether it has the query's order.
func (s *source) scan(q *Query) {
	sorted, backward := providesSort(q, s.ix, s.bounds)
	s.sorted = sorted
	s.node = &IndexScan{
		Index: s.ix, Bounds: s.bounds, Backward: backward, Filter: join(s.onKey), Dedup: s.ix.severalKeys(), Variant: s.variant,
	}
}

// sortSources read a whole index for its order.
func sortSources(c *Collection, q *Query, root match.Node, cs []match.Node) []source {
	var out []source
	for _, ix := range usable(c, q, nil) {
		if ix.Sparse || !keepsOrder(ix) || !ix.hasAllOf(q, root) {
			continue
		}
		if s := wholeIndex(q, ix, cs); s.sorted {
			out = append(out, s)
		}
	}
	return out
}

// keepsOrder reports whether the first fields of an index are in the order of their
// values.
func keepsOrder(ix *Index) bool { return ix.Plugin == "" || ix.Plugin == "hashed" }

// distinctSources scan a whole index whose first part has the values, if no source uses
// one already.
func distinctSources(c *Collection, q *Query, root match.Node, cs []match.Node, have []source) []source {
	if len(cs) > 0 {
		return nil
	}
	var out []source
	for _, ix := range usable(c, q, nil) {
		if !keepsOrder(ix) || ix.Parts[0].Plugin != "" || ix.Parts[0].Path != q.Distinct || q.Grouping && (ix.Sparse || ix.IsMultikey()) ||
			ix.MultikeyPart(0) && !ix.HoldsElements(q.Distinct) || !ix.hasAllOf(q, root) {
			continue
		}
		if !slices.ContainsFunc(have, func(s source) bool { return s.ix == ix }) {
			out = append(out, wholeIndex(q, ix, cs))
		}
	}
	return out
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

// hasStrings reports whether a value may contain strings, whose order depends on a
// collation.
func hasStrings(v bson.Value) bool {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol, bson.TypeDocument, bson.TypeArray:
		return true
	}
	return false
}
