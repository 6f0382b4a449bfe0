package bson

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// Decimal128 is an IEEE 754-2008 decimal in the binary integer encoding: the
// upper and the lower half of its 128 bits.
type Decimal128 struct{ H, L uint64 }

const (
	decimalBias    = 6176
	decimalExpMax  = 6111
	decimalExpMin  = -6176
	decimalDigits  = 34
	decimalSignBit = uint64(1) << 63
	decimalInf     = uint64(0x7800000000000000)
	decimalNaN     = uint64(0x7C00000000000000)
)

// DecimalNaN is the decimal that is not a number.
var DecimalNaN = Decimal128{H: decimalNaN}

// IsNaN reports whether d is not a number.
func (d Decimal128) IsNaN() bool { return d.H&decimalNaN == decimalNaN }

// IsInf reports whether d is infinite: 1 or -1, or 0 if it is not.
func (d Decimal128) IsInf() int {
	if d.H&decimalNaN != decimalInf {
		return 0
	}
	if d.H&decimalSignBit != 0 {
		return -1
	}
	return 1
}

// IsZero reports whether d is zero, of either sign and any exponent.
func (d Decimal128) IsZero() bool {
	if d.IsNaN() || d.IsInf() != 0 {
		return false
	}
	_, hi, lo := d.parts()
	return hi == 0 && lo == 0
}

// Sign is -1, 0 or 1: 0 for zero of either sign and for NaN.
func (d Decimal128) Sign() int {
	switch {
	case d.IsNaN() || d.IsZero():
		return 0
	case d.Negative():
		return -1
	}
	return 1
}

// Negative reports whether the sign bit is set.
func (d Decimal128) Negative() bool { return d.H&decimalSignBit != 0 }

// parts returns the exponent and the coefficient of a finite number; a
// coefficient that is no canonical encoding counts as zero.
func (d Decimal128) parts() (exp int, hi, lo uint64) {
	if d.H>>61&3 == 3 {
		return int(d.H>>47&0x3fff) - decimalBias, 0, 0
	}
	exp = int(d.H>>49&0x3fff) - decimalBias
	hi, lo = d.H&(1<<49-1), d.L
	if hi > 0x1ed09bead87c0 || hi == 0x1ed09bead87c0 && lo > 0x378d8e63ffffffff {
		return exp, 0, 0
	}
	return exp, hi, lo
}

// Digits appends the digits of the coefficient, ASCII and at least one, and
// returns the exponent: a finite d is ±digits·10^exp.
func (d Decimal128) Digits(dst []byte) (digits []byte, exp int) {
	exp, hi, lo := d.parts()
	return coefficientDigits(dst, hi, lo), exp
}

// Exponent is the exponent of a finite number: -2 for 1.50.
func (d Decimal128) Exponent() int {
	exp, _, _ := d.parts()
	return exp
}

// WithExponent is the number of equal value that has the exponent exp; ok says
// whether there is one. d is finite.
func (d Decimal128) WithExponent(exp int) (r Decimal128, ok bool) {
	if exp < decimalExpMin || exp > decimalExpMax {
		return d, false
	}
	from, hi, lo := d.parts()
	c := uint128{hi, lo}
	switch {
	case c.isZero():
	case from-exp > decimalDigits-c.digits():
		return d, false
	case from > exp:
		c = c.mulPow10(from - exp)
	case exp-from >= decimalDigits:
		return d, false
	default:
		if c, ok = c.divPow10(exp - from); !ok {
			return d, false
		}
	}
	return Decimal128{d.H&decimalSignBit | uint64(exp+decimalBias)<<49 | c.hi, c.lo}, true
}

// APD returns d as an arbitrary-precision decimal with the same exponent.
func (d Decimal128) APD() *apd.Decimal {
	r := &apd.Decimal{Negative: d.Negative()}
	switch {
	case d.IsNaN():
		r.Form, r.Negative = apd.NaN, false
	case d.IsInf() != 0:
		r.Form = apd.Infinite
	default:
		exp, hi, lo := d.parts()
		r.Exponent = int32(exp)
		c := new(big.Int).SetUint64(hi)
		c.Lsh(c, 64).Or(c, new(big.Int).SetUint64(lo))
		r.Coeff.SetMathBigInt(c)
	}
	return r
}

// ToDecimal converts a number of any type; a double keeps 15 digits, as the
// server does.
func ToDecimal(v Value) Decimal128 {
	switch v.Type {
	case TypeDecimal:
		return v.Decimal()
	case TypeInt32, TypeInt64:
		return DecimalFromInt64(integer(v))
	}
	return DecimalFromDouble(v.Double(), 15)
}

// DecimalFromInt64 is i with the exponent 0.
func DecimalFromInt64(i int64) Decimal128 {
	d := Decimal128{H: decimalBias << 49, L: uint64(i)}
	if i < 0 {
		d.L = -d.L
		d.H |= decimalSignBit
	}
	return d
}

// DecimalFromDouble rounds f to digits significant digits (2 to 34), all of
// which it keeps (2.5 has fourteen zeros with 15 digits); zero has one.
func DecimalFromDouble(f float64, digits int) Decimal128 {
	switch {
	case math.IsNaN(f):
		return DecimalNaN
	case math.IsInf(f, 0):
		return decimalInfinity(f < 0)
	case f == 0:
		d := Decimal128{H: decimalBias << 49}
		if math.Signbit(f) {
			d.H |= decimalSignBit
		}
		return d
	}
	var buf [48]byte
	s := strconv.AppendFloat(buf[:0], math.Abs(f), 'e', digits-1, 64)
	e := bytes.IndexByte(s, 'e')
	exp, _ := strconv.Atoi(unsafeString(s[e+1:]))
	s[1] = s[0] // the point makes room
	return NewDecimal(f < 0, s[1:e], exp-(digits-1))
}

// DecimalFromAPD rounds a to 34 digits (half to even) and to the range of
// exponents: too large becomes infinite, too small zero.
func DecimalFromAPD(a *apd.Decimal) Decimal128 {
	switch a.Form {
	case apd.Infinite:
		return decimalInfinity(a.Negative)
	case apd.NaN, apd.NaNSignaling:
		return DecimalNaN
	}
	var buf [80]byte
	return NewDecimal(a.Negative, a.Coeff.Append(buf[:0], 10), int(a.Exponent))
}

// CompareDecimals orders by mathematical value; NaN is lowest.
func CompareDecimals(a, b Decimal128) int {
	an, bn := a.IsNaN(), b.IsNaN()
	if an || bn {
		return b2i(bn) - b2i(an)
	}
	as, bs := a.Sign(), b.Sign()
	if as != bs || as == 0 {
		return cmp.Compare(as, bs)
	}
	return as * compareMagnitudes(a, b)
}

// compareMagnitudes orders two numbers, neither NaN nor zero, without their
// signs.
func compareMagnitudes(a, b Decimal128) int {
	ai, bi := a.IsInf(), b.IsInf()
	if ai != 0 || bi != 0 {
		return cmp.Compare(ai*ai, bi*bi)
	}
	ae, ahi, alo := a.parts()
	be, bhi, blo := b.parts()
	ac, bc := uint128{ahi, alo}, uint128{bhi, blo}
	if c := cmp.Compare(ae+ac.digits(), be+bc.digits()); c != 0 {
		return c
	}
	if ae > be {
		ac = ac.mulPow10(ae - be)
	} else {
		bc = bc.mulPow10(be - ae)
	}
	return ac.cmp(bc)
}
