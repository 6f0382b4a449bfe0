package match

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Equality is a field that every matching document has with that very value.
type Equality struct {
	Path  string
	Value bson.Value
}

// Equalities lists the equalities of a filter, from which an upsert makes its
// document: those at the top level, under $and, alone under $or, and the only
// value of an $in or $all. The error is that two of them are about one field
// or about a field and one inside it.
func (f *Filter) Equalities() ([]Equality, error) {
	var out []Equality
	for _, n := range Conjuncts(f.root) {
		c, ok := n.(*Compare)
		if !ok || c.Op != Eq {
			continue
		}
		for _, e := range out {
			if e.Path == c.Path {
				return nil, mongoerr.New(mongoerr.NotSingleValueField,
					"cannot infer query fields to set, path '%s' is matched twice", c.Path)
			}
			if strings.HasPrefix(c.Path, e.Path+".") {
				return nil, mongoerr.New(mongoerr.NotSingleValueField,
					"cannot infer query fields to set, both paths '%s' and '%s' are matched", c.Path, e.Path)
			}
		}
		out = append(out, Equality{c.Path, c.Value})
	}
	return out, nil
}
