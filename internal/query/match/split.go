package match

// Conjuncts lists the predicates that must all hold: the children of an And,
// else the node itself.
func Conjuncts(n Node) []Node {
	if a, ok := n.(*And); ok {
		return a.Children
	}
	return []Node{n}
}

// AndOf joins predicates in normal form: of none it is an And that matches
// everything, of one that one.
func AndOf(nodes ...Node) Node { return normalize(&And{nodes}) }

// SplitBy splits the conjuncts of n into those that satisfy the condition and the rest:
// what may run before a stage and what must stay after it.
func SplitBy(n Node, pass func(Node) bool) (passing, staying Node) {
	var yes, no []Node
	for _, c := range Conjuncts(n) {
		if pass(c) {
			yes = append(yes, c)
		} else {
			no = append(no, c)
		}
	}
	return AndOf(yes...), AndOf(no...)
}

// Rename rewrites the paths of a tree, to push it in front of a stage that
// renames fields. ok is false if rename refuses a path, or the tree has a
// predicate whose paths cannot be rewritten.
func Rename(n Node, rename func(path string) (string, bool)) (out Node, ok bool) {
	all := func(nodes []Node) ([]Node, bool) {
		list := make([]Node, len(nodes))
		for i, c := range nodes {
			if list[i], ok = Rename(c, rename); !ok {
				return nil, false
			}
		}
		return list, true
	}
	switch n := n.(type) {
	case *And:
		list, ok := all(n.Children)
		return &And{list}, ok
	case *Or:
		list, ok := all(n.Children)
		return &Or{list}, ok
	case *Nor:
		list, ok := all(n.Children)
		return &Nor{list}, ok
	case *Not:
		child, ok := Rename(n.Child, rename)
		return &Not{child}, ok
	case *Always:
		return n, true
	case Leaf:
		path, ok := rename(n.FieldPath())
		if !ok {
			return nil, false
		}
		return withPath(n, path), true
	}
	return nil, false
}

// withPath is a copy of n about another path.
func withPath(n Leaf, path string) Node {
	at := newLeaf(path)
	switch n := n.(type) {
	case *Compare:
		return &Compare{leaf: at, Op: n.Op, Value: n.Value, Coll: n.Coll}
	case *In:
		c := *n
		c.leaf = at
		c.Regexes = nil
		for _, r := range n.Regexes {
			c.Regexes = append(c.Regexes, withPath(r, path).(*Regex))
		}
		return &c
	case *Regex:
		m := *n
		m.leaf = at
		return &m
	case *Exists:
		return &Exists{at}
	case *Type:
		return &Type{at, n.Types}
	case *Mod:
		return &Mod{at, n.Divisor, n.Remainder}
	case *Size:
		return &Size{at, n.N}
	case *ElemMatchObject:
		return &ElemMatchObject{at, n.Child}
	case *ElemMatchValue:
		return &ElemMatchValue{at, n.Children}
	case *BitTest:
		return &BitTest{at, n.Op, n.Positions}
	case *GeoWithin:
		return &GeoWithin{at, n.Intersects, n.Spec, n.Shape}
	case *GeoNear:
		return &GeoNear{at, n.Spec, n.Near}
	}
	return n
}

// IsTrue reports whether a normalised tree matches everything.
func IsTrue(n Node) bool { return isAlways(n, true) }

// IsFalse reports whether a normalised tree matches nothing.
func IsFalse(n Node) bool { return isAlways(n, false) }
