package expr

import "github.com/mayflydb/mayfly/internal/bson"

// ColumnAccumulator is an Accumulator that takes in many documents at once.
type ColumnAccumulator interface {
	Accumulator
	// AddColumn takes in what the expression is for each of some documents.
	AddColumn(env *Env, vs []bson.Value) error
}

// AddColumn adds them up.
func (s *sumState) AddColumn(_ *Env, vs []bson.Value) error {
	for _, v := range vs {
		s.add(v)
	}
	return nil
}

// AddColumn gathers them one by one.
func (g *gatherer) AddColumn(env *Env, vs []bson.Value) error {
	for _, v := range vs {
		if err := g.add(env, v); err != nil {
			return err
		}
	}
	return nil
}

// Column says what $sum, $avg, $count, $min and $max are of: a field of the
// document by its path, or a constant where that is "". ok is false for any
// other accumulator and any other expression.
func (s *AccumulatorSpec) Column() (path string, constant bson.Value, ok bool) {
	switch s.Name {
	case "$sum", "$avg", "$count", "$min", "$max":
	default:
		return "", bson.Value{}, false
	}
	if path, ok = AsFieldPath(s.exprs[0]); ok {
		return path, bson.Value{}, path != ""
	}
	constant, ok = Constant(s.exprs[0])
	return "", constant, ok
}
