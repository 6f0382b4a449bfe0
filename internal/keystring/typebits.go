package keystring

import (
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// What tells equal values apart. Every number and every string or symbol of a
// value, also inside documents and arrays, has one such byte, in order.
const (
	// bitsDefault is an int for zero and integers of 32 bits, a long for the
	// other ones above -2^63 and below 2^63, a double for all other numbers;
	// a string.
	bitsDefault    = 0
	bitsLong       = 1
	bitsDouble     = 2
	bitsDoubleZero = 3 // -0.0
	bitsDecimal    = 4 // two bytes follow: the exponent, plus 8000; the upper bit is set for -0
	bitsSymbol     = 5
)

const negativeZero = 0x8000 // in the exponent of a decimal

// AppendTypeBits appends what Decode needs, besides the component, to give v
// back exactly. The type bits of a key are those of its components one after
// another, passed through TrimTypeBits: for ints, strings and values of the
// types without alternatives nothing is left of them. Type bits do not depend
// on the direction.
func AppendTypeBits(dst []byte, v bson.Value) []byte {
	switch v.Type {
	case bson.TypeInt32, bson.TypeString:
		return append(dst, bitsDefault)
	case bson.TypeSymbol:
		return append(dst, bitsSymbol)
	case bson.TypeInt64:
		if i := v.Int64(); i == int64(int32(i)) || i == math.MinInt64 {
			return append(dst, bitsLong)
		}
		return append(dst, bitsDefault)
	case bson.TypeDouble:
		switch f := v.Double(); {
		case f == 0 && math.Signbit(f):
			return append(dst, bitsDoubleZero)
		case f > -1<<63 && f < 1<<63 && f == math.Trunc(f):
			return append(dst, bitsDouble)
		}
		return append(dst, bitsDefault)
	case bson.TypeDecimal:
		d := v.Decimal()
		exp := uint16(d.Exponent() + decimalExponent)
		switch {
		case d.IsNaN() || d.IsInf() != 0:
			exp = 0
		case d.IsZero() && d.Negative():
			exp |= negativeZero
		}
		return binary.BigEndian.AppendUint16(append(dst, bitsDecimal), exp)
	case bson.TypeDocument, bson.TypeArray:
		return appendFieldTypeBits(dst, v.Doc())
	case bson.TypeCodeScope:
		_, scope := v.CodeScope()
		return appendFieldTypeBits(dst, scope)
	}
	return dst
}

func appendFieldTypeBits(dst []byte, d bson.Doc) []byte {
	for it := d.Iter(); it.Next(); {
		dst = AppendTypeBits(dst, it.Value)
	}
	return dst
}

// TrimTypeBits cuts what Decode assumes anyway off the end of a key's type
// bits.
func TrimTypeBits(typeBits []byte) []byte {
	n := len(typeBits)
	for n > 0 && typeBits[n-1] == bitsDefault {
		n--
	}
	return typeBits[:n]
}

// typeReader reads type bits from the front; behind the end all are default.
type typeReader []byte

func (r *typeReader) next() byte {
	if len(*r) == 0 {
		return bitsDefault
	}
	b := (*r)[0]
	*r = (*r)[1:]
	return b
}
