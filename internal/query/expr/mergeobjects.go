package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerAssociative("$mergeObjects", false, func(env *Env, args []Expr) (bson.Value, error) {
		var fields fieldSet
		err := env.eachInput(args, func(v bson.Value) error { return fields.merge(v, 40400) })
		if err != nil {
			return bson.Value{}, err
		}
		return fields.value(env)
	})
}

// eachInput calls f for the operands of an accumulator used as an expression: a
// single operand that is an array stands for its elements.
func (e *Env) eachInput(args []Expr, f func(v bson.Value) error) error {
	for _, a := range args {
		v, err := a.Eval(e)
		if err != nil {
			return err
		}
		if len(args) == 1 && v.Type == bson.TypeArray {
			for it := v.Doc().Iter(); it.Next(); {
				if err := f(it.Value); err != nil {
					return err
				}
			}
			return nil
		}
		if err := f(v); err != nil {
			return err
		}
	}
	return nil
}

// merge adds the fields of an object; null and missing add none, other types
// are an error with the code otherType.
func (s *fieldSet) merge(v bson.Value, otherType mongoerr.Code) error {
	switch {
	case v.Type == bson.TypeDocument:
		s.setAll(v.Doc())
	case !v.IsNullish():
		return mongoerr.New(otherType,
			"$mergeObjects requires object inputs, but input %s is of type %s", text(v), v.Type)
	}
	return nil
}
