package project

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// No projection makes the parser panic, and what it accepts makes a whole
// document of any document.
func FuzzProjection(f *testing.F) {
	doc := `{_id: 1, a: {b: [1, {c: 2}], "0": 3}, arr: [1, [2, 3], {x: 1}, {x: 2}], s: "text"}`
	for _, s := range []string{
		`{a: 1}`, `{a: 0, _id: 0}`, `{"a.b.c": 1, arr: {"$slice": [1, 2]}}`, `{arr: {"$elemMatch": {x: {"$gt": 1}}}}`,
		`{"arr.$": 1}`, `{n: {"$add": ["$_id", 1]}, m: {"$meta": "textScore"}}`, `{a: {b: {c: {"$literal": 1}}}}`, `{"a.b": "$s", arr: ["$s", 2]}`,
	} {
		f.Add([]byte(bson.MustParse(s)), []byte(bson.MustParse(doc)))
	}
	f.Fuzz(func(t *testing.T, spec, data []byte) {
		if bson.Validate(spec, 100) != nil || bson.Validate(data, 100) != nil {
			return
		}
		find, ferr := ParseFind(spec, &Options{})
		stage, serr := ParseStage("$project", bson.Document(spec), &Options{})
		for _, p := range []*Projection{find, stage} {
			if p == find && ferr != nil || p == stage && serr != nil {
				continue
			}
			out, err := p.Append(nil, expr.NewEnv(1), data)
			if err == nil && bson.Validate(out, 400) != nil {
				t.Fatalf("%s of %s is no document: %x", bson.Doc(spec), bson.Doc(data), out)
			}
			p.Serialize()
		}
	})
}
