package keystring

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

var benchValues = []struct {
	name string
	v    bson.Value
}{
	{"int", bson.Int32(123456)},
	{"double", bson.Double(3.14159)},
	{"decimal", bson.MustParseValue(`NumberDecimal("19.99")`)},
	{"objectid", bson.ObjectID(bson.NewObjectID())},
	{"date", bson.Date(1700000000000)},
	{"string10", bson.String("user-12345")},
	{"string40", bson.String("2c7f733333333333331f3f0b002c7f7333333333")},
	{"document", bson.MustParseValue(`{a: 1, b: "x"}`)},
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 256)
	for _, test := range benchValues {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = Append(buf[:0], test.v, false, nil)
			}
		})
	}
}

func BenchmarkSkip(b *testing.B) {
	for _, test := range benchValues {
		key := Append(nil, test.v, false, nil)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if Skip(key, false) < 0 {
					b.Fatal("not whole")
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, test := range benchValues {
		key := Append(nil, test.v, false, nil)
		bits := TrimTypeBits(AppendTypeBits(nil, test.v))
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Decode(key, bits, []bool{false}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHash(b *testing.B) {
	for _, test := range benchValues {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Hash(test.v, 0)
			}
		})
	}
}
