package expr

import "math"

// The hyperbolic functions of doubles and their inverses are not rounded correctly
// but as the C library's: by the usual formulas, whose every step rounds. (The
// conversions keep a compiler from fusing steps.)

// largeHyperbolic is the size from which e^-x is lost in e^x + e^-x.
const largeHyperbolic = 22

// expRange is the x up to which e^x is certainly finite.
const expRange = 709

func sinhDouble(x float64) float64 {
	size, half := math.Abs(x), math.Copysign(0.5, x)
	if size >= largeHyperbolic {
		return halfExp(half, size)
	}
	t := expm1Double(size)
	if size < 1 {
		return half * (float64(2*t) - t*t/(t+1))
	}
	return half * (t + t/(t+1))
}

func coshDouble(x float64) float64 {
	size := math.Abs(x)
	switch {
	case size < math.Ln2/2:
		t := expm1Double(size)
		w := 1 + t
		return 1 + t*t/(w+w)
	case size < largeHyperbolic:
		t := expDouble(size)
		return float64(t/2) + 0.5/t
	}
	return halfExp(0.5, size)
}

// halfExp is ±e^size/2, where half is ±0.5.
func halfExp(half, size float64) float64 {
	if size < expRange {
		return half * expDouble(size)
	}
	w := expDouble(size / 2)
	return half * w * w
}

func tanhDouble(x float64) float64 {
	size := math.Abs(x)
	switch {
	case size >= largeHyperbolic:
		return math.Copysign(1, x)
	case size >= 1:
		return math.Copysign(1-2/(expm1Double(2*size)+2), x)
	}
	t := expm1Double(-2 * size)
	return math.Copysign(-t/(t+2), x)
}

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
