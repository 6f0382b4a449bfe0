package expr

import "math"

// twofold is a number of about 106 bits: the unevaluated sum of two doubles, of
// which lo is at most half a unit in the last place of hi. Elementary functions
// are computed in it, so that rounding to a double is right unless the
// true value lies within about 2^-90 of the middle between two doubles. Package
// math's own are off by one unit too often, and its Log fails for subnormals.
type twofold struct{ hi, lo float64 }

// The constants, of which the untyped values are exact to some 200 bits.
const (
	ln2Hi = 0x1.62e42fefa39efp-1
	ln2Lo = math.Ln2 - ln2Hi
)

func twoSum(a, b float64) twofold {
	s := a + b
	t := s - a
	return twofold{s, (a - (s - t)) + (b - t)}
}

// quickSum is twoSum for |a| >= |b|.
func quickSum(a, b float64) twofold {
	s := a + b
	return twofold{s, b - (s - a)}
}

func twoProduct(a, b float64) twofold {
	p := a * b
	return twofold{p, math.FMA(a, b, -p)}
}

func (a twofold) add(b twofold) twofold {
	s, t := twoSum(a.hi, b.hi), twoSum(a.lo, b.lo)
	s = quickSum(s.hi, s.lo+t.hi)
	return quickSum(s.hi, s.lo+t.lo)
}

func (a twofold) mul(b twofold) twofold {
	p := twoProduct(a.hi, b.hi)
	return quickSum(p.hi, p.lo+(a.hi*b.lo+a.lo*b.hi))
}

func (a twofold) scale(f float64) twofold {
	p := twoProduct(a.hi, f)
	return quickSum(p.hi, p.lo+a.lo*f)
}

func (a twofold) div(b twofold) twofold {
	q := a.hi / b.hi
	r := a.add(b.scale(-q))
	q2 := r.hi / b.hi
	r = r.add(b.scale(-q2))
	return quickSum(q, q2).add(twofold{hi: r.hi / b.hi})
}

// expSquarings is how often the argument of exp is halved before its series.
const expSquarings = 8

// expTerms is the number of terms of the series: the next one is below 2^-115.
const expTerms = 11

// exp returns e^a as m·2^k with m near 1. |a| is at most 1000.
func (a twofold) exp() (m twofold, k int) {
	n := math.RoundToEven(a.hi / math.Ln2)
	r := a.add(twofold{ln2Hi, ln2Lo}.scale(-n))
	r.hi, r.lo = math.Ldexp(r.hi, -expSquarings), math.Ldexp(r.lo, -expSquarings)
	// e^r - 1 by Horner's rule, then (1+p)² - 1 = 2p + p².
	p := twofold{hi: 1}
	for i := expTerms; i > 1; i-- {
		p = p.mul(r).div(twofold{hi: float64(i)}).add(twofold{hi: 1})
	}
	p = p.mul(r)
	for range expSquarings {
		p = p.scale(2).add(p.mul(p))
	}
	return p.add(twofold{hi: 1}), int(n)
}

// smallLog is the |m-1| below which the logarithm is computed from its own series,
// since its digits cancel.
const smallLog = 1.0 / 1024

// logTerms is the number of terms of that series: the next one is below 2^-115
// of the first.
const logTerms = 6

// logOf returns the natural logarithm of a positive finite number.
func logOf(f float64) twofold {
	m, e := math.Frexp(f)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	return twofold{ln2Hi, ln2Lo}.scale(float64(e)).add(logNearOne(m))
}

func logNearOne(m float64) twofold {
	if x := m - 1; math.Abs(x) < smallLog {
		// log(1+x) = 2 artanh(s), s = x/(2+x).
		s := twofold{hi: x}.div(twoSum(2, x))
		square := s.mul(s)
		sum := twofold{hi: 1}.div(twofold{hi: 2*logTerms + 1})
		for i := logTerms - 1; i >= 0; i-- {
			sum = sum.mul(square).add(twofold{hi: 1}.div(twofold{hi: float64(2*i + 1)}))
		}
		return sum.mul(s).scale(2)
	}
	// One step of Newton's method from the double: log m = y + log(m·e^-y).
	y := math.Log(m)
	e, k := twofold{hi: -y}.exp()
	t := e.scale(m)
	t.hi, t.lo = math.Ldexp(t.hi, k), math.Ldexp(t.lo, k)
	t = t.add(twofold{hi: -1})
	return twofold{hi: y}.add(t).add(twofold{hi: -t.hi * t.hi / 2})
}

// expLimit is the x beyond which e^x is infinite or zero as a double.
const expLimit = 746

func expDouble(f float64) float64 {
	switch {
	case math.IsNaN(f) || f > expLimit || f < -expLimit || f == 0:
		return math.Exp(f)
	}
	m, k := twofold{hi: f}.exp()
	return math.Ldexp(m.hi, k)
}

// expm1Double is e^f-1 of a moderate f.
func expm1Double(f float64) float64 {
	if math.Abs(f) < smallestNormal {
		return f
	}
	m, k := twofold{hi: f}.exp()
	return twofold{math.Ldexp(m.hi, k), math.Ldexp(m.lo, k)}.add(twofold{hi: -1}).hi
}

func lnDouble(f float64) float64 {
	if !(f > 0) || math.IsInf(f, 1) {
		return math.Log(f)
	}
	return logOf(f).hi
}

// The decimal logarithms of e and, in two parts, of two.
const (
	log10e    = 4.34294481903251816668e-01
	log10Of2  = 3.01029995663611771306e-01
	log10Rest = 3.69423907715893078616e-13
)

// log10Double is not rounded correctly but as the C library's, which takes the power
// of two from the logarithm of the rest.
func log10Double(f float64) float64 {
	if !(f > 0) || math.IsInf(f, 1) {
		return math.Log10(f)
	}
	m, e := math.Frexp(f) // m is 1/2 to 1; above one, 1 to 2
	if e >= 1 {
		m, e = m*2, e-1
	}
	two := float64(e)
	rest := float64(two*log10Rest) + float64(log10e*lnDouble(m))
	return rest + float64(two*log10Of2)
}

func powDouble(base, exponent float64) float64 {
	simple := base == 0 || base == 1 || exponent == 0 || exponent == 1 || exponent == 2
	if simple || math.IsNaN(base) || math.IsNaN(exponent) || math.IsInf(base, 0) || math.IsInf(exponent, 0) {
		return math.Pow(base, exponent)
	}
	sign := 1.0
	if base < 0 {
		if exponent != math.Trunc(exponent) {
			return math.NaN()
		}
		if math.Mod(exponent, 2) != 0 {
			sign = -1
		}
	}
	power := logOf(math.Abs(base)).scale(exponent)
	switch {
	case power.hi > expLimit || math.IsInf(power.hi, 1):
		return math.Inf(int(sign))
	case power.hi < -expLimit:
		return math.Copysign(0, sign)
	}
	m, k := power.exp()
	return sign * math.Ldexp(m.hi, k)
}
