package timeseries

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// maxScale is the most decimal digits tried: powers of ten up to it are exact
// doubles, and so is the product of one and a small integer.
const maxScale = 9

// maxScaled is the greatest integer that a double has no gap below.
const maxScaled = 1 << 53

var powers = [maxScale + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}

// double is double i of those that lie one behind the other in data.
func double(data []byte, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
}

// commonScale finds the fewest decimal digits that all doubles have exactly, as
// what sensors send mostly does.
func commonScale(data []byte) (scale int, ok bool) {
	raised := 0 // how many values were taken with fewer digits
	for i := range len(data) / 8 {
		f := double(data, i)
		for {
			if _, exact := scaled(f, scale); exact {
				break
			}
			if scale++; scale > maxScale {
				return 0, false
			}
			raised = i
		}
	}
	// More digits than a value needs can be too many for it.
	for i := range raised {
		if _, exact := scaled(double(data, i), scale); !exact {
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
func appendScaled(dst, data []byte, scale int) []byte {
	d := differ{dst: append(dst, byte(scale))}
	last, power := int64(0), powers[scale]
	for i := range len(data) / 8 {
		x := int64(math.Round(double(data, i) * power))
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
func appendXOR(dst, data []byte) []byte {
	last := uint64(0)
	for i := range len(data) / 8 {
		x := binary.LittleEndian.Uint64(data[8*i:])
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
