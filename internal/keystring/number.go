package keystring

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/mayflydb/mayfly/internal/bson"
)

const doubleBits = 53 // of a double's significand

func bytesOf(u uint64) int { return (bits.Len64(u) + 7) / 8 }

func appendInteger(dst []byte, i int64) []byte {
	switch {
	case i > 0:
		u := uint64(i) << 1
		n := bytesOf(u)
		return appendBigEndian(append(dst, byte(tagPosWhole1-1+n)), u, n)
	case i == 0:
		return append(dst, tagZero)
	case i == math.MinInt64:
		return appendMagnitude(dst, 1<<63, true, false)
	}
	u := uint64(-i) << 1
	n := bytesOf(u)
	return appendBigEndian(append(dst, byte(tagNegWhole1+1-n)), ^u, n)
}

func appendDouble(dst []byte, f float64) []byte {
	switch {
	case f != f:
		return append(dst, tagNaN)
	case f == 0:
		return append(dst, tagZero)
	case f > -1<<63 && f < 1<<63 && f == math.Trunc(f):
		return appendInteger(dst, int64(f))
	}
	return appendMagnitude(dst, math.Abs(f), f < 0, false)
}

// appendMagnitude writes a number of the size f ≥ 0, which is no integer below
// 2^63 if more is false; more says that a decimal's rest follows.
func appendMagnitude(dst []byte, f float64, negative, more bool) []byte {
	var tag byte
	switch {
	case f < 1:
		tag = tagPosSmall
	case f >= 1<<63:
		tag = tagPosLarge
	default:
		// The fraction is what the significand has below the whole part.
		whole := uint64(f)
		size := fractionBits(whole)
		fraction := math.Float64bits(f) & (1<<size - 1)
		return appendFraction(dst, whole, fraction, negative, more)
	}
	u := math.Float64bits(f)<<1 | bit(more)
	if negative {
		tag, u = mirror(tag), ^u
	}
	return binary.BigEndian.AppendUint64(append(dst, tag), u)
}

// mirror is the tag that -x has where x has tag.
func mirror(tag byte) byte { return 2*tagZero - tag }

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// fractionBits is the number of bits that a double with that whole part has
// for its fraction.
func fractionBits(whole uint64) int { return max(doubleBits-bits.Len64(whole), 0) }

// appendFraction writes a number with 1 ≤ whole < 2^63 that is no integer.
func appendFraction(dst []byte, whole, fraction uint64, negative, more bool) []byte {
	w, f := whole<<1|1, fraction<<1|bit(more)
	n, size := bytesOf(w), fractionBits(whole)/8+1
	tag := byte(tagPosWhole1 - 1 + n)
	if negative {
		tag, w, f = mirror(tag), ^w, ^f
	}
	dst = appendBigEndian(append(dst, tag), w, n)
	return appendBigEndian(dst, f, size)
}

func appendDecimal(dst []byte, d bson.Decimal128) []byte {
	if d.IsNaN() {
		return append(dst, tagNaN)
	}
	if i, exact, ok := d.TruncateToInt64(); ok && exact {
		return appendInteger(dst, i)
	} else if ok && (i >= 1<<doubleBits || i <= -1<<doubleBits) && i != math.MinInt64 {
		dst = appendFraction(dst, uint64(max(i, -i)), 0, i < 0, true)
		return appendRest(dst, d)
	}
	f, exact := d.TruncateToDouble()
	dst = appendMagnitude(dst, math.Abs(f), d.Negative(), !exact)
	if !exact {
		dst = appendRest(dst, d)
	}
	return dst
}

// appendRest writes the whole decimal behind the double it is a little further
// from zero than.
func appendRest(dst []byte, d bson.Decimal128) []byte {
	start := len(dst)
	var buf [40]byte
	digits, exp := d.Digits(buf[:0])
	dst = binary.BigEndian.AppendUint16(dst, uint16(exp+len(digits)-1+decimalExponent))
	if len(digits)%2 != 0 {
		digits = append(digits, '0')
	}
	for digits[len(digits)-1] == '0' && digits[len(digits)-2] == '0' {
		digits = digits[:len(digits)-2]
	}
	for i := 0; i < len(digits); i += 2 {
		dst = append(dst, (digits[i]-'0')*10+digits[i+1]-'0'+1)
	}
	dst = append(dst, end)
	if d.Negative() {
		invert(dst[start:])
	}
	return dst
}
