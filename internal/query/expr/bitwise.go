package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerBitwise("$bitAnd", -1, func(a, b int64) int64 { return a & b })
	registerBitwise("$bitOr", 0, func(a, b int64) int64 { return a | b })
	registerBitwise("$bitXor", 0, func(a, b int64) int64 { return a ^ b })
	registerNumeric("$bitNot", func(env *Env, v bson.Value) (bson.Value, error) {
		switch v.Type {
		case bson.TypeInt32:
			return env.Int32(^v.Int32()), nil
		case bson.TypeInt64:
			return env.Int64(^v.Int64()), nil
		}
		return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "$bitNot only supports int and long, not: %s.", v.Type)
	})
}

// registerBitwise registers an operator on ints and longs: the result is a long
// if one of them is. Ints extend their sign, so identity serves both.
func registerBitwise(name string, identity int64, combine func(a, b int64) int64) {
	registerAssociative(name, true, func(env *Env, args []Expr) (bson.Value, error) {
		result, widest := identity, bson.TypeInt32
		for _, a := range args {
			v, err := a.Eval(env)
			switch {
			case err != nil:
				return bson.Value{}, err
			case v.IsNullish():
				return bson.Null, nil
			case v.Type != bson.TypeInt32 && v.Type != bson.TypeInt64:
				return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch,
					"%s only supports int and long operands, not %s.", name, v.Type)
			}
			result = combine(result, long(v))
			widest = wider(widest, v.Type)
		}
		if widest == bson.TypeInt64 {
			return env.Int64(result), nil
		}
		return env.Int32(int32(result)), nil
	})
}
