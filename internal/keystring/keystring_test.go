package keystring

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
)

func sign(i int) int {
	switch {
	case i < 0:
		return -1
	case i > 0:
		return 1
	}
	return 0
}

// TestOrder is the invariant "order" of doc.go, and "prefix" in the form that
// a component followed by others still orders by itself first.
func TestOrder(t *testing.T) {
	value := rapid.OneOf(bsontest.Value(), bsontest.Number())
	rapid.Check(t, func(t *rapid.T) {
		a, b := value.Draw(t, "a"), value.Draw(t, "b")
		for _, descending := range []bool{false, true} {
			want := sign(bson.Compare(a, b))
			if descending {
				want = -want
			}
			ka, kb := Append(nil, a, descending, nil), Append(nil, b, descending, nil)
			if got := bytes.Compare(ka, kb); got != want {
				t.Fatalf("descending %v: %s is %x, %s is %x: %d, not %d", descending, a, ka, b, kb, got, want)
			}
			if want != 0 && (bytes.HasPrefix(ka, kb) || bytes.HasPrefix(kb, ka)) {
				t.Fatalf("%s is %x, %s is %x: a prefix", a, ka, b, kb)
			}
			if lower, upper := AppendMin(nil, b.Type, descending), AppendMax(nil, b.Type, descending); a.Type.Class() == b.Type.Class() !=
				(bytes.Compare(lower, ka) <= 0 && bytes.Compare(ka, upper) < 0) {
				t.Fatalf("descending %v: %s is %x, the class of %s from %x to %x", descending, a, ka, b, lower, upper)
			}
		}
	})
}

// exact is v without what no key keeps.
func exact(v bson.Value) bson.Value {
	switch v.Type {
	case bson.TypeDouble:
		if math.IsNaN(v.Double()) {
			return bson.Double(math.NaN())
		}
	case bson.TypeDecimal:
		d, _ := bson.ParseDecimal(v.Decimal().String())
		if d, ok := d.WithExponent(v.Decimal().Exponent()); ok && v.Decimal().IsInf() == 0 && !v.Decimal().IsNaN() {
			return bson.Decimal(d)
		}
		return bson.Decimal(d)
	case bson.TypeDocument:
		return bson.Document(exactFields(v.Doc()))
	case bson.TypeArray:
		var vs []bson.Value // whatever their names
		for v := range v.Doc().Values() {
			vs = append(vs, exact(v))
		}
		return bson.Array(vs...)
	case bson.TypeCodeScope:
		code, scope := v.CodeScope()
		return bson.CodeScope(code, exactFields(scope))
	}
	return v
}

func exactFields(d bson.Doc) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for name, v := range d.All() {
		b.Value(name, exact(v))
	}
	return b.Finish()
}

// TestRoundTrip is the invariants "exact" and "prefix" of doc.go.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(rapid.OneOf(bsontest.Value(), bsontest.Number()), 1, 3).Draw(t, "values")
		descending := rapid.SliceOfN(rapid.Bool(), len(vs), len(vs)).Draw(t, "descending")
		tail := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "tail")
		var key, typeBits []byte
		var ends []int
		for i, v := range vs {
			key = Append(key, v, descending[i], nil)
			typeBits = AppendTypeBits(typeBits, v)
			ends = append(ends, len(key))
		}
		key = append(key, tail...)
		start := 0
		for i := range vs {
			if n := Skip(key[start:], descending[i]); start+n != ends[i] {
				t.Fatalf("%s: skipped %d bytes of %x", vs[i], n, key[start:])
			}
			if n := Skip(key[start:ends[i]-1], descending[i]); n >= 0 {
				t.Fatalf("%s: a part of %x is whole", vs[i], key[start:ends[i]])
			}
			start = ends[i]
		}
		got, rest, err := Decode(key, TrimTypeBits(typeBits), descending)
		if err != nil || !bytes.Equal(rest, tail) {
			t.Fatalf("%x: %v, rest %x", key, err, rest)
		}
		for i, v := range vs {
			if want := exact(v); got[i].Type != want.Type || !bytes.Equal(got[i].Data, want.Data) {
				t.Fatalf("%s %s became %s %s (%x %x)", v.Type, v, got[i].Type, got[i], got[i].Data, want.Data)
			}
		}
	})
}

func TestSuccessor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff}), 0, 4).Draw(t, "key")
		other := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0xfe, 0xff}), 0, 6).Draw(t, "other")
		next := Successor(key)
		if next == nil {
			if len(bytes.TrimRight(key, "\xff")) > 0 {
				t.Fatalf("%x has a successor", key)
			}
			return
		}
		inside := bytes.Compare(key, other) <= 0 && bytes.Compare(other, next) < 0
		if inside != bytes.HasPrefix(other, key) {
			t.Fatalf("from %x to %x: %x", key, next, other)
		}
	})
}

// folding is a collator that ignores case, with keys that need escapes.
type folding struct{}

func (folding) Compare(a, b string) int {
	return strings.Compare(strings.ToLower(a), strings.ToLower(b))
}

func (folding) AppendKey(dst []byte, s string) []byte { return append(dst, strings.ToLower(s)...) }

func TestCollation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'A', 'b', 0, 1}), 0, 3, -1)
		value := rapid.Custom(func(t *rapid.T) bson.Value {
			v := bson.String(letters.Draw(t, "text"))
			if rapid.Bool().Draw(t, "nested") {
				return bson.Array(v, bson.Document(new(bson.Builder).Value("A", v).Finish()))
			}
			return v
		})
		a, b := value.Draw(t, "a"), value.Draw(t, "b")
		ka, kb := Append(nil, a, false, folding{}), Append(nil, b, false, folding{})
		if got, want := bytes.Compare(ka, kb), sign(bson.CompareWith(a, b, folding{})); got != want {
			t.Fatalf("%s is %x, %s is %x: %d, not %d", a, ka, b, kb, got, want)
		}
		if Skip(ka, false) != len(ka) {
			t.Fatalf("%s is %x: not whole", a, ka)
		}
	})
}

// TestGolden pins the bytes: they are on disks.
func TestGolden(t *testing.T) {
	datadriven.RunTest(t, "testdata/golden", func(t *testing.T, d *datadriven.TestData) string {
		var out strings.Builder
		for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
			v := bson.MustParseValue(line)
			key := Append(nil, v, d.Cmd == "descending", nil)
			bits := TrimTypeBits(AppendTypeBits(nil, v))
			fmt.Fprintf(&out, "%s", hex.EncodeToString(key))
			if len(bits) > 0 {
				fmt.Fprintf(&out, " type bits %x", bits)
			}
			out.WriteByte('\n')
		}
		return out.String()
	})
}
