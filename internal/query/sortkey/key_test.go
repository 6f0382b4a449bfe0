package sortkey

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestPlaces holds what numbers in a path mean behind arrays, and that places in
// arrays within arrays take no longer than the arrays are long: made for each
// element of each array, the last document would have 100^6 keys.
func TestPlaces(t *testing.T) {
	nested := bson.Int32(7)
	for range 6 {
		list := make([]bson.Value, 100)
		for i := range list {
			list[i] = bson.Int32(int32(i))
		}
		list[0] = nested
		nested = bson.Array(list...)
	}
	for _, c := range []struct{ sort, doc, want string }{
		{`{"a.1": 1}`, `{a: [5, 3, 1]}`, `[3]`},
		{`{"a.1": 1}`, `{a: [5, []]}`, `[undefined]`},
		{`{"a.9": 1}`, `{a: [5, {"9": 2}]}`, `[null]`},
		{`{"a.1.b": 1, "a.b": -1}`, `{a: [{b: 5}, {b: 3}]}`, `[3, 5]`},
		{`{"a.1": 1, c: 1}`, `{a: [5, 3], c: 2}`, `[3, 2]`},
		{`{"a.0.0.0.0.0.0": 1}`, new(bson.Builder).Value("a", nested).Finish().String(), `[7]`},
	} {
		pattern, err := Parse(bson.MustParse(c.sort))
		if err != nil {
			t.Fatal(err)
		}
		g := NewGenerator(pattern, nil, nil)
		doc := bson.MustParse(c.doc)
		got, err := g.Values(doc)
		if want := bson.MustParseValue(c.want); err != nil || !bson.Equal(got, want) {
			t.Errorf("%s: %s, not %s: %v", c.sort, got, want, err)
		}
	}
}
