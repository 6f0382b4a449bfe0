package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNumeric("$abs", evalAbs)
	registerNumeric("$ceil", func(env *Env, v bson.Value) (bson.Value, error) {
		return toIntegral(env, v, math.Ceil, bson.RoundCeiling), nil
	})
	registerNumeric("$floor", func(env *Env, v bson.Value) (bson.Value, error) {
		return toIntegral(env, v, math.Floor, bson.RoundFloor), nil
	})
	registerNary("$round", 1, 2, func(env *Env, args []Expr) (bson.Value, error) {
		return evalRound(env, "$round", args, bson.RoundHalfEven)
	})
	registerNary("$trunc", 1, 2, func(env *Env, args []Expr) (bson.Value, error) {
		return evalRound(env, "$trunc", args, bson.RoundTowardZero)
	})
}

// registerNumeric registers an operator of one number; null gives null.
func registerNumeric(name string, fn func(env *Env, v bson.Value) (bson.Value, error)) {
	registerUnary(name, func(env *Env, v bson.Value) (bson.Value, error) {
		if v.IsNullish() {
			return bson.Null, nil
		}
		if !v.IsNumber() {
			return bson.Value{}, mongoerr.New(mongoerr.Code(28765), "%s only supports numeric types, not %s", name, v.Type)
		}
		return fn(env, v)
	})
}

func evalAbs(env *Env, v bson.Value) (bson.Value, error) {
	switch v.Type {
	case bson.TypeDouble:
		return env.Double(math.Abs(v.Double())), nil
	case bson.TypeDecimal:
		return env.Decimal(v.Decimal().Abs()), nil
	case bson.TypeInt32:
		return env.Int(max(long(v), -long(v))), nil
	}
	if v.Int64() == math.MinInt64 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28680), "can't take $abs of long long min")
	}
	return env.Int64(max(v.Int64(), -v.Int64())), nil
}

// toIntegral rounds doubles and decimals to whole numbers.
func toIntegral(env *Env, v bson.Value, f func(float64) float64, mode bson.Rounding) bson.Value {
	switch v.Type {
	case bson.TypeDouble:
		return env.Double(f(v.Double()))
	case bson.TypeDecimal:
		d, ok := v.Decimal().Quantize(0, mode)
		if !ok || d.IsInf() != 0 {
			d = bson.DecimalNaN // as the server: a decimal without room for its units is none
		}
		return env.Decimal(d)
	}
	return v
}

// The range of the place that $round and $trunc take: a number of decimals.
const (
	minPlace = -20
	maxPlace = 100
)

func evalRound(env *Env, name string, args []Expr, mode bson.Rounding) (bson.Value, error) {
	v, err := args[0].Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if v.IsNullish() {
		return bson.Null, nil
	}
	if !v.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(51081), "%s only supports numeric types, not %s", name, v.Type)
	}
	place := 0
	if len(args) > 1 {
		p, err := args[1].Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if p.IsNullish() {
			return bson.Null, nil
		}
		if place, err = roundPlace(name, p); err != nil {
			return bson.Value{}, err
		}
	}
	switch v.Type {
	case bson.TypeDecimal:
		if d, ok := v.Decimal().Quantize(-place, mode); ok {
			return env.Decimal(d), nil
		}
		return v, nil
	case bson.TypeDouble:
		return env.Double(roundDouble(v.Double(), place, mode)), nil
	}
	if place >= 0 {
		return v, nil
	}
	d, _ := bson.DecimalFromInt64(long(v)).Quantize(-place, mode)
	r, _, ok := d.TruncateToInt64()
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.Code(51080),
			"invalid conversion from Decimal128 result in %s resulting from arguments: [%s, %d]", name, text(v), place)
	}
	if v.Type == bson.TypeInt32 {
		return env.Int(r), nil
	}
	return env.Int64(r), nil
}

// roundDouble rounds by the decimal digits that the double exactly has.
func roundDouble(f float64, place int, mode bson.Rounding) float64 {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return f
	case place == 0 && mode == bson.RoundTowardZero:
		return math.Trunc(f)
	case place == 0:
		return math.RoundToEven(f)
	}
	if d, ok := bson.DecimalFromDouble(f, decimalDigits).Quantize(-place, mode); ok {
		return d.Double()
	}
	return f
}

func roundPlace(name string, v bson.Value) (int, error) {
	var place int64
	integral := true
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		place = long(v)
	case bson.TypeDouble:
		f := v.Double()
		if !(f >= -1<<63 && f < 1<<63) {
			return 0, mongoerr.New(mongoerr.Code(31109), "Can't coerce out of range value %s to long", text(v))
		}
		place = int64(f)
		integral = float64(place) == f
	case bson.TypeDecimal:
		var ok bool
		place, integral, ok = v.Decimal().TruncateToInt64()
		integral = integral && ok
	default:
		return 0, mongoerr.New(mongoerr.Code(16004), "can't convert from BSON type %s to long", v.Type)
	}
	if !integral {
		return 0, mongoerr.New(mongoerr.Code(51082), "precision argument to  %s must be a integral value", name)
	}
	if place < minPlace || place > maxPlace {
		return 0, mongoerr.New(mongoerr.Code(51083),
			"cannot apply %s with precision value %d value must be in [%d, %d]", name, place, minPlace, maxPlace)
	}
	return int(place), nil
}
