package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	parse := func(p *parser, _ string, arg bson.Value) (Expr, error) {
		args, err := p.exactly("$substrBytes", arg, 3)
		return &naryCall{"$substrBytes", evalSubstrBytes, args}, err
	}
	register("$substr", parse) // its old name
	register("$substrBytes", parse)
	registerNary("$substrCP", 3, 3, evalSubstrCP)
}

func evalSubstrBytes(env *Env, args []Expr) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	s, err := coerceToString(vs[0])
	if err != nil {
		return bson.Value{}, err
	}
	if !vs[1].IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(16034),
			"$substrBytes:  starting index must be a numeric type (is BSON type %s)", vs[1].Type)
	}
	if !vs[2].IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(16035),
			"$substrBytes:  length must be a numeric type (is BSON type %s)", vs[2].Type)
	}
	from, err := coerceToLong(vs[1])
	if err != nil {
		return bson.Value{}, err
	}
	if from < 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(50752),
			"$substrBytes:  starting index must be non-negative (got: %d)", from)
	}
	length, err := coerceToLong(vs[2])
	if err != nil {
		return bson.Value{}, err
	}
	size := int64(len(s))
	from = min(from, size)
	end := size // a negative length is all the rest
	if length >= 0 && length < size-from {
		end = from + length
	}
	if from < size && isContinuation(s[from]) {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28656),
			"$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.")
	}
	if end < size && isContinuation(s[end]) {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28657),
			"$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.")
	}
	return env.String(s[from:end]), nil
}

func evalSubstrCP(env *Env, args []Expr) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	s, err := coerceToString(vs[0])
	if err != nil {
		return bson.Value{}, err
	}
	var n [2]int32
	for i, what := range []string{"starting index", "length"} {
		v, ok := vs[i+1], false
		if !v.IsNumber() {
			return bson.Value{}, mongoerr.New(mongoerr.Code(34450+2*i),
				"$substrCP: %s must be a numeric type (is BSON type %s)", what, v.Type)
		}
		if n[i], ok = bson.ExactInt32(v); !ok {
			return bson.Value{}, mongoerr.New(mongoerr.Code(34451+2*i),
				"$substrCP: %s cannot be represented as a 32-bit integral value: %s", what, text(v))
		}
	}
	if n[1] < 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(34454), "$substrCP: length must be a nonnegative integer.")
	}
	if n[0] < 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(34455), "$substrCP: the starting index must be nonnegative integer.")
	}
	s = s[skipPoints(s, int(n[0])):]
	return env.String(s[:skipPoints(s, int(n[1]))]), nil
}
