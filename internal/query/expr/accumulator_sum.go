package expr

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerSum("$sum", (*summation).sum)
	registerSum("$avg", (*summation).average)
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

// sumState is $sum or $avg, which differ in what they make of the total. It is
// its own gatherer: groups are many.
type sumState struct {
	summation
	arg    Expr
	result func(*summation) bson.Value
}

func registerSum(name string, result func(*summation) bson.Value) {
	start := func(s *AccumulatorSpec, _ *Env, _ bson.Value) (Accumulator, error) {
		return &sumState{arg: s.exprs[0], result: result}, nil
	}
	accumulators[name] = func(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
		e, err := p.operand(arg)
		return &AccumulatorSpec{Name: name, exprs: []Expr{e}, start: start}, err
	}
}

// sumBytes is the size of a sumState.
const sumBytes = 96

// Add adds the current document of env.
func (s *sumState) Add(env *Env) error {
	v, err := s.arg.Eval(env)
	if err == nil {
		s.add(v)
	}
	return err
}

// Result is the sum or the average.
func (s *sumState) Result() (bson.Value, error) { return s.result(&s.summation), nil }

// Size is an estimate of the bytes held.
func (s *sumState) Size() int { return sumBytes }

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

// Save appends the total.
func (s *sumState) Save(b []byte) ([]byte, error) {
	b = saveFloat(saveFloat(saveFloat(b, s.total.hi), s.total.lo), s.special)
	b = append(b, byte(s.widest))
	b = binary.AppendUvarint(b, uint64(s.count))
	if s.decimals {
		b = saveValue(b, bson.Decimal(s.decimal))
	}
	return b, nil
}

// Load adds it.
func (s *sumState) Load(_ *Env, b []byte) error {
	in := saved(b)
	hi, lo, special := in.float(), in.float(), in.float()
	widest := bson.Type(in[0])
	in = in[1:]
	s.join(&summation{total: twofold{hi, lo}, special: special, widest: widest, count: int64(in.int())})
	if len(in) > 0 {
		s.addDecimal(in.value().Decimal())
	}
	return nil
}
