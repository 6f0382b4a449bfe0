package pipeline

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// boundEq is {$expr: {$eq: ["$path", value]}} at the beginning of a
// sub-pipeline, with a value that depends only on variables. Once these are known it is
// an equality that an index can answer; the $expr is still evaluated.
type boundEq struct {
	path  string
	value expr.Expr
}

// boundEqualities finds them in the leading $match stages.
func boundEqualities(f *Foreign, opts *expr.Options, outer int) []boundEq {
	var found []boundEq
	for _, s := range f.Pipeline.Stages {
		m, ok := s.(*Match)
		if !ok {
			break
		}
		for _, n := range match.Conjuncts(m.Filter.Root()) {
			if e, ok := n.(*match.Expr); ok {
				found = appendBoundEqs(found, expr.Serialize(e.Expr), opts)
			}
		}
	}
	return found
}

func appendBoundEqs(found []boundEq, e bson.Value, opts *expr.Options) []boundEq {
	if e.Type != bson.TypeDocument || e.Doc().Len() != 1 {
		return found
	}
	op, arg := e.Doc().First()
	if arg.Type != bson.TypeArray {
		return found
	}
	operands := arg.Doc().Slice()
	switch {
	case op == "$and":
		for _, o := range operands {
			found = appendBoundEqs(found, o, opts)
		}
	case op == "$eq" && len(operands) == 2:
		for i := range operands {
			path, err := expr.Parse(operands[i], opts)
			if err != nil {
				return found
			}
			value, err := expr.Parse(operands[1-i], opts)
			if err != nil {
				return found
			}
			var d expr.Deps
			d.Add(value)
			if name, ok := expr.AsFieldPath(path); ok && name != "" && !d.Whole && !d.Random && len(d.Paths) == 0 && len(d.Vars) > 0 {
				return append(found, boundEq{name, value})
			}
		}
	}
	return found
}

// bind returns the equality with the variables of env, or nil if a filter's equality
// would reject what the expression's accepts: for arrays, and for missing values.
func (b boundEq) bind(env *expr.Env, coll bson.Collator) (match.Node, error) {
	v, err := b.value.Eval(env.WithRoot(bson.Empty))
	if err != nil || v.Type == bson.Missing || v.Type == bson.TypeUndefined || v.Type == bson.TypeArray {
		return nil, err
	}
	return match.NewCompare(b.path, match.Eq, v, coll), nil
}
