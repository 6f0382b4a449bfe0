package expr

import "github.com/mayflydb/mayfly/internal/bson"

// Comparison is a condition that holds of every document for which an
// expression is true: the field at Path, which no number is part of, compares
// with Value by Op ("$eq", "$lt", "$lte", "$gt" or "$gte").
type Comparison struct {
	Path  string
	Op    string
	Value bson.Value
}

// flipped are the operators with their operands changed over.
var flipped = map[string]string{"$eq": "$eq", "$lt": "$gt", "$lte": "$gte", "$gt": "$lt", "$gte": "$lte"}

// Comparisons lists the comparisons of fields with constants, or with
// variables that env binds, that e is, or is a conjunction with.
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

// Alternatives are the operands of an $or that e is, or is a conjunction with;
// nil where there is none. whole says that e is it.
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
