package match

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

var names = rapid.SampledFrom([]string{"a", "b", "0", "1"})

// values draws a small value of any shape, so that equal ones are frequent.
func values(depth int) *rapid.Generator[bson.Value] {
	scalars := rapid.SampledFrom([]bson.Value{
		bson.Int32(0), bson.Int32(1), bson.Int64(1), bson.Double(1), bson.Double(2.5), bson.MustParseValue("NaN"),
		bson.String("x"), bson.String("xy"), bson.Null, bson.True, bson.MinKey, bson.MustParseValue(`/x/`),
	})
	if depth == 0 {
		return scalars
	}
	return rapid.OneOf(scalars, scalars,
		rapid.Map(rapid.SliceOfN(values(depth-1), 0, 3), func(vs []bson.Value) bson.Value { return bson.Array(vs...) }),
		rapid.Map(documents(depth-1), bson.Document))
}

func documents(depth int) *rapid.Generator[bson.Doc] {
	return rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		for _, name := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID[string]).Draw(t, "names") {
			b.Value(name, values(depth).Draw(t, "value"))
		}
		return b.Finish()
	})
}

func paths() *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(names, 1, 3), func(parts []string) string {
		path := parts[0]
		for _, p := range parts[1:] {
			path += "." + p
		}
		return path
	})
}

// filters draws a valid filter.
func filters(depth int) *rapid.Generator[bson.Doc] {
	return rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		kind := 0
		if depth > 0 {
			kind = rapid.IntRange(0, 4).Draw(t, "kind")
		}
		switch kind {
		case 1, 2, 3:
			b.OpenArray([]string{"$and", "$or", "$nor"}[kind-1])
			for i, branch := range rapid.SliceOfN(filters(depth-1), 1, 3).Draw(t, "branches") {
				b.Doc(bson.Index(i), branch)
			}
			return b.Close().Finish()
		}
		for _, path := range rapid.SliceOfNDistinct(paths(), 0, 2, rapid.ID[string]).Draw(t, "paths") {
			b.Doc(path, conditions(depth).Draw(t, "conditions"))
		}
		return b.Finish()
	})
}

func conditions(depth int) *rapid.Generator[bson.Doc] {
	return rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		ops := []string{"$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$exists", "$type", "$size", "$all", "$regex", "$mod", "$bitsAnySet", "$not", "$elemMatch"}
		op := rapid.SampledFrom(ops).Draw(t, "op")
		switch op {
		case "$in", "$nin", "$all":
			list := rapid.SliceOfN(values(1), 0, 4).Draw(t, "list")
			b.Value(op, bson.Array(list...))
		case "$exists":
			b.Bool(op, rapid.Bool().Draw(t, "exists"))
		case "$type":
			b.Value(op, bson.String(rapid.SampledFrom([]string{"number", "array", "object", "string"}).Draw(t, "type")))
		case "$size", "$bitsAnySet":
			b.Int32(op, rapid.Int32Range(0, 3).Draw(t, "n"))
		case "$mod":
			b.Value(op, bson.Array(bson.Int32(2), bson.Int32(1)))
		case "$regex":
			b.String(op, "^x.")
		case "$not":
			b.Doc(op, conditions(depth).Draw(t, "not"))
		case "$elemMatch":
			if depth == 0 {
				b.Doc(op, bson.MustParse(`{$gt: 0}`))
			} else {
				b.Doc(op, rapid.OneOf(filters(depth-1), conditions(depth-1)).Draw(t, "elemMatch"))
			}
		default:
			v := values(1).Draw(t, "value")
			if v.Type == bson.TypeRegex {
				v = bson.Null
			}
			b.Value(op, v)
		}
		return b.Finish()
	})
}

func matches(t *rapid.T, filter, doc bson.Doc) bool {
	f, err := Parse(filter, nil)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	ok, err := f.Match(doc)
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	return ok
}

// combine is {op: [filters…]}.
func combine(op string, filters ...bson.Doc) bson.Doc {
	var b bson.Builder
	b.OpenArray(op)
	for i, f := range filters {
		b.Doc(bson.Index(i), f)
	}
	return b.Close().Finish()
}

func TestDeMorgan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, p, q := documents(2).Draw(t, "doc"), filters(2).Draw(t, "p"), filters(2).Draw(t, "q")
		a, b := matches(t, p, doc), matches(t, q, doc)
		for op, want := range map[string]bool{"$and": a && b, "$or": a || b, "$nor": !a && !b} {
			if got := matches(t, combine(op, p, q), doc); got != want {
				t.Fatalf("%s of %v (%s) and %v (%s) is %v on %s", op, a, p, b, q, got, doc)
			}
		}
	})
}

func TestInIsOrOfEq(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, path := documents(2).Draw(t, "doc"), paths().Draw(t, "path")
		list := rapid.SliceOfN(values(1), 1, 12).Draw(t, "list")
		var in bson.Builder
		in.OpenDoc(path).Value("$in", bson.Array(list...)).Close()
		want := false
		for _, v := range list {
			want = want || matches(t, new(bson.Builder).Value(path, v).Finish(), doc)
		}
		if got := matches(t, in.Finish(), doc); got != want {
			t.Fatalf("$in is %v, its values one by one %v", got, want)
		}
	})
}

// TestNormalForm holds that normalising keeps the meaning, and that the
// printed normal form is a filter of the same meaning.
func TestNormalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, filter := documents(2).Draw(t, "doc"), filters(2).Draw(t, "filter")
		raw, err := newParser(nil).document(filter, wholeFilter)
		if err != nil {
			t.Fatalf("%s: %v", filter, err)
		}
		want, err := raw.match(subject{bson.Document(doc), document}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := matches(t, filter, doc); got != want {
			t.Fatalf("%s on %s: normalised %v, as written %v", filter, doc, got, want)
		}
		printed := Serialize(normalize(raw))
		if got := matches(t, printed, doc); got != want {
			t.Fatalf("%s on %s: %v, printed as %s: %v", filter, doc, want, printed, got)
		}
	})
}

// TestExplainFailureAlways holds that every rejected document can be explained.
func TestExplainFailureAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, filter := documents(2).Draw(t, "doc"), filters(2).Draw(t, "filter")
		if matches(t, filter, doc) {
			return
		}
		f, err := Parse(filter, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.ExplainFailure(doc, nil)
		if err != nil || bson.Validate(info, 200) != nil || !info.Has("details") {
			t.Fatalf("%s on %s: %s, %v", filter, doc, info, err)
		}
	})
}
