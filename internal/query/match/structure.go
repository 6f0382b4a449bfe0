package match

// checkStructure refuses trees in which an operator that an index must answer
// is in a place where none may be.
func checkStructure(n Node) error {
	var texts, nears int
	visit(n, func(n Node) {
		switch n.(type) {
		case *Text:
			texts++
		case *GeoNear:
			nears++
		}
	})
	switch {
	case texts == 0 && nears == 0:
		return nil
	case texts > 1:
		return badValue("Too many text expressions")
	case nears > 1:
		return badValue("Too many geoNear expressions")
	case texts > 0 && nears > 0:
		return badValue("text and geoNear not allowed in same query")
	}
	var err error
	visit(n, func(n Node) {
		if nor, ok := n.(*Nor); ok {
			visit(nor, func(n Node) {
				if _, ok := n.(*Text); ok {
					err = badValue("text expression not allowed in nor")
				}
			})
		}
	})
	return err
}

// checkNear refuses a search by distance that is no conjunct of a tree in normal
// form, in which an $or of one branch is the branch.
func checkNear(n Node) error {
	nears := 0
	visit(n, func(n Node) {
		if _, ok := n.(*GeoNear); ok {
			nears++
		}
	})
	for _, c := range Conjuncts(n) {
		if _, ok := c.(*GeoNear); ok {
			nears--
		}
	}
	if nears > 0 {
		return badValue("geoNear must be top-level expr")
	}
	return nil
}

// visit calls f for n and all below it.
func visit(n Node, f func(Node)) {
	f(n)
	for _, c := range children(n) {
		visit(c, f)
	}
}

func children(n Node) []Node {
	switch n := n.(type) {
	case *And:
		return n.Children
	case *Or:
		return n.Children
	case *Nor:
		return n.Children
	case *Not:
		return []Node{n.Child}
	case *ElemMatchObject:
		return []Node{n.Child}
	case *ElemMatchValue:
		return n.Children
	}
	return nil
}
