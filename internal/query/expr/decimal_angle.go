package expr

import (
	"math/big"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Trigonometric functions of finite decimals, step by step as the server's; see
// quad.go. All are odd or even as the mathematical ones, but for signs and
// exponents of zero, which each handles in its own way.

const (
	// smallAngle is the exponent below which an angle is taken as it is, without
	// multiples of π/2 taken off; tinyAngle the one below which sine and tangent
	// are the angle plus or minus a speck.
	smallAngle = -35
	tinyAngle  = -52
)

// turn returns the nearest multiple of a quarter turn to an angle, modulo 4, and the
// remainder.
func turn(d bson.Decimal128) (quarter int, rest *big.Float) {
	size := 0
	if !d.IsZero() {
		size = max(toQuad(d).MantExp(nil), 0)
	}
	prec := uint(exactBits + 2*guardBits + size)
	half := new(big.Float).SetPrec(prec).Set(bigPi(prec))
	half.SetMantExp(half, -1)
	turns := new(big.Float).SetPrec(prec).Quo(inBits(d, prec), half)
	n, _ := new(big.Float).SetPrec(prec).Add(turns, big.NewFloat(copySign(0.5, d.Negative()))).Int(nil)
	turns.Sub(turns, new(big.Float).SetPrec(prec).SetInt(n))
	// The part of a quarter is cut off before it becomes an angle.
	part := new(big.Float).SetPrec(quadBits).SetMode(big.ToZero).Set(turns)
	return int(new(big.Int).And(n, big.NewInt(3)).Int64()), quadProduct(part, quadHalfPi)
}

func copySign(f float64, negative bool) float64 {
	if negative {
		return -f
	}
	return f
}

var (
	quadHalfPi        = quad(shift(bigPi(workBits), -1))
	quadMinusOne      = quadOfInt(-1)
	decimalMinusSpeck = decimalSpeck.Neg()
)

func sinDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsZero():
		return d
	case d.Exponent() < tinyAngle:
		return d.MultiplyAdd(decimalMinusSpeck, d)
	case d.Exponent() < smallAngle:
		return fromQuad(quadSin(toQuad(d)))
	}
	quarter, rest := turn(d)
	return fromQuad(sineAt(quarter, rest))
}

func cosDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsZero() || d.Exponent() < tinyAngle:
		return decimalOne.Add(decimalSpeck)
	case d.Exponent() < smallAngle:
		return fromQuad(quadCos(toQuad(d)))
	}
	quarter, rest := turn(d)
	return fromQuad(sineAt(quarter+1, rest))
}

// sineAt is the sine of so many quarters of a turn and a rest.
func sineAt(quarter int, rest *big.Float) *big.Float {
	var s *big.Float
	if quarter&1 == 0 {
		s = quadSin(rest)
	} else {
		s = quadCos(rest)
	}
	if quarter&2 != 0 {
		s.Neg(s)
	}
	return s
}

func tanDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsZero() || d.Exponent() < tinyAngle:
		return d.MultiplyAdd(decimalSpeck, d)
	case d.Exponent() < smallAngle:
		return fromQuad(quadTan(toQuad(d)))
	}
	quarter, rest := turn(d)
	t := quadTan(rest)
	if quarter&1 == 1 {
		t = quadQuotient(quadMinusOne, t)
	}
	return fromQuad(t)
}

var (
	// quadSpeck is the size below which most functions do not use quads.
	quadSpeck = toQuad(decimalSpeck)
	// quadNearOne is the size up to which arcsine and arccosine use their argument
	// as it is.
	quadNearOne   = toQuad(mustDecimal("0.7"))
	decimalHalfPi = roundedDecimal(shift(bigPi(workBits), -1))
	decimalPi     = roundedDecimal(bigPi(workBits))
)

func absQuad(q *big.Float) *big.Float { return new(big.Float).Abs(q) }

// legOfDecimal is √(1-d²) as a quad.
func legOfDecimal(d bson.Decimal128) *big.Float {
	square := toQuad(d.MultiplyAdd(d, decimalMinusOne))
	return newQuad().Sqrt(square.Neg(square).Abs(square))
}

func arcsinDecimal(d bson.Decimal128) bson.Decimal128 {
	q := toQuad(d)
	switch size := absQuad(q); {
	case size.Cmp(quadSpeck) < 0:
		return d.MultiplyAdd(decimalSpeck, d)
	case size.Cmp(quadNearOne) <= 0:
		return fromQuad(quadArcsin(q))
	}
	return signed(fromQuad(quadArccos(legOfDecimal(d))), d.Negative())
}

func arccosDecimal(d bson.Decimal128) bson.Decimal128 {
	q := toQuad(d)
	switch size := absQuad(q); {
	case size.Cmp(quadSpeck) < 0:
		return decimalHalfPi
	case size.Cmp(quadNearOne) <= 0:
		return fromQuad(quadArccos(q))
	case q.Cmp(quadOne) >= 0:
		return decimalTiny
	}
	angle := quadArcsin(legOfDecimal(d))
	if d.Negative() {
		angle = quadDifference(quadPi, angle)
	}
	return fromQuad(angle)
}

func arctanDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsInf() != 0:
		return signed(decimalHalfPi, d.Negative())
	case d.IsZero():
		return d
	}
	q := toQuad(d)
	if absQuad(q).Cmp(quadSpeck) < 0 {
		return d.MultiplyAdd(decimalMinusSpeck, d)
	}
	return fromQuad(quadArctan(q))
}

// The quotients beyond which an angle is a multiple of π/2.
var (
	steepest = mustDecimal("1E+36")
	flattest = mustDecimal("1E-36")
)

// arctan2Decimal is the angle of the point (x, y).
func arctan2Decimal(y, x bson.Decimal128) bson.Decimal128 {
	straight := func(zero bson.Decimal128) bson.Decimal128 {
		if x.Negative() {
			zero = decimalPi
		}
		return signed(zero, y.Negative())
	}
	switch {
	case y.IsNaN() || x.IsNaN():
		return bson.DecimalNaN
	case y.IsInf() != 0 && x.IsInf() != 0:
		angle := decimalQuarterPi
		if x.Negative() {
			angle = decimalThreeQuarters
		}
		return signed(angle, y.Negative())
	case y.IsInf() != 0 || x.IsZero() && !y.IsZero():
		return signed(decimalHalfPi, y.Negative())
	case y.IsZero() || x.IsInf() != 0:
		return straight(decimalTiny)
	}
	slope := y.Divide(x).Abs()
	switch {
	case bson.CompareDecimals(slope, steepest) > 0:
		return signed(decimalHalfPi, y.Negative())
	case bson.CompareDecimals(slope, flattest) < 0:
		return straight(slope)
	}
	angle := fromQuad(quadArctan(toQuad(slope)))
	if x.Negative() {
		angle = decimalPi.Subtract(angle)
	}
	return signed(angle, y.Negative())
}

var (
	decimalQuarterPi     = roundedDecimal(shift(bigPi(workBits), -2))
	decimalThreeQuarters = roundedDecimal(newFloat().Mul(shift(bigPi(workBits), -2), newFloat().SetInt64(3)))
)
