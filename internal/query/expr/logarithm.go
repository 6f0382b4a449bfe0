package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNumeric("$ln", func(env *Env, v bson.Value) (bson.Value, error) {
		return logarithm(env, "$ln", 28766, v, lnDouble, lnDecimal)
	})
	registerNumeric("$log10", func(env *Env, v bson.Value) (bson.Value, error) {
		return logarithm(env, "$log10", 28761, v, log10Double, log10Decimal)
	})
	registerBinary("$log", evalLog)
}

func logarithm(env *Env, name string, code mongoerr.Code, v bson.Value,
	ofDouble func(float64) float64, ofDecimal func(bson.Decimal128) bson.Decimal128) (bson.Value, error) {
	if v.Type == bson.TypeDecimal {
		if d := v.Decimal(); d.Sign() > 0 {
			return env.Decimal(ofDecimal(d)), nil
		} else if d.IsNaN() {
			return env.Double(math.NaN()), nil
		}
	} else if f := bson.ToDouble(v); f > 0 || math.IsNaN(f) {
		return env.Double(ofDouble(f)), nil
	}
	return bson.Value{}, mongoerr.New(code, "%s's argument must be a positive number, but is %s", name, text(v))
}

func evalLog(env *Env, v, base bson.Value) (bson.Value, error) {
	if v.IsNullish() || base.IsNullish() {
		return bson.Null, nil
	}
	if !v.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28756), "$log's argument must be numeric, not %s", v.Type)
	}
	if !base.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28757), "$log's base must be numeric, not %s", base.Type)
	}
	badValue := func() (bson.Value, error) {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28758), "$log's argument must be a positive number, but is %s", text(v))
	}
	badBase := func() (bson.Value, error) {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28759),
			"$log's base must be a positive number not equal to 1, but is %s", text(base))
	}
	if wider(v.Type, base.Type) == bson.TypeDecimal {
		d, b := bson.ToDecimal(v), bson.ToDecimal(base)
		if d.Sign() <= 0 && !d.IsNaN() {
			return badValue()
		}
		if (b.Sign() <= 0 || bson.CompareDecimals(b, bson.DecimalFromInt64(1)) == 0) && !b.IsNaN() {
			return badBase()
		}
		if d.IsNaN() || b.IsNaN() {
			return env.Double(math.NaN()), nil
		}
		return env.Decimal(logDecimals(d, b)), nil
	}
	f, b := bson.ToDouble(v), bson.ToDouble(base)
	if !(f > 0 || math.IsNaN(f)) {
		return badValue()
	}
	if !(b > 0 && b != 1 || math.IsNaN(b)) {
		return badBase()
	}
	return env.Double(lnDouble(f) / lnDouble(b)), nil
}
