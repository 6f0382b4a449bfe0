package expr

import (
	"math"
	"math/big"
	"sync"
)

// Trigonometric and hyperbolic functions of big floats, accurate to well over
// the 113 bits that decimal functions need; see bigfloat.go.

// guardBits is the precision beyond the result's that reducing an argument by
// multiples of π takes, for arguments near one of them.
const guardBits = 128

var pi struct {
	sync.Mutex
	value *big.Float
}

// bigPi is π with at least prec bits.
func bigPi(prec uint) *big.Float {
	pi.Lock()
	defer pi.Unlock()
	if pi.value == nil || pi.value.Prec() < prec {
		pi.value = machin(prec)
	}
	return pi.value
}

// machin computes π = 16 arctan(1/5) - 4 arctan(1/239) in fixed point.
func machin(prec uint) *big.Float {
	shift := prec + 64
	one := new(big.Int).Lsh(big.NewInt(1), shift)
	sum := new(big.Int).Mul(arctanInverse(one, 5), big.NewInt(16))
	sum.Sub(sum, new(big.Int).Mul(arctanInverse(one, 239), big.NewInt(4)))
	f := new(big.Float).SetPrec(prec).SetInt(sum)
	return f.SetMantExp(f, -int(shift))
}

// arctanInverse is one·arctan(1/n).
func arctanInverse(one *big.Int, n int64) *big.Int {
	square := big.NewInt(n * n)
	power := new(big.Int).Div(one, big.NewInt(n))
	sum, term := new(big.Int), new(big.Int)
	for k := int64(1); power.Sign() != 0; k += 2 {
		term.Div(power, big.NewInt(k))
		if k&2 == 0 {
			sum.Add(sum, term)
		} else {
			sum.Sub(sum, term)
		}
		power.Div(power, square)
	}
	return sum
}

// quarters returns x - n·π/2, which is at most π/4 in size, and n modulo 4.
func quarters(x *big.Float) (rest *big.Float, quarter int) {
	prec := uint(workBits + guardBits + max(x.MantExp(nil), 0))
	half := new(big.Float).SetPrec(prec).Copy(bigPi(prec))
	half.SetMantExp(half, -1)
	turns := new(big.Float).SetPrec(prec).Quo(x, half)
	turns.Add(turns, big.NewFloat(math.Copysign(0.5, float64(x.Sign()))))
	n, _ := turns.Int(nil)
	half.Mul(half, new(big.Float).SetPrec(prec).SetInt(n))
	rest = new(big.Float).SetPrec(prec).Sub(new(big.Float).SetPrec(prec).Set(x), half)
	return newFloat().Set(rest), int(new(big.Int).And(n, big.NewInt(3)).Int64())
}

// powerSeries sums x^i/i! over every second i from first, with the signs alternating
// if sign is -1: sin and cos, sinh and cosh of an x of at most 1.
func powerSeries(x *big.Float, first int64, sign int64) *big.Float {
	term := newFloat().Set(bigOne)
	if first == 1 {
		term.Set(x)
	}
	square := newFloat().Mul(x, x)
	if sign < 0 {
		square.Neg(square)
	}
	sum := newFloat().Set(term)
	for i := first; ; i += 2 {
		term.Mul(term, square)
		term.Quo(term, newFloat().SetInt64((i+1)*(i+2)))
		if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-workBits {
			return sum
		}
		sum.Add(sum, term)
	}
}

// bigSinCos are sine and cosine.
func bigSinCos(x *big.Float) (sin, cos *big.Float) {
	r, n := quarters(x)
	sin, cos = powerSeries(r, 1, -1), powerSeries(r, 0, -1)
	if n&1 == 1 {
		sin, cos = cos, sin.Neg(sin)
	}
	if n&2 == 2 {
		sin.Neg(sin)
		cos.Neg(cos)
	}
	return sin, cos
}

func bigSin(x *big.Float) *big.Float { s, _ := bigSinCos(x); return s }
func bigCos(x *big.Float) *big.Float { _, c := bigSinCos(x); return c }
func bigTan(x *big.Float) *big.Float { s, c := bigSinCos(x); return s.Quo(s, c) }

// bigArctan is the arctangent.
func bigArctan(x *big.Float) *big.Float {
	f, _ := x.Float64()
	if math.Abs(f) > 1 {
		half := newFloat().Set(bigPi(workBits))
		half.SetMantExp(half, -1)
		if f < 0 {
			half.Neg(half)
		}
		return half.Sub(half, bigArctan(newFloat().Quo(bigOne, x)))
	}
	if x.MantExp(nil) < -16 {
		return arctanSeries(x)
	}
	// arctan x = y + arctan((x-t)/(1+xt)), t = tan y, from the double.
	y := newFloat().SetFloat64(math.Atan(f))
	t := bigTan(y)
	d := newFloat().Sub(x, t)
	d.Quo(d, t.Add(t.Mul(t, x), bigOne))
	return y.Add(y, arctanSeries(d))
}

