package expr

import (
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Exponential and logarithms of decimals, step by step as the server's; see
// quad.go.

var (
	decimalZero      = bson.DecimalFromInt64(0)
	decimalOne       = bson.DecimalFromInt64(1)
	decimalTwo       = bson.DecimalFromInt64(2)
	decimalTen       = bson.DecimalFromInt64(10)
	decimalMinusOne  = bson.DecimalFromInt64(-1)
	decimalHalf      = mustDecimal("0.5")
	decimalMinusHalf = mustDecimal("-0.5")
	decimalTiny      = bson.NewDecimal(false, []byte{'0'}, -6176) // zero, where the result is too small
	decimalInfinity  = bson.DecimalFromAPD(&apd.Decimal{Form: apd.Infinite})
	// decimalSpeck stands for what a sum loses of a much smaller number.
	decimalSpeck = mustDecimal("1E-40")
)

// The binary format has no powers of e far beyond this exponent: they take a
// factor in decimals.
const expStride = 11000

var (
	quadStride      = quadOfInt(expStride)
	quadMinusStride = quadOfInt(-expStride)
	expOfStride     = roundedDecimal(bigExp(newFloat().SetInt64(expStride)))
	// The server's factor is one unit of the last place below the right one.
	expOfMinusStride = mustDecimal("5.763669429168183696272822960961269E-4778")
	// expBound is the bound beyond which a power of e is infinite or zero.
	expBound = bson.DecimalFromInt64(15000)
)

// roundedDecimal is f with all of its 34 digits.
func roundedDecimal(f *big.Float) bson.Decimal128 {
	d, _ := bson.ParseDecimal(f.Text('e', decimalDigits-1))
	return d
}

func expDecimal(d bson.Decimal128) bson.Decimal128 {
	switch {
	case d.IsNaN(), d.IsInf() > 0:
		return d
	case d.IsInf() < 0:
		return decimalZero
	case d.IsZero():
		return decimalOne
	case bson.CompareDecimals(d.Abs(), expBound) > 0:
		return overflow(d)
	}
	high, low := toQuads(d)
	power := func() bson.Decimal128 {
		e := quadExp(high)
		return fromQuad(quadSum(e, quadProduct(e, low)))
	}
	return strided(high, power, expOfStride, expOfMinusStride)
}

// strided brings an exponent beyond a stride within it, and multiplies the power by the
// factor of the stride: up or down.
// The caller's power reads exponent, which strided moves.
func strided(exponent *big.Float, power func() bson.Decimal128, up, down bson.Decimal128) bson.Decimal128 {
	switch {
	case exponent.Cmp(quadStride) > 0:
		exponent.Sub(exponent, quadStride)
		return power().Multiply(up)
	case exponent.Cmp(quadMinusStride) < 0:
		exponent.Add(exponent, quadStride)
		return power().Multiply(down)
	}
	return power()
}

// Beyond these powers of ten, the binary format has no number.
const quadPowerOfTen = 4464

var (
	decimalVast   = mustDecimal("1E+4464")
	decimalMinute = mustDecimal("1E-4464")
	logOfVast     = quad(newFloat().Mul(bigLn10, newFloat().SetInt64(quadPowerOfTen)))
)

// logOfDecimal is the natural logarithm of a positive finite number as a quad,
// and the power of ten that was split off the number.
func logOfDecimal(d bson.Decimal128) (log *big.Float, ten int) {
	switch {
	case bson.CompareDecimals(d, decimalVast) > 0:
		return quadLog(toQuad(d.Multiply(decimalMinute))), quadPowerOfTen
	case bson.CompareDecimals(d, decimalMinute) < 0:
		return quadLog(toQuad(d.Multiply(decimalVast))), -quadPowerOfTen
	}
	q := toQuad(d)
	log = quadLog(q)
	near := quadDifference(q, quadOne)
	if new(big.Float).Abs(near).Cmp(quadHalf) < 0 {
		// What the conversion lost matters if the logarithm is small.
		lost := quadDifference(near, toQuad(d.Subtract(decimalOne)))
		log = quadDifference(log, quadQuotient(lost, q))
	}
	return log, 0
}

func lnDecimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	l, ten := logOfDecimal(d)
	switch {
	case ten > 0:
		l = quadSum(l, logOfVast)
	case ten < 0:
		l = quadDifference(l, logOfVast)
	}
	return fromQuad(l)
}

var quadLog10e = quad(newFloat().Quo(bigOne, bigLn10))

func log10Decimal(d bson.Decimal128) bson.Decimal128 {
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	l, ten := logOfDecimal(d)
	l = quadProduct(l, quadLog10e)
	if ten != 0 {
		l = quadSum(l, quadOfInt(int64(ten)))
	}
	return fromQuad(l)
}

func logDecimals(d, base bson.Decimal128) bson.Decimal128 {
	return lnDecimal(d).Divide(lnDecimal(base))
}
