package match

// checkStructure refuses trees in which an operator that an index must answer
// stands where none can.
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
	case nears > 0 && !nearOnTop(n):
		return badValue("geoNear must be top-level expr")
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

// nearOnTop says whether a GeoNear is a conjunct of n.
func nearOnTop(n Node) bool {
	for _, c := range Conjuncts(n) {
		switch c := c.(type) {
		case *GeoNear:
			return true
		case *And:
			if nearOnTop(c) {
				return true
			}
		}
	}
	return false
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
