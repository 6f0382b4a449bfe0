package javascript

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestScripts runs testdata. The first line of a case is the document that is
// this, each other line a text that is run for it: every one in a session of its
// own (run), all in one (session), as $where (test), or as a map function (emit).
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		e := NewEngine(Options{})
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			lines := strings.Split(c.Input, "\n")
			doc := bson.MustParse(lines[0])
			var out strings.Builder
			s := newSession(e)
			for _, text := range lines[1:] {
				if c.Cmd != "session" {
					s = newSession(e)
				}
				v, err := runCase(s, c.Cmd, text, doc)
				if err != nil {
					e := mongoerr.From(err)
					fmt.Fprintf(&out, "%d: %s\n", e.Code, strconv.Quote(e.Message))
					continue
				}
				out.WriteString(v.String() + "\n")
			}
			return out.String()
		})
	})
}

func newSession(e *Engine) *Session {
	return &Session{
		Engine: e, Globals: bson.MustParse(`{limit: 7, settings: {deep: [1, 2]}}`),
		Library: library{
			new(bson.Builder).String("_id", "twice").Value("value", bson.Code("function(x) { return 2 * x }")).Finish(),
			bson.MustParse(`{_id: "answer", value: 42}`),
		},
	}
}

// library is the stored functions of the scripts.
type library []bson.Doc

func (l library) Stored(context.Context) ([]bson.Doc, error) { return l, nil }

// runCase runs a text in the way of a command of the scripts.
func runCase(s *Session, how, text string, doc bson.Doc) (v bson.Value, err error) {
	f, err := s.Engine.Compile(text)
	if err != nil {
		return v, err
	}
	ctx := context.Background()
	switch how {
	case "test":
		ok, err := s.Test(ctx, f, doc)
		return bson.Bool(ok), err
	case "emit":
		s.MapReduce = true
		return s.Emit(ctx, f, doc)
	}
	err = s.run(ctx, false, func(c *scope) error {
		result, err := c.call(f, c.document(doc))
		if err == nil {
			v, err = c.result(result)
		}
		return err
	})
	return v, err
}

