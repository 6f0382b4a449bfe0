package match

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// normalize makes the normal form of a tree, bottom up. It keeps the meaning,
// and gives the planner and explain one shape for each meaning they know.
func normalize(n Node) Node { return new(normalizer).node(n) }

// normalizer is one walk that makes a normal form.
type normalizer struct {
	interrupt *expr.Interrupt // nil for none
}

func (z *normalizer) node(n Node) Node {
	z.interrupt.Turn()
	switch n := n.(type) {
	case *And:
		return z.and(n)
	case *Or:
		return z.or(n)
	case *Nor:
		return z.nor(n)
	case *Not:
		return z.not(n)
	case *In:
		return normalizeIn(n)
	case *ElemMatchObject:
		return &ElemMatchObject{n.leaf, z.node(n.Child)}
	case *ElemMatchValue:
		return &ElemMatchValue{n.leaf, z.all(n.Children)}
	case *Always:
		if n.True {
			return &And{}
		}
	}
	return n
}

func (z *normalizer) all(nodes []Node) []Node {
	out := make([]Node, 0, len(nodes))
	for _, n := range nodes {
		out = append(out, z.node(n))
	}
	z.arrange(out)
	return out
}

// arrange sorts siblings into the normal order: by kind, then by path.
func (z *normalizer) arrange(nodes []Node) {
	slices.SortStableFunc(nodes, func(a, b Node) int {
		z.interrupt.Turn()
		if a.kind() != b.kind() {
			return int(a.kind()) - int(b.kind())
		}
		x, ok := a.(Leaf)
		if !ok {
			return 0
		}
		return strings.Compare(x.FieldPath(), b.(Leaf).FieldPath())
	})
}

// isAlways reports whether a normalised node matches everything, or nothing.
func isAlways(n Node, everything bool) bool {
	if a, ok := n.(*And); ok {
		return everything && len(a.Children) == 0
	}
	_, nothing := n.(*Always)
	return nothing && !everything
}

func (z *normalizer) and(n *And) Node {
	var children []Node
	for _, c := range z.all(n.Children) {
		if isAlways(c, false) {
			return c
		}
		children = append(children, Conjuncts(c)...)
	}
	if len(children) == 1 {
		return children[0]
	}
	z.arrange(children)
	return &And{children}
}

func (z *normalizer) or(n *Or) Node {
	var children []Node
	for _, c := range z.all(n.Children) {
		switch o := c.(type) {
		case *Or:
			children = append(children, o.Children...)
		case *Always:
		default:
			if isAlways(c, true) {
				return c
			}
			children = append(children, c)
		}
	}
	children = z.mergeEqualities(children)
	switch len(children) {
	case 0:
		return &Always{false}
	case 1:
		return children[0]
	}
	z.arrange(children)
	return &Or{children}
}

// mergeEqualities turns the branches of an $or that are equalities, $in or
// regular expressions on one path into one $in.
func (z *normalizer) mergeEqualities(branches []Node) []Node {
	byPath := map[string][]Node{}
	for _, b := range branches {
		z.interrupt.Turn()
		if path, ok := equalityPath(b); ok {
			byPath[path] = append(byPath[path], b)
		}
	}
	var out []Node
	for _, b := range branches {
		z.interrupt.Turn()
		path, ok := equalityPath(b)
		group := byPath[path]
		switch {
		case !ok || len(group) < 2:
			out = append(out, b)
		case group[0] == b:
			out = append(out, normalizeIn(mergeIn(path, group, z.interrupt)))
		}
	}
	return out
}

func equalityPath(n Node) (string, bool) {
	switch n := n.(type) {
	case *Compare:
		return n.Path, n.Op == Eq && n.Value.Type != bson.TypeRegex
	case *In:
		return n.Path, true
	case *Regex:
		return n.Path, true
	}
	return "", false
}

func mergeIn(path string, group []Node, interrupt *expr.Interrupt) *In {
	var values []bson.Value
	var regexes []*Regex
	var coll bson.Collator
	for _, n := range group {
		switch n := n.(type) {
		case *Compare:
			values, coll = append(values, n.Value), n.Coll
		case *In:
			values, regexes, coll = append(values, n.Values...), append(regexes, n.Regexes...), n.Coll
		case *Regex:
			regexes = append(regexes, n)
		}
	}
	return newIn(path, values, regexes, coll, interrupt)
}

func normalizeIn(n *In) Node {
	switch {
	case len(n.Values)+len(n.Regexes) == 0:
		return &Always{false}
	case len(n.Values) == 1 && len(n.Regexes) == 0:
		return &Compare{leaf: n.leaf, Op: Eq, Value: n.Values[0], Coll: n.Coll}
	case len(n.Values) == 0 && len(n.Regexes) == 1:
		return n.Regexes[0]
	}
	return n
}

func (z *normalizer) nor(n *Nor) Node {
	var children []Node
	for _, c := range z.all(n.Children) {
		if isAlways(c, true) {
			return &Always{false}
		}
		if !isAlways(c, false) {
			children = append(children, c)
		}
	}
	switch len(children) {
	case 0:
		return &And{}
	case 1:
		return z.not(&Not{children[0]})
	}
	return &Nor{children}
}

func (z *normalizer) not(n *Not) Node {
	child := z.node(n.Child)
	switch {
	case isAlways(child, true):
		return &Always{false}
	case isAlways(child, false):
		return &And{}
	}
	if inner, ok := child.(*Not); ok {
		return inner.Child
	}
	return &Not{child}
}
