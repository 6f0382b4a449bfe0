package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNary("$multiply", 0, anyNumber, evalMultiply)
	registerBinary("$divide", evalDivide)
	registerBinary("$mod", evalMod)
}

// long is the value of an int or a long.
func long(v bson.Value) int64 {
	if v.Type == bson.TypeInt32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// product is the running product of $multiply: as a long while it is one, as a
// double from the first double or overflow on, as a decimal from the first
// decimal on.
type product struct {
	long    int64
	double  float64
	decimal bson.Decimal128
	widest  bson.Type
}

func (p *product) multiply(v bson.Value) {
	before := p.widest
	p.widest = wider(p.widest, v.Type)
	if p.widest == bson.TypeDecimal {
		switch before {
		case bson.TypeInt32, bson.TypeInt64:
			p.decimal = bson.DecimalFromInt64(p.long)
		case bson.TypeDouble:
			p.decimal = bson.DecimalFromDouble(p.double, 15)
		}
		p.decimal = p.decimal.Multiply(bson.ToDecimal(v))
		return
	}
	p.double *= bson.ToDouble(v)
	if p.widest != bson.TypeDouble {
		var ok bool
		if p.long, ok = multiplyLongs(p.long, long(v)); !ok {
			p.widest = bson.TypeDouble
		}
	}
}

func evalMultiply(env *Env, args []Expr) (bson.Value, error) {
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	for _, a := range args {
		v, err := a.Eval(env)
		switch {
		case err != nil:
			return bson.Value{}, err
		case v.IsNumber():
			p.multiply(v)
		case v.IsNullish():
			return bson.Null, nil
		default:
			return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "$multiply only supports numeric types, not %s", v.Type)
		}
	}
	return p.value(env), nil
}

func (p *product) value(env *Env) bson.Value {
	switch p.widest {
	case bson.TypeInt64:
		return env.Int64(p.long)
	case bson.TypeDouble:
		return env.Double(p.double)
	case bson.TypeDecimal:
		return env.Decimal(p.decimal)
	}
	return env.Int(p.long)
}

func evalDivide(env *Env, a, b bson.Value) (bson.Value, error) {
	switch {
	case a.IsNumber() && b.IsNumber():
	case a.IsNullish() || b.IsNullish():
		return bson.Null, nil
	default:
		return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch,
			"$divide only supports numeric types, not %s and %s", a.Type, b.Type)
	}
	if wider(a.Type, b.Type) == bson.TypeDecimal {
		d := bson.ToDecimal(b)
		if d.IsZero() {
			return bson.Value{}, mongoerr.New(env.code(mongoerr.BadValue, 4848401), "can't $divide by zero")
		}
		return env.Decimal(bson.ToDecimal(a).Divide(d)), nil
	}
	f := bson.ToDouble(b)
	if f == 0 {
		return bson.Value{}, mongoerr.New(env.code(mongoerr.BadValue, 4848401), "can't $divide by zero")
	}
	return env.Double(bson.ToDouble(a) / f), nil
}

func evalMod(env *Env, a, b bson.Value) (bson.Value, error) {
	switch {
	case a.IsNumber() && b.IsNumber():
	case a.IsNullish() || b.IsNullish():
		return bson.Null, nil
	default:
		return bson.Value{}, mongoerr.New(mongoerr.Code(16611),
			"$mod only supports numeric types, not %s and %s", a.Type, b.Type)
	}
	if wider(a.Type, b.Type) == bson.TypeDecimal {
		d := bson.ToDecimal(b)
		if d.IsZero() {
			return bson.Value{}, mongoerr.New(env.code(5733415, 4848403), "can't $mod by zero")
		}
		return env.Decimal(bson.ToDecimal(a).Mod(d)), nil
	}
	if bson.ToDouble(b) == 0 {
		return bson.Value{}, mongoerr.New(env.code(16610, 4848403), "can't $mod by zero")
	}
	if wider(a.Type, b.Type) == bson.TypeDouble {
		return env.Double(math.Mod(bson.ToDouble(a), bson.ToDouble(b))), nil
	}
	by := long(b)
	if by == -1 {
		by = 1 // the remainder is 0, but the lowest long divided by -1 overflows
	}
	if a.Type == bson.TypeInt64 || b.Type == bson.TypeInt64 {
		return env.Int64(long(a) % by), nil
	}
	return env.Int32(int32(long(a) % by)), nil
}
