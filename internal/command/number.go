package command

import (
	"math"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// safeInt64 reads a number as the server does where any number will do: a
// double is truncated, a decimal rounded half to even, NaN is 0, what is out of
// range is clamped. Anything else is 0.
func safeInt64(v bson.Value) int64 {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32())
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeDouble:
		return clampDouble(v.Double())
	case bson.TypeDecimal:
		i, _ := decimalInt64(v.Decimal())
		return i
	}
	return 0
}

func clampDouble(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

// decimalInt64 rounds and clamps d, and says whether it was an integer that
// fits.
func decimalInt64(d bson.Decimal128) (i int64, exact bool) {
	if d.IsNaN() {
		return 0, false
	}
	limit := int64(math.MaxInt64)
	if d.Negative() {
		limit = math.MinInt64
	}
	if d.IsInf() != 0 {
		return limit, false
	}
	// 2^63 has 19 digits: with more in front of the point there is no need to
	// write the digits out.
	a := d.APD()
	if !a.IsZero() && a.NumDigits()+int64(a.Exponent) > 19 {
		return limit, false
	}
	var r apd.Decimal
	ctx := apd.Context{Precision: 40, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent, Rounding: apd.RoundHalfEven}
	cond, err := ctx.Quantize(&r, a, 0)
	if err != nil {
		return limit, false
	}
	i, err = r.Int64()
	if err != nil {
		return limit, false
	}
	return i, !cond.Inexact()
}

func toDouble(v bson.Value) float64 {
	switch v.Type {
	case bson.TypeDouble:
		return v.Double()
	case bson.TypeDecimal:
		d := v.Decimal()
		if d.IsNaN() {
			return math.NaN()
		}
		if s := d.IsInf(); s != 0 {
			return math.Inf(s)
		}
		f, err := d.APD().Float64()
		if err != nil {
			if d.Negative() {
				return math.Inf(-1)
			}
			return math.Inf(1)
		}
		return f
	}
	return float64(safeInt64(v))
}

func clamp32(i int64) int {
	return int(min(max(i, math.MinInt32), math.MaxInt32))
}

// isInteger says whether a number has no fraction and fits 64 bits.
func isInteger(v bson.Value) bool {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return true
	case bson.TypeDouble:
		f := v.Double()
		return f == math.Trunc(f) && f >= math.MinInt64 && f < math.MaxInt64
	case bson.TypeDecimal:
		_, exact := decimalInt64(v.Decimal())
		return exact
	}
	return false
}
