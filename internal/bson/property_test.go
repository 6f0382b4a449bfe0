package bson_test

import (
	"bytes"
	"math"
	"testing"

	driver "go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
)

// TestJSONAgainstDriver holds that documents print as the driver prints them
// and read back byte by byte.
func TestJSONAgainstDriver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := bsontest.Doc().Draw(t, "document")
		if err := bson.Validate(d, bson.MaxDepth); err != nil {
			t.Fatalf("%x: %v", []byte(d), err)
		}
		if !plain(d) {
			return
		}
		for _, mode := range []bson.JSONMode{bson.CanonicalJSON, bson.RelaxedJSON} {
			want, err := driver.MarshalExtJSON(driver.Raw(d), bool(mode), false)
			if err != nil {
				t.Fatal(err)
			}
			if got := d.AppendJSON(nil, mode); !bytes.Equal(got, want) {
				t.Fatalf("got %s\nwant %s", got, want)
			}
		}
		text := string(d.AppendJSON(nil, bson.CanonicalJSON))
		back, err := bson.ParseJSON(text)
		if err != nil || !bytes.Equal(back, d) {
			t.Fatalf("%s became %x, not %x (%v)", text, []byte(back), []byte(d), err)
		}
	})
}

// plain says whether Extended JSON can carry d (names that start with a dollar
// sign may look like a type) and the driver prints it as we do.
func plain(d bson.Doc) bool {
	for name, v := range d.All() {
		switch v.Type {
		case bson.TypeDate:
			if v.Date()%10 == 0 {
				return false // the driver cuts zeros off the milliseconds
			}
		case bson.TypeDBPointer:
			return false // the driver does not escape its namespace
		case bson.TypeDocument, bson.TypeArray:
			if !plain(v.Doc()) {
				return false
			}
		case bson.TypeCodeScope:
			if _, scope := v.CodeScope(); !plain(scope) {
				return false
			}
		case bson.TypeDecimal:
			dec, _ := bson.ParseDecimal(v.Decimal().String())
			if dec != v.Decimal() {
				return false
			}
		case bson.TypeDouble:
			if math.IsNaN(v.Double()) && math.Float64bits(v.Double()) != math.Float64bits(math.NaN()) {
				return false
			}
		}
		if name != "" && name[0] == '$' {
			return false
		}
	}
	return true
}

// TestCompareIsAnOrder holds the laws that sorting and indexes stand on.
func TestCompareIsAnOrder(t *testing.T) {
	value := rapid.OneOf(bsontest.Value(), bsontest.Number())
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := value.Draw(t, "a"), value.Draw(t, "b"), value.Draw(t, "c")
		if bson.Compare(a, a) != 0 || bson.Compare(a, b) != -bson.Compare(b, a) {
			t.Fatalf("%s, %s: not symmetrical", a, b)
		}
		if bson.Compare(a, b) <= 0 && bson.Compare(b, c) <= 0 && bson.Compare(a, c) > 0 {
			t.Fatalf("%s, %s, %s: not transitive", a, b, c)
		}
	})
}

// FuzzValidate holds that no bytes make reading panic, that Validate accepts
// what the driver accepts in what both check, and that all of a valid document
// can be used.
func FuzzValidate(f *testing.F) {
	for _, text := range []string{`{}`, `{a: 1, b: "x", c: [1.5, null, {d: true}]}`, `{a: {$code: "x", $scope: {b: 1}}}`,
		`{a: /x/i, b: BinData(2, "YQ=="), c: DBPointer("a", ObjectId("0102030405060708090a0b0c"))}`} {
		f.Add([]byte(bson.MustParse(text)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := bson.Doc(b)
		n := 0
		for range d.All() {
			n++
		}
		d.Lookup("a")
		if err := bson.Validate(d, bson.MaxDepth); err != nil {
			return
		}
		if n != d.Len() {
			t.Fatal("an iteration stopped early")
		}
		if bson.ExceedsDepth(d, bson.MaxDepth) {
			t.Fatal("too deep")
		}
		_ = d.String()
		d.AppendJSON(nil, bson.CanonicalJSON)
		if bson.Compare(bson.Document(d), bson.Document(d)) != 0 {
			t.Fatal("not equal to itself")
		}
	})
}

// FuzzParseJSON holds that no text makes the parser panic, and that what it
// makes is well-formed.
func FuzzParseJSON(f *testing.F) {
	for _, text := range []string{`{a: 1}`, `{"a": {"$date": "2020-01-01T00:00:00Z"}}`, `[ObjectId('x'), /a/i, -Infinity]`, `{a: "\ud83d\ude00"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := bson.ParseJSONValue(text)
		if err != nil {
			return
		}
		if err := bson.Validate(new(bson.Builder).Value("v", v).Finish(), bson.MaxMessageDepth+1); err != nil {
			t.Fatal(err)
		}
	})
}

var benchDoc = bson.MustParse(`{_id: ObjectId("0102030405060708090a0b0c"), user: "user-12345", active: true, score: 12.5,
	visits: 42, created: {$date: 1700000000000}, tags: ["a", "b", "c"], address: {street: "Main Street 1", city: "Springfield", zip: "12345"},
	note: "` + "some text that makes the document about three hundred bytes long, as in the benchmark of the project" + `", last: null}`)

func BenchmarkIterate(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchDoc)))
	for b.Loop() {
		for it := benchDoc.Iter(); it.Next(); {
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if benchDoc.Lookup("created").IsMissing() {
			b.Fatal("missing")
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	b.ReportAllocs()
	b.SetBytes(int64(len(benchDoc)))
	for b.Loop() {
		if err := bson.Validate(benchDoc, bson.MaxDepth); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompare(b *testing.B) {
	for _, test := range []struct{ name, a, b string }{
		{"int", `42`, `43`},
		{"int double", `42`, `42.5`},
		{"string", `"user-12345"`, `"user-12346"`},
		{"decimal", `NumberDecimal("19.99")`, `NumberDecimal("19.990")`},
		{"decimal double", `NumberDecimal("19.99")`, `19.99`},
		{"document", `{a: 1, b: "x"}`, `{a: 1, b: "y"}`},
	} {
		x, y := bson.MustParseValue(test.a), bson.MustParseValue(test.b)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				bson.Compare(x, y)
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	b.ReportAllocs()
	var builder bson.Builder
	buf := make([]byte, 0, 512)
	for b.Loop() {
		builder.Reset(buf[:0]).Int32("a", 1).String("b", "hello").OpenDoc("c").Date("d", 5).Close().Double("ok", 1).Finish()
	}
}
