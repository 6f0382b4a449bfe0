package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNary("$mergeObjects", 0, anyNumber, func(env *Env, args []Expr) (bson.Value, error) {
		var fields fieldSet
		for _, a := range args {
			v, err := a.Eval(env)
			if err != nil {
				return bson.Value{}, err
			}
			if err := fields.merge(v); err != nil {
				return bson.Value{}, err
			}
		}
		return fields.value(env)
	})
}

// merge adds the fields of an object; null and missing add none.
func (s *fieldSet) merge(v bson.Value) error {
	switch {
	case v.Type == bson.TypeDocument:
		s.setAll(v.Doc())
	case !v.IsNullish():
		return mongoerr.New(mongoerr.Code(40400),
			"$mergeObjects requires object inputs, but input %s is of type %s", text(v), v.Type)
	}
	return nil
}
