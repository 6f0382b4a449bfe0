package exec

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Elements calls f with each value at a dotted path: arrays on the way and at
// its end count by their elements. Behind an array a number names a position,
// and not a field of its elements, as in mongod's distinct.
func Elements(doc bson.Doc, path string, f func(bson.Value) error) error {
	name, rest, more := strings.Cut(path, ".")
	return elementsOf(doc.Lookup(name), rest, more, f)
}

func elementsOf(v bson.Value, rest string, more bool, f func(bson.Value) error) error {
	switch {
	case v.IsMissing():
		return nil
	case !more && v.Type != bson.TypeArray:
		return f(v)
	case !more:
		for e := range v.Doc().Values() {
			if err := f(e); err != nil {
				return err
			}
		}
		return nil
	case v.Type == bson.TypeDocument:
		return Elements(v.Doc(), rest, f)
	case v.Type != bson.TypeArray:
		return nil
	}
	if name, after, deeper := strings.Cut(rest, "."); bson.AllDigits(name) {
		return elementsOf(v.Doc().Lookup(name), after, deeper, f)
	}
	for e := range v.Doc().Values() {
		if e.Type == bson.TypeDocument {
			if err := Elements(e.Doc(), rest, f); err != nil {
				return err
			}
		}
	}
	return nil
}
