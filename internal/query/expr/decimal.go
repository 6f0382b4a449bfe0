package expr

import (
	"math/big"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// decimalDigits is the precision of a decimal.
const decimalDigits = 34

// decimalContext computes with the precision of a decimal, rounding half to
// even; range is left to bson.DecimalFromAPD. Invalid operations yield NaN.
var decimalContext = apd.Context{
	Precision:   decimalDigits,
	MaxExponent: apd.MaxExponent,
	MinExponent: apd.MinExponent,
	Rounding:    apd.RoundHalfEven,
}

// decimalBinary computes f(a, b), an operation of decimalContext.
func decimalBinary(f func(c *apd.Context, d, a, b *apd.Decimal) (apd.Condition, error), a, b bson.Decimal128) bson.Decimal128 {
	var d apd.Decimal
	if _, err := f(&decimalContext, &d, a.APD(), b.APD()); err != nil {
		return bson.DecimalNaN
	}
	return bson.DecimalFromAPD(&d)
}

// decimalUnary computes f(a), an operation of decimalContext.
func decimalUnary(f func(c *apd.Context, d, a *apd.Decimal) (apd.Condition, error), a bson.Decimal128) bson.Decimal128 {
	var d apd.Decimal
	if _, err := f(&decimalContext, &d, a.APD()); err != nil {
		return bson.DecimalNaN
	}
	return bson.DecimalFromAPD(&d)
}

func addDecimals(a, b bson.Decimal128) bson.Decimal128 {
	return decimalBinary((*apd.Context).Add, a, b)
}

func subtractDecimals(a, b bson.Decimal128) bson.Decimal128 {
	return decimalBinary((*apd.Context).Sub, a, b)
}

func multiplyDecimals(a, b bson.Decimal128) bson.Decimal128 {
	return decimalBinary((*apd.Context).Mul, a, b)
}

// rounding is a direction of quantizeDecimal.
type rounding uint8

const (
	roundHalfEven rounding = iota
	roundDown              // toward zero
	roundCeiling
	roundFloor
)

// quantizeDecimal rounds to a multiple of 10^exp, whose exponent is exp. What is
// not finite, or would take more digits than a decimal has, is not ok.
func quantizeDecimal(d bson.Decimal128, exp int, mode rounding) (r bson.Decimal128, ok bool) {
	if d.IsNaN() || d.IsInf() != 0 {
		return bson.DecimalNaN, false
	}
	if r, ok := d.WithExponent(exp); ok {
		return r, true
	}
	drop := exp - d.Exponent()
	if drop < 0 {
		return bson.DecimalNaN, false
	}
	var buf [2 * decimalDigits]byte
	digits, _ := d.Digits(buf[:0])
	kept, cut := digits[:max(0, len(digits)-drop)], digits[max(0, len(digits)-drop):]
	last := byte('0')
	if len(kept) > 0 {
		last = kept[len(kept)-1]
	}
	up := false
	switch mode {
	case roundHalfEven:
		half := 0 // how cut compares with one half
		if drop > len(digits) {
			half = -1
		} else if half = int(cut[0]) - '5'; half == 0 && strings.Trim(string(cut[1:]), "0") != "" {
			half = 1
		}
		up = half > 0 || half == 0 && last&1 == 1
	case roundCeiling:
		up = !d.Negative() // what is cut is not all zeros
	case roundFloor:
		up = d.Negative()
	}
	return bson.NewDecimal(d.Negative(), increment(kept, up), exp), true
}

// increment is the digits plus one if up says so; no digits are zero.
func increment(digits []byte, up bool) []byte {
	digits = append([]byte{'0'}, digits...)
	for i := len(digits) - 1; up; i-- {
		up = digits[i] == '9'
		if digits[i]++; up {
			digits[i] = '0'
		}
	}
	return digits
}

// divideDecimals divides; an exact quotient has no more trailing zeros than the
// exponents of the operands ask for.
func divideDecimals(a, b bson.Decimal128) bson.Decimal128 {
	if b.IsInf() != 0 && a.IsInf() == 0 && !a.IsNaN() {
		r := decimalTiny
		r.H |= (a.H ^ b.H) & (1 << 63)
		return r
	}
	var q apd.Decimal
	cond, err := decimalContext.Quo(&q, a.APD(), b.APD())
	if err != nil {
		return bson.DecimalNaN
	}
	if q.Form == apd.Finite && !cond.Inexact() {
		dropZeros(&q, int32(a.Exponent()-b.Exponent()))
	}
	return bson.DecimalFromAPD(&q)
}

// dropZeros removes trailing zeros of the coefficient until the exponent is
// ideal.
func dropZeros(d *apd.Decimal, ideal int32) {
	ten := apd.NewBigInt(10)
	var q, r apd.BigInt
	for d.Exponent < ideal {
		if q.QuoRem(&d.Coeff, ten, &r); r.Sign() != 0 {
			return
		}
		d.Coeff.Set(&q)
		d.Exponent++
	}
}

// modDecimals is the exact remainder of the division truncated toward zero,
// with the sign of a.
func modDecimals(a, b bson.Decimal128) bson.Decimal128 {
	switch {
	case a.IsNaN() || b.IsNaN() || a.IsInf() != 0 || b.IsZero():
		return bson.DecimalNaN
	case b.IsInf() != 0:
		return a
	}
	x, y := a.APD(), b.APD()
	cx, cy := x.Coeff.MathBigInt(), y.Coeff.MathBigInt()
	ten := big.NewInt(10)
	r := &apd.Decimal{Negative: x.Negative, Exponent: min(x.Exponent, y.Exponent)}
	shift := int64(x.Exponent) - int64(y.Exponent)
	switch {
	case shift >= 0:
		scale := new(big.Int).Exp(ten, big.NewInt(shift), cy)
		cx.Mul(cx, scale).Mod(cx, cy)
	case shift >= -2*decimalDigits:
		cx.Mod(cx, cy.Mul(cy, new(big.Int).Exp(ten, big.NewInt(-shift), nil)))
	}
	r.Coeff.SetMathBigInt(cx)
	return bson.DecimalFromAPD(r)
}
