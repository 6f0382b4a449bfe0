package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// predicate is a condition on one path that an index may answer.
type predicate struct {
	path     string
	node     match.Node       // nil if compare is not
	compare  *expr.Comparison // implied by a $expr
	elems    []elem           // the $elemMatches around it, outermost first
	conjunct int              // the conjunct of the filter that it comes from
	whole    bool             // it is that whole conjunct
}

// elem is an $elemMatch and the path of its array.
type elem struct {
	path string
	node *match.ElemMatchObject
}

// conjuncts splits a filter into conditions that must all hold.
func conjuncts(n match.Node) []match.Node {
	if n == nil {
		return nil
	}
	if and, ok := n.(*match.And); ok {
		return and.Children
	}
	return []match.Node{n}
}

// predicates collects the predicates of the conjuncts that an index may answer.
func predicates(q *Query, cs []match.Node) []predicate {
	var out []predicate
	for i, c := range cs {
		q.interrupt.Turn()
		e, ok := c.(*match.Expr)
		if !ok {
			out = collect(out, c, predicate{conjunct: i, whole: true})
			continue
		}
		for _, compare := range expr.Comparisons(e.Expr, q.Env) {
			out = append(out, predicate{path: compare.Path, compare: &compare, conjunct: i})
		}
	}
	return out
}

func collect(out []predicate, n match.Node, p predicate) []predicate {
	prefix := p.path
	join := func(path string) string {
		if prefix == "" {
			return path
		}
		return prefix + "." + path
	}
	switch n := n.(type) {
	case *match.ElemMatchObject:
		if n.FieldPath() == "" {
			return out // no path, as join has it, is not that of the nameless field
		}
		p.path, p.whole = join(n.FieldPath()), false
		p.elems = append(append([]elem(nil), p.elems...), elem{p.path, n})
		for _, c := range conjuncts(n.Child) {
			out = collect(out, c, p)
		}
	case *match.And:
		p.whole = false
		for _, c := range n.Children {
			out = collect(out, c, p)
		}
	case *match.Not:
		if leaf, ok := n.Child.(match.Leaf); ok && leaf.FieldPath() != "" {
			p.path, p.node = join(leaf.FieldPath()), n
			out = append(out, p)
		}
	case match.Leaf:
		if n.FieldPath() != "" {
			p.path, p.node = join(n.FieldPath()), n
			out = append(out, p)
		}
	}
	return out
}

// compatible reports whether two predicates may bound one scan of ix together: if there
// are arrays on the common part of their paths, different elements may satisfy them,
// unless one $elemMatch applies both to the same element.
func compatible(ix *Index, a, b predicate, partA int) bool {
	pa, pb := strings.Split(a.path, "."), strings.Split(b.path, ".")
	for c := 0; c < len(pa) && c < len(pb) && pa[c] == pb[c]; c++ {
		if !ix.multikeyAt(partA, c) {
			continue
		}
		if !sameElemAt(a, b, strings.Join(pa[:c+1], ".")) {
			return false
		}
	}
	return true
}

// sameElemAt reports whether one $elemMatch on the array at path is around both.
func sameElemAt(a, b predicate, path string) bool {
	return slices.ContainsFunc(a.elems, func(e elem) bool { return e.path == path && slices.Contains(b.elems, e) })
}
