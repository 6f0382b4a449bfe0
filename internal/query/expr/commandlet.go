package expr

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// constants are the system variables that hold for a whole command: its `let`
// must not set them, and cannot read them, since they begin with the query.
var constants = []string{"NOW", "CLUSTER_TIME", "JS_SCOPE", "IS_MR", "USER_ROLES"}

// CommandLet computes the variables of a command's `let`, each of which sees those
// before it and no document. Errors: 9 for bad names, 4738901 for errors in constants,
// and those of the expressions.
func CommandLet(d bson.Doc, c bson.Collator) (names []string, values []bson.Value, err error) {
	env := &Env{Collator: c}
	for it := d.Iter(); it.Next(); {
		if slices.Contains(constants, it.Key) {
			return nil, nil, mongoerr.New(mongoerr.Code(4738901), "Attempt to set internal constant: %s", it.Key)
		}
		if err := ValidateVarName(it.Key); err != nil {
			return nil, nil, err
		}
		e, err := Parse(it.Value, &Options{Collator: c, Vars: names, NoDocument: true, ClusterTime: true})
		if err != nil {
			return nil, nil, err
		}
		v, err := e.Eval(env)
		if err != nil {
			return nil, nil, err
		}
		v = v.Clone()
		env.SetVar(len(names), v)
		names, values = append(names, it.Key), append(values, v)
	}
	return names, values, nil
}
