package match

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Equality is a field that every matching document has with that very value.
type Equality struct {
	Path  string
	Value bson.Value
}

// Equalities lists the equalities of a filter in the order of their paths, from
// which an upsert makes its document: those at the top level, under $and, alone
// under $or, and the only value of an $in or $all. The error is that two of
// them are about one field or about a field and one inside it.
func (f *Filter) Equalities() ([]Equality, error) {
	var out []Equality
	for _, n := range Conjuncts(f.root) {
		if c, ok := n.(*Compare); ok && c.Op == Eq {
			out = append(out, Equality{c.Path, c.Value})
		}
	}
	slices.SortStableFunc(out, func(a, b Equality) int { return strings.Compare(a.Path, b.Path) })
	seen := make(map[string]bool, len(out))
	for _, e := range out {
		if seen[e.Path] {
			return nil, mongoerr.New(mongoerr.NotSingleValueField,
				"cannot infer query fields to set, path '%s' is matched twice", e.Path)
		}
		// A path sorts after its prefixes.
		for i, c := range []byte(e.Path) {
			if c == '.' && seen[e.Path[:i]] {
				return nil, mongoerr.New(mongoerr.NotSingleValueField,
					"cannot infer query fields to set, both paths '%s' and '%s' are matched", e.Path, e.Path[:i])
			}
		}
		seen[e.Path] = true
	}
	return out, nil
}