// arctanSeries is the arctangent of a small number.
func arctanSeries(x *big.Float) *big.Float {
	if x.Sign() == 0 {
		return newFloat()
	}
	square := newFloat().Mul(x, x)
	square.Neg(square)
	power, sum := newFloat().Set(x), newFloat().Set(x)
	for i := int64(3); ; i += 2 {
		power.Mul(power, square)
		term := newFloat().Quo(power, newFloat().SetInt64(i))
		if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-workBits {
			return sum
		}
		sum.Add(sum, term)
	}
}

// bigArctan2 is the angle of the point (x, y), which is not (0, 0).
func bigArctan2(y, x *big.Float) *big.Float {
	whole := newFloat().Set(bigPi(workBits))
	if x.Sign() == 0 {
		half := whole.SetMantExp(whole, -1)
		if y.Sign() < 0 {
			half.Neg(half)
		}
		return half
	}
	a := bigArctan(newFloat().Quo(y, x))
	if x.Sign() > 0 {
		return a
	}
	if y.Signbit() {
		return a.Sub(a, whole)
	}
	return a.Add(a, whole)
}

// leg is √(1-x²).
func leg(x *big.Float) *big.Float {
	p := newFloat().Mul(newFloat().Sub(bigOne, x), newFloat().Add(bigOne, x))
	return p.Sqrt(p)
}

func bigArcsin(x *big.Float) *big.Float { return bigArctan2(newFloat().Set(x), leg(x)) }
func bigArccos(x *big.Float) *big.Float { return bigArctan2(leg(x), x) }

// bigSinhCosh are hyperbolic sine and cosine.
func bigSinhCosh(x *big.Float) (sinh, cosh *big.Float) {
	if x.MantExp(nil) <= 0 {
		return powerSeries(x, 1, 1), powerSeries(x, 0, 1)
	}
	e := bigExp(x)
	inverse := newFloat().Quo(bigOne, e)
	sinh, cosh = newFloat().Sub(e, inverse), newFloat().Add(e, inverse)
	return shift(sinh, -1), shift(cosh, -1)
}

func bigSinh(x *big.Float) *big.Float { s, _ := bigSinhCosh(x); return s }
func bigCosh(x *big.Float) *big.Float { _, c := bigSinhCosh(x); return c }

// bigTanh is ±1 if the difference from that is less than a result can show.
func bigTanh(x *big.Float) *big.Float {
	const one = 100
	if f, _ := x.Float64(); math.Abs(f) > one {
		return newFloat().SetInt64(int64(x.Sign()))
	}
	s, c := bigSinhCosh(x)
	return s.Quo(s, c)
}

// bigLog1p is log(1+x).
func bigLog1p(x *big.Float) *big.Float {
	if x.Sign() != 0 && x.MantExp(nil) < -16 {
		// 2 artanh(s), s = x/(2+x); artanh s = s + s³/3 + … .
		s := newFloat().Quo(x, newFloat().Add(bigTwo, x))
		square := newFloat().Mul(s, s)
		power, sum := newFloat().Set(s), newFloat().Set(s)
		for i := int64(3); ; i += 2 {
			power.Mul(power, square)
			term := newFloat().Quo(power, newFloat().SetInt64(i))
			if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-workBits {
				return shift(sum, 1)
			}
			sum.Add(sum, term)
		}
	}
	return bigLog(newFloat().Add(bigOne, x))
}

func bigArsinh(x *big.Float) *big.Float {
	a := newFloat().Abs(x)
	square := newFloat().Mul(a, a)
	root := newFloat().Add(square, bigOne)
	root.Sqrt(root)
	a.Add(a, square.Quo(square, root.Add(root, bigOne)))
	r := bigLog1p(a)
	if x.Sign() < 0 {
		r.Neg(r)
	}
	return r
}

func bigArcosh(x *big.Float) *big.Float {
	less := newFloat().Sub(x, bigOne)
	root := newFloat().Mul(less, newFloat().Add(x, bigOne))
	return bigLog1p(less.Add(less, root.Sqrt(root)))
}

func bigArtanh(x *big.Float) *big.Float {
	q := newFloat().Quo(shift(x, 1), newFloat().Sub(bigOne, x))
	return shift(bigLog1p(q), -1)
}
