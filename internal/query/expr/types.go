package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerUnary("$type", func(env *Env, v bson.Value) (bson.Value, error) { return typeNames[v.Type], nil })
	registerUnary("$isNumber", func(env *Env, v bson.Value) (bson.Value, error) { return bson.Bool(v.IsNumber()), nil })
	registerUnary("$isArray", func(env *Env, v bson.Value) (bson.Value, error) {
		return bson.Bool(v.Type == bson.TypeArray), nil
	})
}

// typeNames are the results of $type, made once.
var typeNames = func() (vs [256]bson.Value) {
	for i := range vs {
		vs[i] = bson.String(bson.Type(i).String())
	}
	return vs
}()
