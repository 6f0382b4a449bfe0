package bson

import (
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

// IsNaN says whether d is not a number.
func (d Decimal128) IsNaN() bool { return d.H&decimalNaN == decimalNaN }

// IsInf says whether d is infinite: 1 or -1, or 0 where it is not.
func (d Decimal128) IsInf() int {
	if d.H&decimalNaN != decimalInf {
		return 0
	}
	if d.H&decimalSignBit != 0 {
		return -1
	}
	return 1
}

// IsZero says whether d is zero, of either sign and any exponent.
func (d Decimal128) IsZero() bool {
	if d.IsNaN() || d.IsInf() != 0 {
		return false
	}
	_, hi, lo := d.parts()
	return hi == 0 && lo == 0
}

// Negative says whether the sign bit is set.
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
		i := integer(v)
		d := Decimal128{H: decimalBias << 49, L: uint64(i)}
		if i < 0 {
			d.L = -d.L
			d.H |= decimalSignBit
		}
		return d
	}
	a, _, err := apd.NewFromString(strconv.FormatFloat(v.Double(), 'g', 15, 64))
	if err != nil {
		return Decimal128{H: decimalNaN}
	}
	return DecimalFromAPD(a)
}

// DecimalFromAPD rounds a to 34 digits (half to even) and to the range of
// exponents: too large becomes infinite, too small zero.
func DecimalFromAPD(a *apd.Decimal) Decimal128 {
	var sign uint64
	if a.Negative {
		sign = decimalSignBit
	}
	switch a.Form {
	case apd.Infinite:
		return Decimal128{H: decimalInf | sign}
	case apd.NaN, apd.NaNSignaling:
		return Decimal128{H: decimalNaN}
	}
	r := new(apd.Decimal).Set(a)
	ctx := apd.Context{Precision: decimalDigits, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Rounding: apd.RoundHalfEven}
	if r.NumDigits() > decimalDigits {
		ctx.Round(r, a)
	}
	if r.Exponent < decimalExpMin {
		ctx.Quantize(r, r, decimalExpMin)
	}
	coeff := r.Coeff.MathBigInt()
	if r.Exponent > decimalExpMax {
		if coeff.Sign() == 0 {
			r.Exponent = decimalExpMax
		}
		for r.Exponent > decimalExpMax && int(r.NumDigits()) < decimalDigits {
			coeff.Mul(coeff, big.NewInt(10))
			r.Coeff.SetMathBigInt(coeff)
			r.Exponent--
		}
		if r.Exponent > decimalExpMax {
			return Decimal128{H: decimalInf | sign}
		}
	}
	lo := new(big.Int).And(coeff, new(big.Int).SetUint64(1<<64-1)).Uint64()
	hi := new(big.Int).Rsh(coeff, 64).Uint64()
	return Decimal128{H: sign | uint64(int(r.Exponent)+decimalBias)<<49 | hi, L: lo}
}

// CompareDecimals orders by mathematical value; NaN is lowest.
func CompareDecimals(a, b Decimal128) int {
	an, bn := a.IsNaN(), b.IsNaN()
	if an || bn {
		return b2i(bn) - b2i(an)
	}
	return a.APD().Cmp(b.APD())
}
