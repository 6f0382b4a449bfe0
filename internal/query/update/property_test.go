package update

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

var (
	anyField = rapid.SampledFrom([]string{"_id", "a", "b", "c", "0", "1"})
	anyPath  = rapid.Custom(func(t *rapid.T) string {
		path := anyField.Draw(t, "field")
		for range rapid.IntRange(0, 2).Draw(t, "depth") {
			path += "." + rapid.SampledFrom([]string{"a", "b", "0", "1", "2", "$", "$[]", "$[i]"}).Draw(t, "part")
		}
		return path
	})
	anyOperator = rapid.SampledFrom([]string{"$set", "$setOnInsert", "$unset", "$inc", "$mul", "$min", "$max", "$bit",
		"$currentDate", "$push", "$addToSet", "$pop", "$pull", "$pullAll", "$rename"})
	anyArgument = rapid.OneOf(rapid.SampledFrom([]bson.Value{
		bson.Int32(1), bson.Int32(-1), bson.Double(2.5), bson.True, bson.String("b"), bson.String("c.a"),
		bson.MustParseValue(`{$each: [1, 2, 3], $slice: -2, $sort: 1}`), bson.MustParseValue(`{$each: [1, {a: 2}]}`),
		bson.MustParseValue(`{and: 5, or: NumberLong(3)}`), bson.MustParseValue(`{$gte: 1}`), bson.MustParseValue(`[1, 2, null]`),
	}), bsontest.Value())
	anyUpdate = rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		b.Reset(nil)
		for range rapid.IntRange(1, 3).Draw(t, "operators") {
			b.OpenDoc(anyOperator.Draw(t, "operator"))
			for range rapid.IntRange(1, 2).Draw(t, "fields") {
				b.Value(anyPath.Draw(t, "path"), anyArgument.Draw(t, "argument"))
			}
			b.Close()
		}
		return b.Finish()
	})
	// anyDoc draws documents whose fields the paths above meet.
	anyDoc = rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		b.Reset(nil)
		names := rapid.SliceOfNDistinct(anyField, 0, 4, func(s string) string { return s }).Draw(t, "names")
		for _, name := range names {
			b.Value(name, rapid.OneOf(rapid.SampledFrom([]bson.Value{
				bson.Int32(7), bson.Double(-0.5), bson.Int64(1 << 40), bson.MustParseValue(`{a: 1, b: {a: [1, 2]}}`),
				bson.MustParseValue(`[1, 2, 3]`), bson.MustParseValue(`[{a: 1, b: [5]}, {a: 2}, 3]`), bson.MustParseValue(`[]`),
			}), bsontest.Value()).Draw(t, name))
		}
		return b.Finish()
	})
)

func anyContext(t *rapid.T) *Context {
	return &Context{
		ArrayIndex: rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "index"),
		Env:        expr.NewEnv(now),
		Insert:     rapid.Bool().Draw(t, "insert"),
	}
}

// TestApplyIsSound applies random updates to random documents: the old document
// keeps its bytes, the new one is well-formed and differs from the old exactly
// where the update says that it changed it.
func TestApplyIsSound(t *testing.T) {
	opts := &Options{ArrayFilters: []bson.Doc{bson.MustParse(`{i: {$gte: 2}}`)}}
	rapid.Check(t, func(t *rapid.T) {
		u, err := Parse(bson.Document(anyUpdate.Draw(t, "update")), opts)
		if mongoerr.Is(err, mongoerr.FailedToParse) {
			u, err = Parse(bson.Document(anyUpdate.Draw(t, "another update")), nil)
		}
		if err != nil {
			return
		}
		doc := anyDoc.Draw(t, "doc")
		before := doc.Clone()
		next, changed, err := u.Apply(doc, anyContext(t))
		if !bytes.Equal(doc, before) {
			t.Fatalf("the document was written to")
		}
		if err != nil {
			return
		}
		if err := bson.Validate(next, bson.MaxDepth); err != nil {
			t.Fatalf("%s: %v", next, err)
		}
		if !changed && &next[0] != &doc[0] || changed && bytes.Equal(next, doc) {
			t.Fatalf("changed is %v: %s became %s", changed, doc, next)
		}
	})
}

