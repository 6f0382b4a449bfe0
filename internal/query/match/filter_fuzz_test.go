package match

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
)

// verdict is what a filter says about a document, and whether it says anything.
type verdict struct{ ok, known bool }

func judge(n Node, doc bson.Doc) verdict {
	ok, err := n.match(subject{bson.Document(doc), document}, FilterOf(n).newEnv())
	return verdict{ok, err == nil}
}

func (v verdict) agrees(w verdict) bool { return !v.known || !w.known || v.ok == w.ok }

// readable is what is left of doc when a plan reads no more than a filter
// depends on: the top-level fields that its paths start with.
func readable(doc bson.Doc, d Deps) bson.Doc {
	if d.Whole {
		return doc
	}
	var b bson.Builder
	b.Reset(nil)
	for name, v := range doc.All() {
		if slices.ContainsFunc(d.Paths, func(p string) bool { return p == name || strings.HasPrefix(p, name+".") }) {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// uncertain says whether two evaluations may differ.
func uncertain(filter bson.Doc, n Node) bool {
	return DependsOn(n).Random || bytes.Contains(filter, []byte("$sampleRate")) || bytes.Contains(filter, []byte("$rand"))
}

// checkFilter holds all the ways of asking doc to the same answer: the tree as
// written and the normal one, printed and parsed again, below $nor, conjunct by
// conjunct, telling the array's element, and with no more of the document than
// the filter says it reads. Who says no can say why.
func checkFilter(t *testing.T, filter, doc bson.Doc) {
	parsed, err := Parse(filter, nil)
	if err != nil || uncertain(filter, parsed.root) || TextIn(parsed.root) != nil {
		return
	}
	want := judge(parsed.root, doc)
	raw, err := newParser(nil).document(filter, wholeFilter)
	if err != nil {
		t.Fatalf("%s parses once only: %v", filter, err)
	}
	printed := Serialize(parsed.root)
	check := func(way string, got verdict) {
		if !want.agrees(got) {
			t.Fatalf("%s: %v and not %v\nfilter %s\nprinted %s\ndocument %s", way, got.ok, want.ok, filter, printed, doc)
		}
	}
	check("as written", judge(raw, doc))
	if again, err := Parse(printed, nil); err == nil {
		check("printed", judge(again.root, doc))
	}
	if nor, err := Parse(combine("$nor", filter), nil); err == nil {
		v := judge(nor.root, doc)
		check("below $nor", verdict{!v.ok, v.known})
	}
	all := verdict{true, true}
	for _, c := range Conjuncts(parsed.root) {
		v := judge(c, doc)
		all = verdict{all.ok && v.ok, all.known && v.known}
	}
	check("by its conjuncts", all)
	ok, _, err := parsed.MatchArrayIndex(doc, nil)
	check("telling the element", verdict{ok, err == nil})
	check("reading its paths", judge(parsed.root, readable(doc, DependsOn(parsed.root))))
	if want.known && !want.ok {
		if why, err := parsed.ExplainFailure(doc, nil); err == nil && (why.IsEmpty() || bson.Validate(why, bson.MaxMessageDepth) != nil) {
			t.Fatalf("no reason why %s fails %s: %x", doc, filter, why)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{a: {$gt: 1, $in: [1, /x/]}, $or: [{b: {$elemMatch: {c: 1}}}, {$expr: {$gt: ["$a", 1]}}]}`,
		`{$jsonSchema: {properties: {a: {bsonType: ["int"], items: [{}]}}, dependencies: {a: ["b"]}}}`,
		`{a: {$not: {$regex: "^x(?=y)", $options: "ims"}, $mod: [2, 1], $bitsAllSet: [1, 70]}}`,
		`{a: {$all: [{$elemMatch: {$gt: 1}}], $type: ["number", 2], $size: 2, $exists: 0}}`,
		`{$nor: [{"a.0.b": null}, {a: {$ne: {b: 1}}}, {"a.b": {$nin: [null, 1]}}], $comment: "x"}`,
		`{a: {$geoWithin: {$box: [[0, 0], [2, 2]]}}, "a.b": {$bitsAnyClear: 5}, $alwaysTrue: 1}`,
	} {
		f.Add([]byte(bson.MustParse(s)), []byte(bson.MustParse(`{a: [{b: 1}, "xy"]}`)))
	}
	f.Fuzz(func(t *testing.T, filter, doc []byte) {
		checkFilter(t, bsontest.Repair(filter), bsontest.Repair(doc))
	})
}
