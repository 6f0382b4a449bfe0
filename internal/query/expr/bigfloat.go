package expr

import (
	"math"
	"math/big"
)

// Elementary functions of big floats, accurate to well over the 113 bits that
// decimal functions need.

// workBits is the precision in bits.
const workBits = 200

var (
	bigLn2  = mustFloat("0.693147180559945309417232121458176568075500134360255254120680009493393621969694715605863327")
	bigLn10 = mustFloat("2.302585092994045684017991454684364207601101488628772976033327900967572609677352480235997205")
	bigOne  = newFloat().SetInt64(1)
	bigTwo  = newFloat().SetInt64(2)
)

func newFloat() *big.Float { return new(big.Float).SetPrec(workBits) }

func mustFloat(s string) *big.Float {
	f, ok := newFloat().SetString(s)
	if !ok {
		panic("expr: bad constant " + s)
	}
	return f
}

// shift is f·2^n.
func shift(f *big.Float, n int) *big.Float { return newFloat().SetMantExp(f, n) }

// reduceBy returns a - n·unit and n, the nearest multiple.
func reduceBy(a, unit *big.Float) (rest *big.Float, n int) {
	f, _ := newFloat().Quo(a, unit).Float64()
	n = int(math.RoundToEven(f))
	rest = newFloat().Mul(unit, newFloat().SetInt64(int64(n)))
	return rest.Sub(a, rest), n
}

const (
	// bigExpSquarings is how often the argument of bigExp is halved before its
	// series.
	bigExpSquarings = 16
	// bigExpTerms is the number of terms of the series: the next is below 2^-210.
	bigExpTerms = 11
)

// bigExp is e^a for |a| below 20000.
func bigExp(a *big.Float) *big.Float {
	r, n := reduceBy(a, bigLn2)
	r = shift(r, -bigExpSquarings)
	p := newFloat().Set(bigOne)
	for i := bigExpTerms; i > 1; i-- {
		p.Mul(p, r)
		p.Quo(p, newFloat().SetInt64(int64(i)))
		p.Add(p, bigOne)
	}
	p.Mul(p, r)
	square := newFloat()
	for range bigExpSquarings {
		square.Mul(p, p)
		p.Add(p, p)
		p.Add(p, square)
	}
	return shift(p.Add(p, bigOne), n)
}

// bigLogTerms is the number of terms of the series of bigLog near one: the next
// is below 2^-210 of the first.
const bigLogTerms = 6

// bigLog is the natural logarithm of a positive number.
func bigLog(x *big.Float) *big.Float {
	near := newFloat().Sub(x, bigOne)
	if near.Sign() == 0 || near.MantExp(nil) < -20 {
		// log(1+d) = 2 artanh(s), s = d/(2+d).
		s := newFloat().Quo(near, newFloat().Add(near, bigTwo))
		square := newFloat().Mul(s, s)
		sum := newFloat()
		for i := bigLogTerms; i >= 0; i-- {
			sum.Mul(sum, square)
			sum.Add(sum, newFloat().Quo(bigOne, newFloat().SetInt64(int64(2*i+1))))
		}
		return sum.Mul(sum, s).Mul(sum, bigTwo)
	}
	m := newFloat()
	e := x.MantExp(m)
	f, _ := m.Float64()
	// One step of Halley's method triples the 53 bits of the start.
	y := newFloat().SetFloat64(lnDouble(f))
	p := bigExp(y)
	step := newFloat().Quo(newFloat().Sub(m, p), newFloat().Add(m, p))
	y.Add(y, step.Mul(step, bigTwo))
	return y.Add(y, newFloat().Mul(bigLn2, newFloat().SetInt64(int64(e))))
}