// TestFold holds that the state stays between the calls, and comes back.
func TestFold(t *testing.T) {
	s := newSession(NewEngine(Options{}))
	f, err := s.Engine.Compile("function(state, x, y) { state.all.push([x, y]); return state }")
	if err != nil {
		t.Fatal(err)
	}
	calls := []bson.Value{bson.MustParseValue(`[1, {a: NumberLong(2)}]`), bson.MustParseValue(`["x"]`), bson.MustParseValue(`[]`)}
	got, err := s.Fold(t.Context(), f, bson.MustParseValue(`{n: 1, all: []}`), calls)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{ n: 1, all: [ [ 1.0, { a: 2 } ], [ "x", undefined ], [ undefined, undefined ] ] }`
	if got.String() != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestRoundTrip holds that values come back as they are, whether their fields
// were looked at or not, apart from what the server changes too: numbers that
// are not fields of a document become doubles.
func TestRoundTrip(t *testing.T) {
	e := NewEngine(Options{})
	s := &Session{Engine: e}
	touch, err := e.Compile(`function(d) {
		(function walk(o) { for (const name in o) { try { if (o[name] instanceof Object) walk(o[name]) } catch (e) {} } })(d);
		return d;
	}`)
	if err != nil {
		t.Fatal(err)
	}
	same, err := e.Compile("function(d) { return d }")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		d := bson.Document(bsontest.Doc().Draw(t, "document"))
		got, err := s.Call(context.Background(), same, d)
		if err != nil || string(got.Data) != string(d.Data) {
			t.Fatalf("untouched %s became %s, %v", d, got, err)
		}
		got, err = s.Call(context.Background(), touch, d)
		if err != nil {
			t.Fatal(err) // what an array holds that does not compile is caught
		}
		if want := expected(d, true); !losesInArrays(d) && want.String() != got.String() {
			t.Fatalf("%s became %s, not %s", d, got, want)
		}
	})
}

// expected is a value as it comes back when all of it was looked at; field says
// that it is a field of a document.
func expected(v bson.Value, field bool) bson.Value {
	var b bson.Builder
	b.Reset(nil)
	switch v.Type {
	case bson.TypeDocument:
		if !holdsObjects(v.Doc()) {
			return v
		}
		seen := map[string]bool{}
		for it := v.Doc().Iter(); it.Next(); {
			if !seen[it.Key] {
				b.Value(it.Key, expected(it.Value, true))
			}
			seen[it.Key] = true
		}
		return bson.Document(b.Finish())
	case bson.TypeArray:
		i := 0
		for e := range v.Doc().Values() {
			b.Value(bson.Index(i), expected(e, false))
			i++
		}
		return bson.ArrayOf(b.Finish())
	}
	if field {
		return v
	}
	switch v.Type {
	case bson.TypeInt32:
		return bson.Double(float64(v.Int32()))
	case bson.TypeSymbol:
		return bson.String(v.Str())
	case bson.TypeUndefined:
		return bson.Null
	}
	return v
}

// losesInArrays says whether an array somewhere holds what is not the same when
// it was JavaScript's: functions, patterns, and dates beyond its own.
func losesInArrays(v bson.Value) bool {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return false
	}
	for e := range v.Doc().Values() {
		if losesInArrays(e) {
			return true
		}
		switch e.Type {
		case bson.TypeCode, bson.TypeCodeScope, bson.TypeRegex, bson.TypeDate:
			if v.Type == bson.TypeArray {
				return true
			}
		}
	}
	return false
}

// holdsObjects says whether a field is read as an object that could be changed.
func holdsObjects(d bson.Doc) bool {
	for it := d.Iter(); it.Next(); {
		if !isFixed(d.Lookup(it.Key).Type) {
			return true
		}
	}
	return false
}

// TestStops holds that calls end with their context, even those that nothing but
// a stop ends, and that the session works on.
func TestStops(t *testing.T) {
	s := newSession(NewEngine(Options{}))
	ended := errors.New("ended")
	for _, text := range []string{
		"while (true) {}", "function f() { while (true) { try { none() } catch (e) {} } }",
		"for (;;) [3, 2, 1].sort(function(a, b) { return a - b })",
	} {
		f, err := s.Engine.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(20*time.Millisecond, func() { cancel(ended) })
		if _, err := s.Call(ctx, f); !errors.Is(err, ended) {
			t.Errorf("%s: %v", text, err)
		}
		stop.Stop()
		cancel(nil)
		if ok, err := s.Test(t.Context(), mustCompile(t, s.Engine, "twice(this.a) == 4"), bson.MustParse(`{a: 2}`)); !ok || err != nil {
			t.Errorf("after %s: %t, %v", text, ok, err)
		}
	}
}

func mustCompile(t testing.TB, e *Engine, text string) *Function {
	f, err := e.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestTexts holds that texts made to keep the parser or the compiler busy are
// refused, and that those just below the bounds end.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		part, rest string
		n          int
		refused    string
	}{
		{"1+", "1", maxOperators + 1, "operators"},
		{"a=>", "1", maxOperators/2 + 1, "operators"},
		{"a:", "1", maxColons + 1, "colons"},
		{"(", "1", maxNesting + 1, "nest"},
		{"void ", "1", maxText/5 + 1, "longer"},
		{"1+", "1", 1000, ""},
		{"!", "1", maxOperators, ""},
		{"if (1) ", "1", maxText / 8, ""},
	} {
		_, err := NewEngine(Options{}).Compile(strings.Repeat(c.part, c.n) + c.rest)
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%d of %q: %v", c.n, c.part, err)
		}
	}
}

// FuzzCompile holds that no text makes the compiler panic or run away.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{"", "1", "function() { return 1 }", "a => b", "`${`", "/[/]/.x", "{", "return", "var x = 1; (x)"} {
		f.Add(text)
	}
	e := NewEngine(Options{})
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := e.Compile(text); err != nil && !mongoerr.Is(err, mongoerr.JSInterpreterFailure) {
			t.Error(err)
		}
	})
}

func BenchmarkTest(b *testing.B) {
	s := &Session{Engine: NewEngine(Options{})}
	f := mustCompile(b, s.Engine, "this.a > 1 && this.b.c == 'x'")
	d := bson.MustParse(`{a: 2, b: {c: "x"}, d: [1, 2, 3]}`)
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := s.Test(b.Context(), f, d); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func BenchmarkNewScope(b *testing.B) {
	e := NewEngine(Options{})
	f := mustCompile(b, e, "true")
	b.ReportAllocs()
	for b.Loop() {
		s := &Session{Engine: e}
		if ok, err := s.Test(b.Context(), f, bson.Empty); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
