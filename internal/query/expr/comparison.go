package expr

import "github.com/mayflydb/mayfly/internal/bson"

// Comparison is a condition that holds for every document for which an expression is
// true: the field at Path compares with Value by Op ("$eq", "$lt", "$lte", "$gt" or
// "$gte"). Path has no numeric components.
type Comparison struct {
	Path  string
	Op    string
	Value bson.Value
}

// flipped are the operators with their operands swapped.
var flipped = map[string]string{"$eq": "$eq", "$lt": "$gt", "$lte": "$gte", "$gt": "$lt", "$gte": "$lte"}

// Comparisons lists the comparisons of a field with a constant, or with a variable that
// env binds, among the conjuncts of e.
func Comparisons(e Expr, env *Env) []Comparison {
	switch e := e.(type) {
	case *junction:
		if e.deciding {
			return nil
		}
		var all []Comparison
		for _, a := range e.args {
			all = append(all, Comparisons(a, env)...)
		}
		return all
	case *binaryCall:
		op, path, value := e.name, e.a, e.b
		if flipped[op] == "" {
			return nil
		}
		if _, ok := AsFieldPath(path); !ok {
			op, path, value = flipped[op], e.b, e.a
		}
		name, ok := AsFieldPath(path)
		if !ok || name == "" {
			return nil
		}
		if v, ok := bound(value, env); ok {
			return []Comparison{{name, op, v}}
		}
	}
	return nil
}

// Alternatives returns the operands of an $or among the conjuncts of e; nil if there
// is none. whole is true if the $or is all of e.
func Alternatives(e Expr) (operands []Expr, whole bool) {
	j, ok := e.(*junction)
	if !ok {
		return nil, false
	}
	if j.deciding {
		return j.args, true
	}
	for _, a := range j.args {
		if operands, _ = Alternatives(a); operands != nil {
			return operands, false
		}
	}
	return nil, false
}

// bound is the value of a constant, or of a variable that no document changes.
func bound(e Expr, env *Env) (bson.Value, bool) {
	if v, ok := Constant(e); ok {
		return v, true
	}
	f, ok := e.(*fieldPath)
	if !ok || !f.free || env == nil {
		return bson.Value{}, false
	}
	v, err := f.Eval(env)
	return v.Clone(), err == nil
}
