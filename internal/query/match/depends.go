package match

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Deps is what a predicate reads.
type Deps struct {
	// Paths are the dotted paths of the document, sorted and free of duplicates.
	Paths []string
	// Whole says that the whole document may be read; Paths may be incomplete.
	Whole bool
	// Vars are the user variables that $expr reads.
	Vars []string
	// Random is true if the result may differ from one evaluation to the next.
	Random bool
}

// DependsOn returns what n reads.
func DependsOn(n Node) Deps {
	var d Deps
	d.add(n)
	slices.Sort(d.Paths)
	d.Paths = slices.Compact(d.Paths)
	return d
}

func (d *Deps) add(n Node) {
	switch n := n.(type) {
	case *And:
		d.addAll(n.Children)
	case *Or:
		d.addAll(n.Children)
	case *Nor:
		d.addAll(n.Children)
	case *Not:
		d.add(n.Child)
	case Leaf:
		d.Paths = append(d.Paths, n.FieldPath())
	case *Expr:
		var e expr.Deps
		e.Add(n.Expr)
		d.Paths = append(d.Paths, e.Paths...)
		d.Whole = d.Whole || e.Whole
		d.Vars = append(d.Vars, e.Vars...)
		d.Random = d.Random || e.Random
	case *JSONSchema, *Text, *Where, *Owned:
		d.Whole = true
	}
}

func (d *Deps) addAll(nodes []Node) {
	for _, n := range nodes {
		d.add(n)
	}
}

// Touches reports whether a predicate that reads d may see a change of the field
// at path.
func (d *Deps) Touches(path string) bool {
	return d.Whole || slices.ContainsFunc(d.Paths, func(p string) bool {
		return p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(path, p+".")
	})
}
