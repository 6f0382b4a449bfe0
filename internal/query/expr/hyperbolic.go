package expr

import "math"

// The inverse hyperbolic functions of doubles are not rounded right but as the
// C library's: with the logarithm of a rounded argument.

// arcoshDouble is the inverse hyperbolic cosine of a double of at least 1.
func arcoshDouble(x float64) float64 {
	if x <= 2 {
		return math.Acosh(x)
	}
	return lnDouble(2*x - 1/(x+math.Sqrt(x*x-1)))
}

// arsinhDouble is the inverse hyperbolic sine of a double of moderate size.
func arsinhDouble(x float64) float64 {
	size := math.Abs(x)
	if size <= 2 {
		return math.Asinh(x)
	}
	return math.Copysign(lnDouble(2*size+1/(math.Sqrt(size*size+1)+size)), x)
}
