package expr

import (
	"math/big"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Hyperbolic functions of decimals, step by step as the server's; see quad.go.

// bigHyperbolic is the size beyond which sinh and cosh are half a power of e.
const bigHyperbolic = 64

var quadBigHyperbolic = quadOfInt(bigHyperbolic)

func sinhDecimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsInf() != 0 {
		return d
	}
	q := toQuad(d)
	size := absQuad(q)
	switch {
	case size.Cmp(quadSpeck) <= 0:
		return d.MultiplyAdd(decimalSpeck, d)
	case size.Cmp(quadOne) <= 0:
		return fromQuad(quadSinh(q))
	case size.Cmp(quadBigHyperbolic) <= 0:
		e := expDecimal(d.Abs())
		small := decimalMinusHalf.Multiply(decimalOne.Divide(e))
		return signed(e.MultiplyAdd(decimalHalf, small), d.Negative())
	}
	return signed(halfPower(d.Abs()), d.Negative())
}

func coshDecimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsInf() != 0 {
		return decimalInfinity
	}
	q := toQuad(d)
	size := absQuad(q)
	switch {
	case size.Cmp(quadSpeck) <= 0:
		return decimalOne.Add(decimalSpeck)
	case size.Cmp(quadOne) <= 0:
		return fromQuad(quadCosh(q))
	case size.Cmp(quadBigHyperbolic) <= 0:
		e := expDecimal(d.Abs())
		small := decimalHalf.Multiply(decimalOne.Divide(e))
		return e.MultiplyAdd(decimalHalf, small)
	}
	return halfPower(d.Abs())
}

// halfPower is e^d/2 of a large d, by its whole part and the rest.
func halfPower(d bson.Decimal128) bson.Decimal128 {
	if bson.CompareDecimals(d, expBound) > 0 {
		return decimalInfinity
	}
	n, _ := d.RoundToInt64()
	whole := quadOfInt(n)
	rest := quadExp(toQuad(d.Subtract(bson.DecimalFromInt64(n))))
	half := func() bson.Decimal128 {
		p := quadProduct(quadExp(whole), rest)
		return fromQuad(p.SetMantExp(p, -1))
	}
	if whole.Cmp(quadStride) > 0 {
		whole.Sub(whole, quadStride)
		return half().Multiply(expOfStride)
	}
	return half()
}

func tanhDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsInf() != 0:
		return signed(decimalOne, d.Negative())
	case d.IsZero():
		return d
	}
	q := toQuad(d)
	if absQuad(q).Cmp(quadSpeck) < 0 {
		return d.MultiplyAdd(decimalMinusSpeck, d)
	}
	return fromQuad(quadTanh(q))
}

// logOfDouble is log(2d) of a number with an exponent above decimalDigits.
func logOfDouble(d bson.Decimal128) *big.Float {
	digits, exp := d.Digits(nil)
	q := toQuad(bson.NewDecimal(false, digits, 0))
	return quadSum(quadLog(q.Add(q, q)), quadProduct(quadOfInt(int64(exp)), quadLn10))
}

func arsinhDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsInf() != 0:
		return d
	case d.IsZero():
		return signed(decimalTiny, d.Negative())
	case d.Exponent() > decimalDigits:
		return signed(fromQuad(logOfDouble(d)), d.Negative())
	}
	return fromQuad(quadArsinh(toQuad(d)))
}

// nearArcosh is the argument below which the inverse hyperbolic cosine is computed by a sine.
var nearArcosh = mustDecimal("1.03125")

func arcoshDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsInf() != 0:
		return d
	case bson.CompareDecimals(d, nearArcosh) < 0:
		leg := sqrtDecimal(d.MultiplyAdd(d, decimalMinusOne))
		return fromQuad(quadArsinh(toQuad(leg)))
	case d.Exponent() > decimalDigits:
		return fromQuad(logOfDouble(d))
	}
	return fromQuad(quadArcosh(toQuad(d)))
}

// tinyArtanh is the exponent up to which a number is its own inverse hyperbolic
// tangent.
const tinyArtanh = -51

func artanhDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsZero():
		return signed(decimalTiny, d.Negative())
	case d.Exponent() <= tinyArtanh:
		return d
	}
	rest := decimalOne.Subtract(d.Abs())
	if rest.IsZero() {
		return signed(decimalInfinity, d.Negative())
	}
	quotient := d.Abs().Divide(rest)
	l := quadLog1p(toQuad(quotient.Add(quotient)))
	return signed(fromQuad(l.SetMantExp(l, -1)), d.Negative())
}
