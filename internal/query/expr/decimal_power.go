package expr

import (
	"math/big"

	"github.com/mayflydb/mayfly/internal/bson"
)

// powDecimals has all of its 34 digits even if fewer would do, and no zero of
// it is negative: the server adds the smallest zero to the power.
func powDecimals(base, exponent bson.Decimal128) bson.Decimal128 {
	return power(base, exponent).Add(decimalTiny)
}

func power(base, exponent bson.Decimal128) bson.Decimal128 {
	switch {
	case exponent.IsZero() || bson.CompareDecimals(base, decimalOne) == 0:
		return decimalOne
	case base.IsNaN() || exponent.IsNaN():
		return bson.DecimalNaN
	}
	odd, whole := oddDecimal(exponent)
	switch {
	case base.IsZero() || base.IsInf() != 0 || exponent.IsInf() != 0:
		return powSpecial(base, exponent, odd)
	case base.Negative() && !whole:
		return bson.DecimalNaN
	case bson.CompareDecimals(base, decimalTen) == 0:
		return exp10(exponent)
	case bson.CompareDecimals(base, decimalTwo) == 0:
		return exp2(exponent)
	}
	// base^exponent = e^(power+rest), of which power is a decimal.
	high, low := logInDecimals(base.Abs())
	power := exponent.Multiply(high)
	rest := exponent.MultiplyAdd(low, exponent.MultiplyAdd(high, power.Neg()))
	p := expDecimal(power)
	if p.IsZero() || p.IsInf() != 0 {
		return p
	}
	return signed(p.MultiplyAdd(rest, p), base.Negative() && odd)
}

// The exponents of ten and two from which powers are infinite or zero.
var (
	exp10Bound = bson.DecimalFromInt64(6400)
	exp2Bound  = bson.DecimalFromInt64(25000)
)

// overflow is a power with an exponent that is too large or too small.
func overflow(exponent bson.Decimal128) bson.Decimal128 {
	if exponent.Negative() {
		return decimalTiny
	}
	return decimalInfinity
}

// exp10 is 10^d.
func exp10(d bson.Decimal128) bson.Decimal128 {
	if bson.CompareDecimals(d.Abs(), exp10Bound) > 0 {
		return overflow(d)
	}
	k, _ := d.RoundToInt64()
	rest := toQuad(d.Subtract(bson.DecimalFromInt64(k)))
	p := fromQuad(quad(bigExp(newFloat().Mul(rest, bigLn10))))
	half := int(k / 2)
	p = p.Multiply(bson.NewDecimal(false, []byte{'1'}, half))
	return p.Multiply(bson.NewDecimal(false, []byte{'1'}, int(k)-half))
}

var (
	quadLn2 = quad(bigLn2)
	// exp2OfStride is the factor if the exponent is beyond a stride.
	exp2OfStride      = roundedDecimal(shift(bigOne, expStride))
	exp2OfMinusStride = roundedDecimal(shift(bigOne, -expStride))
)

// exp2 is 2^d.
func exp2(d bson.Decimal128) bson.Decimal128 {
	if bson.CompareDecimals(d.Abs(), exp2Bound) > 0 {
		return overflow(d)
	}
	high, low := toQuads(d)
	power := func() bson.Decimal128 {
		e := quad(bigExp(newFloat().Mul(high, bigLn2)))
		return fromQuad(quadSum(e, quadProduct(quadProduct(e, quadLn2), low)))
	}
	return strided(high, power, exp2OfStride, exp2OfMinusStride)
}

const (
	// logPlaces is the number of decimal places of the first part of a
	// logarithm, logPlacesMore of the second one.
	logPlaces     = 28
	logPlacesMore = 19
)

var (
	tenToLogPlaces     = new(big.Int).Exp(big.NewInt(10), big.NewInt(logPlaces), nil)
	tenToLogPlacesMore = new(big.Int).Exp(big.NewInt(10), big.NewInt(logPlacesMore), nil)
	// smallLogBits: first parts below that power of two leave too few digits.
	smallLogBits = 65

	decimalThird       = mustDecimal("0.3333333333333333333333333333333333")
	decimalMinusFourth = mustDecimal("-0.25")
)

// logInDecimals is the logarithm of a positive finite number as a sum.
func logInDecimals(d bson.Decimal128) (high, low bson.Decimal128) {
	l := bigLog(inBits(d, exactBits))
	negative := l.Sign() < 0
	l.Abs(l).SetPrec(exactBits)
	l.Mul(l, new(big.Float).SetInt(tenToLogPlaces))
	whole, _ := l.Int(nil)
	if whole.BitLen() <= smallLogBits {
		return logNearOneInDecimals(d)
	}
	l.Sub(l, new(big.Float).SetPrec(exactBits).SetInt(whole))
	l.Mul(l, new(big.Float).SetInt(tenToLogPlacesMore))
	more, _ := l.Int(nil)
	return bson.NewDecimal(negative, whole.Append(nil, 10), -logPlaces),
		bson.NewDecimal(negative, more.Append(nil, 10), -logPlaces-logPlacesMore)
}

// logNearOneInDecimals is logInDecimals of 1+t by the series t-t²/2+t³/3-t⁴/4.
// The second part has the server's sign.
func logNearOneInDecimals(d bson.Decimal128) (high, low bson.Decimal128) {
	t := d.Subtract(decimalOne)
	power := t.Multiply(t)
	sum := decimalMinusHalf.Multiply(power)
	for _, factor := range [...]bson.Decimal128{decimalThird, decimalMinusFourth} {
		power = t.Multiply(power)
		sum = sum.Add(factor.Multiply(power))
	}
	high = t.Add(sum)
	return high, high.Subtract(t).Subtract(sum)
}

// powSpecial is the power if base or exponent is infinite or base is zero.
func powSpecial(base, exponent bson.Decimal128, odd bool) bson.Decimal128 {
	grows := base.IsInf() != 0
	if exponent.IsInf() != 0 {
		switch bson.CompareDecimals(base.Abs(), decimalOne) {
		case 0:
			return decimalOne
		case 1:
			grows = true
		default:
			grows = false
		}
	}
	if grows == exponent.Negative() {
		return decimalZero
	}
	return signed(decimalInfinity, base.Negative() && odd)
}

// oddDecimal reports whether a finite number is whole, and odd.
func oddDecimal(d bson.Decimal128) (odd, whole bool) {
	if d.IsInf() != 0 {
		return false, true
	}
	if d.Exponent() > 0 && !d.IsZero() {
		return false, true
	}
	w, ok := d.WithExponent(0)
	if !ok {
		return false, false
	}
	return w.L&1 == 1, true
}
