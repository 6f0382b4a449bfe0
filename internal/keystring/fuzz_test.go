package keystring

import (
	"bytes"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/bson/bsontest"
)

// FuzzDecode holds that no bytes make Decode or Skip panic, that they agree on
// the length, and that what decodes without an error is encoded and decoded to
// the same value. Read as a document, their values keep their order
// and come back, too.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`1`, `-1.5`, `"a\u0000b"`, `[1, {a: "x"}]`, `NumberDecimal("0.1")`, `/a/i`, `BinData(0, "YQ==")`} {
		v := bson.MustParseValue(text)
		f.Add(Append(nil, v, false, nil), AppendTypeBits(nil, v), false)
		f.Add(Append(nil, v, true, nil), AppendTypeBits(nil, v), true)
	}
	for _, text := range []string{`{a: 1, b: 1.5, c: NumberDecimal("1.5"), d: NumberLong(1)}`, `{a: [1, "x"], b: [1, {c: "x"}], d: {c: "x"}}`} {
		f.Add([]byte(bson.MustParse(text)), []byte{}, true)
	}
	f.Fuzz(func(t *testing.T, key, typeBits []byte, descending bool) {
		if doc := bsontest.Repair(key); len(doc) < 1000 {
			checkValues(t, doc.Slice(), descending)
		}
		vs, rest, err := Decode(key, typeBits, []bool{descending})
		n := Skip(key, descending)
		if err != nil {
			return
		}
		if n != len(key)-len(rest) {
			t.Fatalf("skipped %d of %x, decoded %d", n, key, len(key)-len(rest))
		}
		checkValues(t, vs, descending)
	})
}

// checkValues encodes values, each by itself and all in a row, and decodes them.
func checkValues(t *testing.T, vs []bson.Value, descending bool) {
	var row, bits []byte
	directions := make([]bool, len(vs))
	for i, v := range vs {
		key := Append(nil, v, descending, nil)
		if Skip(key, descending) != len(key) {
			t.Fatalf("%s is %x: not whole", v, key)
		}
		if i > 0 {
			want := sign(bson.Compare(vs[i-1], v))
			if descending {
				want = -want
			}
			if got := bytes.Compare(Append(nil, vs[i-1], descending, nil), key); got != want {
				t.Fatalf("%s and %s: %d, not %d", vs[i-1], v, got, want)
			}
		}
		row, bits, directions[i] = append(row, key...), AppendTypeBits(bits, v), descending
	}
	got, rest, err := Decode(row, TrimTypeBits(bits), directions)
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v are %x, which do not decode: %v, rest %x", vs, row, err, rest)
	}
	for i, v := range vs {
		if want := exact(v); got[i].Type != want.Type || !bytes.Equal(got[i].Data, want.Data) {
			t.Fatalf("%s %s became %s %s", v.Type, v, got[i].Type, got[i])
		}
	}
}
