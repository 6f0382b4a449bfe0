package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { registerAssociative("$concat", false, evalConcat) }

func evalConcat(env *Env, args []Expr) (bson.Value, error) {
	mark, size := env.mark(), 0
	defer env.release(mark)
	for _, a := range args {
		v, err := a.Eval(env)
		switch {
		case err != nil:
			return bson.Value{}, err
		case v.IsNullish():
			return bson.Null, nil
		case v.Type != bson.TypeString:
			return bson.Value{}, mongoerr.New(mongoerr.Code(16702), "$concat only supports strings, not %s", v.Type)
		}
		if size += len(v.Str()); size >= maxStringBytes {
			return bson.Value{}, stringTooLong()
		}
		env.push(v)
	}
	out, body, err := env.newString(size)
	if err != nil {
		return bson.Value{}, err
	}
	for _, v := range env.since(mark) {
		body = body[copy(body, v.Str()):]
	}
	return out, nil
}
