package schema

import (
	"math"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// toInt64 converts a number as the server's conversions with clamping do:
// doubles are truncated, decimals rounded half to even, what is too large is
// clamped and NaN is 0.
func toInt64(v bson.Value) int64 {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32())
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeDouble:
		return clampDouble(v.Double())
	case bson.TypeDecimal:
		return clampDecimal(v.Decimal())
	}
	return 0
}

func clampDouble(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case f >= 1<<63:
		return math.MaxInt64
	case f < -1<<63:
		return math.MinInt64
	}
	return int64(f)
}

func clampDecimal(d bson.Decimal128) int64 {
	if d.IsNaN() {
		return 0
	}
	if sign := d.IsInf(); sign != 0 {
		return clampDouble(math.Inf(sign))
	}
	a := d.APD()
	if a.NumDigits()+int64(a.Exponent) > 19 { // beyond any long
		return clampDouble(map[bool]float64{false: math.Inf(1), true: math.Inf(-1)}[a.Negative])
	}
	ctx := apd.BaseContext.WithPrecision(50)
	ctx.Rounding = apd.RoundHalfEven
	var r apd.Decimal
	if _, err := ctx.RoundToIntegralValue(&r, a); err != nil {
		return 0
	}
	if i, err := r.Int64(); err == nil {
		return i
	}
	return clampDouble(map[bool]float64{false: math.Inf(1), true: math.Inf(-1)}[a.Negative])
}

// isNaN says whether a number is not one.
func isNaN(v bson.Value) bool {
	switch v.Type {
	case bson.TypeDouble:
		return math.IsNaN(v.Double())
	case bson.TypeDecimal:
		return v.Decimal().IsNaN()
	}
	return false
}

// asInt32 is the value of a number that is exactly an int.
func asInt32(v bson.Value) (int32, bool) {
	if !v.IsNumber() || isNaN(v) {
		return 0, false
	}
	i := toInt64(v)
	if i < math.MinInt32 || i > math.MaxInt32 || !bson.Equal(v, bson.Int64(i)) {
		return 0, false
	}
	return int32(i), true
}
