package expr

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

func init() {
	windowFunctions["$documentNumber"] = parseRank
	windowFunctions["$rank"] = parseRank
	windowFunctions["$denseRank"] = parseRank
	windowFunctions["$expMovingAvg"] = parseMovingAverage
	windowFunctions["$locf"] = parseCarry
}

// parseRank parses {$rank: {}} and its like.
func parseRank(_ *parser, name string, arg bson.Value, by WindowOrder) (*WindowSpec, error) {
	if by.Path == "" {
		return nil, mongoerr.New(5371602, "%s must be specified with a top level sortBy expression with exactly one element", name)
	}
	if arg.Type != bson.TypeDocument || !arg.Doc().IsEmpty() {
		return nil, mongoerr.New(5371603, "%s must be specified with '{}' as the value", name)
	}
	pattern, err := sortkey.Parse(by.Spec)
	if err != nil {
		return nil, err
	}
	w := &WindowSpec{Name: name, Frame: FrameRunning, exprs: patternPaths(pattern)}
	w.print = func() bson.Value { return bson.Document(bson.Empty) }
	w.grow = func(env *Env) (Accumulator, error) {
		r := &rank{name: name}
		if name != "$documentNumber" {
			r.keys = sortkey.NewGenerator(pattern, env.Collator, env.Meta)
		}
		return r, nil
	}
	return w, nil
}

// rank numbers the documents of a partition.
type rank struct {
	name      string
	keys      *sortkey.Generator // nil: documents are never equal
	key, last []byte
	documents int64
	number    int64 // of the current document
}

func (r *rank) Add(env *Env) (err error) {
	r.documents++
	if r.keys == nil {
		r.number++
		return nil
	}
	if r.key, err = r.keys.Append(r.key[:0], env.root); err != nil {
		return err
	}
	if r.documents > 1 && bytes.Equal(r.key, r.last) {
		return nil
	}
	r.last, r.key = r.key, r.last
	r.number++
	if r.name == "$rank" {
		r.number = r.documents
	}
	return nil
}

func (r *rank) Result() (bson.Value, error) { return bson.Int(r.number), nil }
func (r *rank) Size() int                   { return 128 + cap(r.key) + cap(r.last) }

// parseCarry parses {$locf: expression}.
func parseCarry(p *parser, name string, arg bson.Value, _ WindowOrder) (*WindowSpec, error) {
	e, err := p.operand(arg)
	if err != nil {
		return nil, err
	}
	w := &WindowSpec{Name: name, Frame: FrameRunning, exprs: []Expr{e}}
	w.print = func() bson.Value { return w.exprs[0].serialize() }
	w.grow = func(*Env) (Accumulator, error) { return &gatherer{&carry{}, w.exprs[0]}, nil }
	return w, nil
}

// carry is the last value that is not null or missing.
type carry struct{ lastState }

func (c *carry) add(env *Env, v bson.Value) error {
	if v.IsNullish() {
		return nil
	}
	return c.lastState.add(env, v)
}

// parseMovingAverage parses {$expMovingAvg: {input, N or alpha}}.
func parseMovingAverage(p *parser, name string, arg bson.Value, by WindowOrder) (*WindowSpec, error) {
	if by.Spec == nil {
		return nil, failedToParse("%s requires an explicit 'sortBy'", name)
	}
	if arg.Type != bson.TypeDocument {
		return nil, failedToParse("%s must have exactly one argument that is an object", name)
	}
	var input Expr
	var n, alpha bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "input":
			var err error
			if input, err = p.operand(it.Value); err != nil {
				return nil, err
			}
		case "N":
			n = it.Value
		case "alpha":
			alpha = it.Value
		default:
			return nil, failedToParse("Got unrecognized field in %s: %s", name, it.Key)
		}
	}
	if input == nil || n.IsMissing() == alpha.IsMissing() {
		return nil, failedToParse("%s sub object must have exactly two fields: An 'input' field, and either an 'N' field or an 'alpha' field", name)
	}
	w := &WindowSpec{Name: name, Frame: FrameRunning, exprs: []Expr{input}}
	weight, err := movingWeight(n, alpha)
	if err != nil {
		return nil, err
	}
	w.print = func() bson.Value {
		return bson.Document(new(bson.Builder).Value("input", w.exprs[0].serialize()).Value("N", n).Value("alpha", alpha).Finish())
	}
	w.grow = func(*Env) (Accumulator, error) {
		return &gatherer{&movingAverage{alpha: weight}, w.exprs[0]}, nil
	}
	return w, nil
}

// movingWeight is the weight of the newest value: alpha, or 2/(n+1).
func movingWeight(n, alpha bson.Value) (bson.Value, error) {
	if !n.IsMissing() {
		count, ok := bson.ExactInt64(n)
		if !ok {
			return n, failedToParse("'N' field must be an integer, but found type %s", n.Type)
		}
		if count <= 0 {
			return n, failedToParse("'N' must be greater than zero. Got %d", count)
		}
		return bson.Decimal(bson.DecimalFromInt64(2).Divide(bson.DecimalFromInt64(count + 1))), nil
	}
	if !alpha.IsNumber() {
		return alpha, failedToParse("'alpha' must be a number, but found type %s", alpha.Type)
	}
	if f := bson.ToDouble(alpha); !(f > 0 && f < 1) {
		return alpha, failedToParse("'alpha' must be between 0 and 1 (exclusive), found alpha: %s", text(alpha))
	}
	return bson.Decimal(bson.ToDecimal(alpha)), nil
}

// movingAverage weighs each number with alpha and what came before it with
// 1 - alpha. It is computed in decimals; the result is a double until a decimal comes.
type movingAverage struct {
	alpha    bson.Value // decimal
	average  bson.Decimal128
	started  bool
	decimals bool
}

func (m *movingAverage) add(_ *Env, v bson.Value) error {
	if !v.IsNumber() {
		return nil
	}
	m.decimals = m.decimals || v.Type == bson.TypeDecimal
	x := bson.ToDecimal(v)
	if !m.started {
		m.started, m.average = true, x
		return nil
	}
	alpha := m.alpha.Decimal()
	rest := bson.DecimalFromInt64(1).Subtract(alpha)
	m.average = x.Multiply(alpha).Add(m.average.Multiply(rest))
	return nil
}

func (m *movingAverage) Result() (bson.Value, error) {
	switch {
	case !m.started:
		return bson.Null, nil
	case m.decimals:
		return bson.Decimal(m.average), nil
	}
	return bson.Double(m.average.Double()), nil
}

func (m *movingAverage) Size() int { return 96 }