// TestSetTwice says that what $set wrote is found where its path leads, and
// that setting it again changes nothing.
func TestSetTwice(t *testing.T) {
	path := rapid.Custom(func(t *rapid.T) string {
		p := "a"
		for range rapid.IntRange(0, 3).Draw(t, "depth") {
			p += "." + rapid.SampledFrom([]string{"a", "b", "0", "3"}).Draw(t, "part")
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		p, v, doc := path.Draw(t, "path"), bsontest.Value().Draw(t, "value"), anyDoc.Draw(t, "doc")
		u, err := Parse(bson.Document(new(bson.Builder).OpenDoc("$set").Value(p, v).Finish()), nil)
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := u.Apply(doc, &Context{})
		if err != nil {
			if !mongoerr.Is(err, mongoerr.PathNotViable, mongoerr.InvalidIdField, mongoerr.DollarPrefixedFieldName) {
				t.Fatal(err)
			}
			return
		}
		found := bson.Document(next)
		parts, _ := splitPath(nil, p)
		for _, part := range parts {
			found = found.Doc().Lookup(part)
		}
		if found.Type != v.Type || !bytes.Equal(found.Data, v.Data) {
			t.Fatalf("%s of %s is not %s", p, next, v)
		}
		if _, changed, err := u.Apply(next, &Context{}); changed || err != nil {
			t.Fatalf("the second time: %v %v", changed, err)
		}
	})
}

func FuzzApply(f *testing.F) {
	for _, s := range []string{
		`{u: {$set: {"a.b": 1, "a.c.0": 2}}, d: {a: {}}}`,
		`{u: {$inc: {"a.$[i].b": 1}}, d: {a: [{b: 1}, {b: 2}]}, f: [{"i.b": {$gt: 1}}]}`,
		`{u: {$push: {a: {$each: [1, 2], $sort: -1, $slice: 1}}}, d: {a: [3]}}`,
		`{u: {$rename: {a: "b.c"}, $unset: {d: 1}}, d: {a: 1, b: {}, d: 5}}`,
		`{u: {$pull: {a: {b: {$in: [1, /x/]}}}, $bit: {c: {xor: 3}}}, d: {a: [{b: 1}]}}`,
		`{u: [{$set: {a: {$add: ["$b", 1]}}}, {$unset: "b"}], d: {_id: 1, b: 2}}`,
		`{u: {a: 1}, d: {_id: 1}}`,
	} {
		f.Add([]byte(bson.MustParse(s)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bsontest.Repair(data)
		opts := &Options{}
		if v := in.Lookup("f"); v.Type == bson.TypeArray {
			for e := range v.Doc().Values() {
				if e.Type == bson.TypeDocument {
					opts.ArrayFilters = append(opts.ArrayFilters, e.Doc())
				}
			}
		}
		d := in.Lookup("d")
		u, err := Parse(in.Lookup("u"), opts)
		if err != nil || d.Type != bson.TypeDocument || bson.ExceedsDepth(d.Doc(), bson.MaxDepth) {
			return
		}
		checkUpdate(t, u, in.Lookup("u"), d.Doc())
	})
}

// checkUpdate applies u to doc: the old document keeps its bytes, the new one is
// whole, "changed" is what the bytes say, a field that no index needs to hear of
// is as it was, and what only sets or takes away does nothing the second time.
func checkUpdate(t *testing.T, u *Update, text bson.Value, doc bson.Doc) {
	before := doc.Clone()
	ctx := func() *Context { return &Context{ArrayIndex: "0", Env: expr.NewEnv(now)} }
	next, changed, err := u.Apply(doc, ctx())
	if !bytes.Equal(before, doc) {
		t.Fatalf("%s wrote to its document", text)
	}
	if err != nil {
		return
	}
	if err := bson.Validate(next, bson.MaxDepth); err != nil {
		t.Fatalf("%s of %s: %v", text, doc, err)
	}
	// A replacement counts unless it comes with the document's very _id.
	if same := bytes.Equal(next, doc); !changed && !same || changed && same && u.Kind() != Replacement {
		t.Fatalf("changed is %v: %s by %s became %s", changed, doc, text, next)
	}
	for name, v := range doc.All() {
		now := next.Lookup(name)
		if u.Kind() == Modifiers && u.modifiers.root.find(name) < 0 && !(now.Type == v.Type && bytes.Equal(now.Data, v.Data)) && !twice(doc, name) {
			t.Fatalf("%s was not to change %q: %s became %s", text, name, doc, next)
		}
	}
	if !repeatable(u, text) {
		return
	}
	if again, changed, err := u.Apply(next, ctx()); err == nil && changed {
		t.Fatalf("%s of %s became %s, then %s", text, doc, next, again)
	}
}

// twice says whether a document has a name more than once.
func twice(d bson.Doc, name string) bool {
	n := 0
	for have := range d.All() {
		if have == name {
			n++
		}
	}
	return n > 1
}

// repeatable says whether an update does nothing the second time: it has no
// operator that counts or grows, and no path whose elements depend on what is
// there.
func repeatable(u *Update, text bson.Value) bool {
	if u.Kind() != Modifiers || bytes.Contains(text.Data, []byte(".$[")) {
		return false
	}
	for name := range text.Doc().All() {
		switch name {
		case "$inc", "$mul", "$push", "$pop", "$bit", "$rename":
			return false
		}
	}
	return true
}

// An update of one document ends when its operation does, however many array
// filters or conditions of a $pull meet however many elements, and however many
// fields change places.
func TestLongUpdatesEnd(t *testing.T) {
	var doc, filtered, renamed bson.Builder
	doc.OpenArray("a")
	for i := range 100000 {
		doc.Int32(bson.Index(i), int32(i))
	}
	doc.Close()
	opts := &Options{}
	filtered.OpenDoc("$set")
	renamed.OpenDoc("$rename")
	for i := range 1000 {
		doc.Int32(fmt.Sprint("f", i), 1)
		filtered.Int32(fmt.Sprintf("a.$[i%d]", i), 1)
		opts.ArrayFilters = append(opts.ArrayFilters, new(bson.Builder).Int32(fmt.Sprint("i", i), -1).Finish())
		renamed.String(fmt.Sprint("f", i), fmt.Sprint("g", i))
	}
	whole := doc.Finish()
	over, cancel := context.WithCancelCause(t.Context())
	cause := mongoerr.New(mongoerr.MaxTimeMSExpired, "over")
	cancel(cause)
	check := func(text bson.Doc, opts *Options) {
		u, err := Parse(bson.Document(text), opts)
		if err != nil {
			t.Fatal(err)
		}
		env := expr.NewEnv(now)
		env.Watch(over)
		if _, _, err := u.Apply(whole, &Context{Env: env}); !mongoerr.Is(err, mongoerr.MaxTimeMSExpired) {
			t.Errorf("%v", err)
		}
	}
	check(filtered.Close().Finish(), opts)
	check(renamed.Close().Finish(), nil)
	check(bson.MustParse(`{$pull: {a: {$gt: 5}}}`), nil)
}
