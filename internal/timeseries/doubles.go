package timeseries

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// maxScale is the most decimal digits tried: powers of ten up to it are exact
// doubles, and so is the product of one and a small integer.
const maxScale = 9

// maxScaled is the greatest integer that a double has no gap below.
const maxScaled = 1 << 53

var powers = [maxScale + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// commonScale finds the fewest decimal digits that all values have exactly, as
// what sensors send mostly does.
func commonScale(values []bson.Value) (scale int, ok bool) {
	for _, v := range values {
		f := v.Double()
		for {
			if _, exact := scaled(f, scale); exact {
				break
			}
			if scale++; scale > maxScale {
				return 0, false
			}
		}
	}
	// More digits than a value needs can be too many for it.
	for _, v := range values {
		if _, exact := scaled(v.Double(), scale); !exact {
			return 0, false
		}
	}
	return scale, true
}

// scaled is f times the power of ten, and whether f comes back from it bit by
// bit: not so NaN, infinities, -0 and what needs more digits.
func scaled(f float64, scale int) (int64, bool) {
	x := math.Round(f * powers[scale])
	if !(math.Abs(x) < maxScaled) {
		return 0, false
	}
	i := int64(x)
	return i, math.Float64bits(float64(i)/powers[scale]) == math.Float64bits(f)
}

// Scaled doubles: scale ‖ differences of the integers.
func appendScaled(dst []byte, values []bson.Value, scale int) []byte {
	d := differ{dst: append(dst, byte(scale))}
	last := int64(0)
	for _, v := range values {
		x, _ := scaled(v.Double(), scale)
		d.append(x - last)
		last = x
	}
	return d.finish()
}

func scaledDoubles(r *reader, n int, dst []byte) []byte {
	scale := r.byte()
	if scale > maxScale {
		r.fail()
		return dst
	}
	u := undiffer{r: r}
	dst = slices.Grow(dst, 8*n)
	last, power := int64(0), powers[scale]
	for range n {
		last += u.next()
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(last)/power))
	}
	u.finish()
	return dst
}

// Other doubles: each XORed with the one before; neighbours share sign,
// exponent and leading digits, so with its bytes turned round it is a short
// varint.
func appendXOR(dst []byte, values []bson.Value) []byte {
	last := uint64(0)
	for _, v := range values {
		x := math.Float64bits(v.Double())
		dst = binary.AppendUvarint(dst, bits.Reverse64(x^last))
		last = x
	}
	return dst
}

func xoredDoubles(r *reader, n int, dst []byte) []byte {
	dst = slices.Grow(dst, 8*n)
	last := uint64(0)
	for range n {
		last ^= bits.Reverse64(r.uvarint())
		dst = binary.LittleEndian.AppendUint64(dst, last)
	}
	return dst
}
