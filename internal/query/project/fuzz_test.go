package project

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
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
	f.Fuzz(func(t *testing.T, text, document []byte) {
		spec, data := bsontest.Repair(text), bsontest.Repair(document)
		if p, err := ParseFind(spec, &Options{}); err == nil {
			checkProjection(t, p, spec, data)
		}
		for _, name := range []string{"$project", "$addFields"} {
			if p, err := ParseStage(name, bson.Document(spec), &Options{}); err == nil {
				checkProjection(t, p, spec, data)
			}
		}
	})
}

// hasTwins says whether two fields of a document have the same name: which of them
// a computed field replaces depends on what else is there.
func hasTwins(d bson.Doc) bool {
	seen := map[string]bool{}
	for name, v := range d.All() {
		if seen[name] || (v.Type == bson.TypeDocument || v.Type == bson.TypeArray) && hasTwins(v.Doc()) {
			return true
		}
		seen[name] = true
	}
	return false
}

// checkProjection applies p to doc in all the ways that must come to the same:
// behind other bytes, of no more than the fields that it says it reads, printed
// and parsed again, and, where it computes nothing, a second time.
func checkProjection(t *testing.T, p *Projection, spec, doc bson.Doc) {
	before := doc.Clone()
	out, err := p.Append(nil, expr.NewEnv(1), doc)
	if !bytes.Equal(before, doc) {
		t.Fatalf("%s wrote to its document", spec)
	}
	printed := p.Serialize()
	if err != nil || bytes.Contains(spec, []byte("$rand")) {
		return
	}
	if bson.Validate(out, 2*bson.MaxMessageDepth) != nil {
		t.Fatalf("%s of %s is no document: %x", spec, doc, out)
	}
	same := func(way string, got []byte, err error) {
		if err != nil || !bytes.Equal(got, out) {
			t.Fatalf("%s: %s of %s is %s, not %s (%v)", way, spec, doc, bson.Doc(got), bson.Doc(out), err)
		}
	}
	behind, err := p.Append([]byte("xyz"), expr.NewEnv(1), doc)
	same("behind other bytes", behind[3:], err)
	if paths, whole := p.Fields(); !whole && !hasTwins(doc) {
		var b bson.Builder
		b.Reset(nil)
		for name, v := range doc.All() {
			if slices.ContainsFunc(paths, func(path string) bool { return path == name || strings.HasPrefix(path, name+".") }) {
				b.Value(name, v)
			}
		}
		part, err := p.Append(nil, expr.NewEnv(1), b.Finish())
		same("of "+strings.Join(paths, " "), part, err)
	}
	if again, err := parseAgain(p, printed); err == nil {
		got, err := again.Append(nil, expr.NewEnv(1), doc)
		same("printed as "+printed.String(), got, err)
	}
	if p.IsSimple() {
		twice, err := p.Append(nil, expr.NewEnv(1), out)
		same("twice", twice, err)
	}
}

func parseAgain(p *Projection, printed bson.Doc) (*Projection, error) {
	if p.Stage() == "" {
		return ParseFind(printed, &Options{})
	}
	return ParseStage(p.Stage(), bson.Document(printed), &Options{})
}
