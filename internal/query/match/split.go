package match

// Conjuncts lists the predicates that must all hold: the children of an And,
// else the node itself.
func Conjuncts(n Node) []Node {
	if a, ok := n.(*And); ok {
		return a.Children
	}
	return []Node{n}
}

// AndOf joins predicates: none is an And that matches everything, one is
// itself.
func AndOf(nodes ...Node) Node {
	var flat []Node
	for _, n := range nodes {
		flat = append(flat, Conjuncts(n)...)
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return &And{flat}
}
