package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerGatherer("$sum", func(*Env) state { return &sumState{result: (*summation).sum} })
	registerGatherer("$avg", func(*Env) state { return &sumState{result: (*summation).average} })
	accumulators["$count"] = parseCount
	registerNary("$sum", 0, anyNumber, func(env *Env, args []Expr) (bson.Value, error) {
		var s summation
		err := env.eachInput(args, func(v bson.Value) error { s.add(v); return nil })
		return s.sum(), err
	})
	registerNary("$avg", 0, anyNumber, func(env *Env, args []Expr) (bson.Value, error) {
		s := summation{rough: true}
		err := env.eachInput(args, func(v bson.Value) error { s.add(v); return nil })
		return s.average(), err
	})
}

// sumState is $sum or $avg, which differ in what they make of the total.
type sumState struct {
	summation
	result func(*summation) bson.Value
}

// sumBytes is the size of a sumState.
const sumBytes = 96

func (s *sumState) add(_ *Env, v bson.Value) error {
	s.summation.add(v)
	return nil
}

func (s *sumState) Result() (bson.Value, error) { return s.result(&s.summation), nil }
func (s *sumState) Size() int                   { return sumBytes }

// parseCount parses {$count: {}}, which is {$sum: 1}.
func parseCount(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
	if arg.Type != bson.TypeDocument || !arg.Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "$count takes no arguments, i.e. $count:{}")
	}
	s, err := accumulators["$sum"](p, name, bson.Int32(1))
	if err == nil {
		s.print = func(*AccumulatorSpec) bson.Value { return bson.Document(bson.Empty) }
	}
	return s, err
}
