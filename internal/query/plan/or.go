package plan

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

const (
	// maxOrs bounds the $ors of a conjunction that are tried
	// (internalQueryEnumerationMaxOrSolutions).
	maxOrs = 10
	// maxBranchWork bounds the product of an $or's branches and its sibling conjuncts,
	// up to which the conjuncts may also bound the branches.
	maxBranchWork = 100000
)

// orSources answers a conjunct that is an $or by one scan for each branch.
func orSources(c *Collection, q *Query, cs []match.Node, hinted *Index) []source {
	var out []source
	tried := 0
	for i, n := range cs {
		or, whole := disjunction(n)
		ok := or != nil
		if ok && tried == maxOrs {
			q.Reached.Or = true
		}
		if !ok || tried == maxOrs {
			continue
		}
		tried++
		rest := slices.Concat(cs[:i:i], cs[i+1:])
		branches := orBranches(c, q, or, rest, hinted)
		if branches == nil {
			continue
		}
		s := source{residual: rest, sorted: true}
		if !whole {
			s.residual = cs
		}
		explodeAll(q, branches)
		fetched := true
		for _, b := range branches {
			s.sorted = s.sorted && b.sorted
			s.bound = max(s.bound, 1)
			fetched = fetched && b.fetched()
		}
		var nodes []Node
		for _, b := range branches {
			n := b.branch()
			if m, ok := n.(*SortMerge); ok && s.sorted && !q.Sort.IsEmpty() {
				nodes = append(nodes, m.Nodes...)
				continue
			}
			nodes = append(nodes, n)
		}
		switch {
		case q.Sort.IsEmpty() || !s.sorted:
			s.node, s.sorted = &Or{Nodes: nodes, fetched: fetched}, q.Sort.IsEmpty()
		default:
			s.node = &SortMerge{Nodes: nodes, Pattern: q.Sort, Dedup: true, fetched: fetched}
		}
		out = append(out, s)
	}
	return out
}

// explodeAll splits the scans of branches if all of them have the query's order then.
func explodeAll(q *Query, branches []source) {
	sorted := make([]source, len(branches))
	for i, b := range branches {
		s, ok := explode(q, b)
		if !ok && !b.sorted {
			return
		}
		sorted[i] = s
	}
	copy(branches, sorted)
}

// disjunction returns the $or that a conjunct is or implies, nil if there is none;
// whole says that the conjunct is the $or.
func disjunction(n match.Node) (or *match.Or, whole bool) {
	switch n := n.(type) {
	case *match.Or:
		return n, true
	case *match.Expr:
		operands, whole := expr.Alternatives(n.Expr)
		if operands == nil {
			return nil, false
		}
		or = &match.Or{}
		for _, e := range operands {
			or.Children = append(or.Children, match.NewExpr(e))
		}
		return or, whole
	}
	return nil, false
}

// orBranches finds the most promising index access for each branch; nil if a branch has
// none. The conjuncts next to the $or hold in every branch.
func orBranches(c *Collection, q *Query, or *match.Or, rest []match.Node, hinted *Index) []source {
	var out []source
	if len(or.Children)*len(rest) > maxBranchWork {
		rest = nil
	}
	for _, branch := range or.Children {
		q.interrupt.Turn()
		s, ok := orBranch(c, q, branch, rest, hinted)
		if !ok {
			return nil
		}
		out = append(out, s)
	}
	return out
}

func orBranch(c *Collection, q *Query, branch match.Node, rest []match.Node, hinted *Index) (source, bool) {
	own := conjuncts(branch)
	if at := textOf(own); at >= 0 {
		s, err := textSource(c, q, branch, own, at)
		return s, err == nil
	}
	all := slices.Concat(own, rest)
	sources := indexSources(c, q, branch, own, hinted)
	if len(rest) > 0 {
		sources = append(sources, indexSources(c, q, &match.And{Children: all}, all, hinted)...)
	}
	var best *source
	for _, s := range sources {
		if len(rest) > 0 {
			s.forget(rest)
		}
		if s.bound > 0 && (best == nil || s.better(q, best)) {
			best = &s
		}
	}
	if best == nil {
		for _, s := range orSources(c, q, own, hinted) {
			return s, true
		}
		return source{}, false
	}
	return *best, true
}

// forget removes the conjuncts that are checked elsewhere from those that remain to be
// checked.
func (s *source) forget(cs []match.Node) {
	s.residual = slices.DeleteFunc(slices.Clone(s.residual), func(n match.Node) bool { return slices.Contains(cs, n) })
}

// better reports whether s reads less than t, or as much and in order.
func (s *source) better(q *Query, t *source) bool {
	if s.points != t.points {
		return s.points > t.points
	}
	if s.bound != t.bound {
		return s.bound > t.bound
	}
	return s.ordered(q) && !t.ordered(q)
}

// ordered reports whether s has the query's order, or has it once it is split.
func (s *source) ordered(q *Query) bool {
	if s.sorted {
		return true
	}
	_, ok := explode(q, *s)
	return ok
}

// fetched reports whether the branch reads the documents itself.
func (s *source) fetched() bool {
	if len(s.residual) > 0 {
		return true
	}
	switch n := s.node.(type) {
	case *Or:
		return n.fetched
	case *SortMerge:
		return n.fetched
	}
	return false
}

// branch is the node of a branch.
func (s *source) branch() Node {
	if len(s.residual) == 0 {
		return s.node
	}
	return &Fetch{s.node, join(s.residual)}
}

// isRootedOr reports whether the whole filter is an $or, whose branches are planned one
// by one.
func isRootedOr(q *Query, root match.Node) bool {
	_, ok := root.(*match.Or)
	return ok && q.Hint.IsMissing() && q.Min == nil && q.Max == nil && !q.Tailable && q.Sort.Natural() == 0 && q.Distinct == ""
}

func subplan(rooted bool, n Node) Node {
	if rooted {
		return &Subplan{n}
	}
	return n
}
