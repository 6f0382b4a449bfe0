package expr

import "math"

// Sine, cosine and tangent of doubles of a usual size, in twofold arithmetic
// (doubledouble.go); bigtrig.go has the others.

// π/2 in three pieces, each the double nearest to what is left.
const (
	halfPi1 = 0x1.921fb54442d18p0
	halfPi2 = 0x1.1a62633145c07p-54
	halfPi3 = math.Pi/2 - halfPi1 - halfPi2
)

// quickAngle bounds the angles whose distance from a multiple of π/2 the three
// pieces give with enough bits.
const quickAngle = 1 << 16

// sinCosTerms is the number of terms of the series of sine and cosine for at
// most π/4: the next one is below 2^-110.
const sinCosTerms = 13

// series sums x^i/i! over every second i from first, with alternating signs.
func (x twofold) series(first int) twofold {
	square := x.mul(x)
	sum := twofold{hi: 1}
	for i := first + 2*sinCosTerms; i > first; i -= 2 {
		sum = sum.mul(square).div(twofold{hi: -float64(i * (i - 1))}).add(twofold{hi: 1})
	}
	return sum
}

// sinCos returns sine and cosine of an angle of at most quickAngle.
func sinCos(f float64) (sin, cos twofold) {
	n := math.RoundToEven(f / halfPi1)
	p := twoProduct(n, halfPi1)
	x := twoSum(f-p.hi, -p.lo)
	x = x.add(twoProduct(-n, halfPi2)).add(twofold{hi: -n * halfPi3})
	sin, cos = x.mul(x.series(1)), x.series(0)
	quarter := int(n) & 3
	if quarter&1 == 1 {
		sin, cos = cos, sin.scale(-1)
	}
	if quarter&2 == 2 {
		sin, cos = sin.scale(-1), cos.scale(-1)
	}
	return sin, cos
}

func sinDouble(f float64) float64 {
	s, _ := sinCos(f)
	return s.hi
}

func cosDouble(f float64) float64 {
	_, c := sinCos(f)
	return c.hi
}

func tanDouble(f float64) float64 {
	s, c := sinCos(f)
	return s.div(c).hi
}
