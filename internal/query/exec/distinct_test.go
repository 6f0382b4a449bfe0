package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestElements holds what lies at a path, and that numbers double no ways:
// each level of the last document has the place 0 and the field "0".
func TestElements(t *testing.T) {
	deep := bson.Int32(7)
	for range 60 {
		deep = bson.Array(bson.Document(new(bson.Builder).Value("0", deep).Finish()))
	}
	parse := bson.MustParse
	for _, c := range []struct {
		doc        bson.Doc
		path, want string
	}{
		{parse(`{a: [{b: 1}, {b: [2, 3]}, 4, [{b: 5}]]}`), "a.b", "[1 2 3]"},
		{parse(`{a: [{b: 1}, {b: [2, 3]}]}`), "a.1.b", "[2 3]"},
		{parse(`{a: [{"0": {b: 1}}, {"0": {b: 2}}]}`), "a.0.b", "[]"},
		{parse(`{a: [{"0": {b: 1}}, {"0": {b: 2}}]}`), "a.0.0.b", "[1]"},
		{parse(`{a: {"0": {b: 1}}}`), "a.0.b", "[1]"},
		{new(bson.Builder).Value("0", deep).Finish(), "0" + strings.Repeat(".0.0", 60), "[7]"},
	} {
		got := []bson.Value{}
		err := Elements(c.doc, c.path, func(v bson.Value) error { got = append(got, v); return nil })
		if fmt.Sprint(got) != c.want || err != nil {
			t.Errorf("%s of %s: %v, not %s, %v", c.path, c.doc, got, c.want, err)
		}
	}
}
