// Package bsontest draws BSON values for property tests: values of every type,
// and numbers that meet at the borders between the numeric types. For fuzzers it
// makes documents of any bytes (repair.go). Start at Value.
package bsontest

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

const maxDepth = 3

// Value draws values of every type that may stand in a document.
func Value() *rapid.Generator[bson.Value] { return valueOf(maxDepth) }

// Doc draws documents of a few fields, a few levels deep.
func Doc() *rapid.Generator[bson.Doc] { return docOf(maxDepth) }

func valueOf(depth int) *rapid.Generator[bson.Value] {
	return rapid.Custom(func(t *rapid.T) bson.Value {
		kinds := 19
		if depth == 0 {
			kinds = 16
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0, 1, 2, 3:
			return Number().Draw(t, "number")
		case 4, 5:
			return bson.String(Text().Draw(t, "string"))
		case 6:
			return bson.Symbol(Text().Draw(t, "symbol"))
		case 7:
			return bson.Binary(rapid.Byte().Filter(func(b byte) bool { return b != 2 }).Draw(t, "subtype"),
				rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 3), rapid.SliceOfN(rapid.Byte(), 235, 260)).Draw(t, "content"))
		case 8:
			return bson.ObjectID(objectID(t))
		case 9:
			return bson.Date(rapid.Int64().Draw(t, "date"))
		case 10:
			return bson.Timestamp(rapid.Uint64().Draw(t, "timestamp"))
		case 11:
			return bson.Regex(Name().Draw(t, "pattern"), rapid.SampledFrom([]string{"", "i", "im"}).Draw(t, "options"))
		case 12:
			return bson.DBPointer(Text().Draw(t, "namespace"), objectID(t))
		case 13:
			return bson.Code(Text().Draw(t, "code"))
		case 14, 15:
			return rapid.SampledFrom([]bson.Value{bson.Null, bson.Undefined, bson.True, bson.False,
				bson.MinKey, bson.MaxKey}).Draw(t, "constant")
		case 16:
			return bson.Document(docOf(depth-1).Draw(t, "document"))
		case 17:
			return bson.Array(rapid.SliceOfN(valueOf(depth-1), 0, 3).Draw(t, "array")...)
		}
		return bson.CodeScope(Text().Draw(t, "code"), docOf(depth-1).Draw(t, "scope"))
	})
}

func docOf(depth int) *rapid.Generator[bson.Doc] {
	return rapid.Custom(func(t *rapid.T) bson.Doc {
		var b bson.Builder
		b.Reset(nil)
		for range rapid.IntRange(0, 3).Draw(t, "fields") {
			b.Value(Name().Draw(t, "name"), valueOf(depth).Draw(t, "value"))
		}
		return b.Finish()
	})
}

func objectID(t *rapid.T) (id [12]byte) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 12, 12).Draw(t, "id"))
	return id
}

// Text draws short strings from few letters, zero bytes and Unicode among them.
func Text() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 0, 1, 2, 'é', '한', 0x10ffff}), 0, 4, -1)
}

// Name draws names of fields.
func Name() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 1, 2, '$', '.', 'é'}), 0, 3, -1)
}

// Number draws numbers of the four types, many of them equal to others or next
// to them.
func Number() *rapid.Generator[bson.Value] {
	return rapid.Custom(func(t *rapid.T) bson.Value {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return integer(t, rapid.Int64Range(-300, 300).Draw(t, "small"))
		case 1:
			i := int64(uint64(1) << rapid.IntRange(0, 63).Draw(t, "power"))
			i += rapid.Int64Range(-2, 2).Draw(t, "offset")
			return integer(t, i*rapid.SampledFrom([]int64{1, -1}).Draw(t, "sign"))
		case 2:
			f := float64(rapid.IntRange(-300, 300).Draw(t, "numerator"))
			return fraction(t, math.Ldexp(f, -rapid.IntRange(0, 12).Draw(t, "shift")))
		case 3:
			return fraction(t, math.Float64frombits(rapid.Uint64().Draw(t, "bits")))
		case 4:
			return fraction(t, rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1),
				math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p63, -0x1p63, 0x1p53, 0.1, 1e23}).Draw(t, "special"))
		}
		return bson.Decimal(Decimal().Draw(t, "decimal"))
	})
}

// integer gives i one of the types that hold it, or come close.
func integer(t *rapid.T, i int64) bson.Value {
	switch rapid.IntRange(0, 3).Draw(t, "type") {
	case 0:
		return bson.Int(i)
	case 1:
		return bson.Int64(i)
	case 2:
		return bson.Double(float64(i))
	}
	exp := rapid.IntRange(-10, 0).Draw(t, "exponent")
	d, _ := bson.DecimalFromInt64(i).WithExponent(exp)
	return bson.Decimal(d)
}

// fraction makes a double of f or a decimal equal or close to it.
func fraction(t *rapid.T, f float64) bson.Value {
	if rapid.Bool().Draw(t, "double") {
		return bson.Double(f)
	}
	d := bson.DecimalFromDouble(f, rapid.SampledFrom([]int{15, 17, 34}).Draw(t, "digits"))
	d.L += rapid.Uint64Range(0, 1).Draw(t, "offset")
	return bson.Decimal(d)
}

// Decimal draws decimals of all sizes, also such that are not canonical.
func Decimal() *rapid.Generator[bson.Decimal128] {
	return rapid.Custom(func(t *rapid.T) bson.Decimal128 {
		if rapid.IntRange(0, 3).Draw(t, "kind") == 0 {
			return bson.Decimal128{H: rapid.Uint64().Draw(t, "high"), L: rapid.Uint64().Draw(t, "low")}
		}
		digits := rapid.StringMatching(`[0-9]{1,34}`).Draw(t, "coefficient")
		exp := rapid.OneOf(rapid.IntRange(-40, 10), rapid.IntRange(-6200, 6200)).Draw(t, "exponent")
		sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
		d, _ := bson.ParseDecimal(fmt.Sprintf("%s%sE%d", sign, digits, exp))
		return d
	})
}
