package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	for _, name := range []string{"$percentile", "$median"} {
		accumulators[name] = parsePercentileAccumulator
		register(name, parsePercentile)
	}
}

// quantiles is the parsed argument of $percentile, or of $median, which is its
// single value for 0.5.
type quantiles struct {
	name  string
	input Expr
	ps    []float64
	given bson.Value // p as given, for explain
}

func (p *parser) quantiles(name string, arg bson.Value) (*quantiles, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(7436200), "specification must be an object; found %s", text(arg))
	}
	params := []string{"input", "method"}
	q := &quantiles{name: name, ps: []float64{0.5}}
	if name == "$percentile" {
		params = []string{"input", "p", "method"}
	}
	for it := arg.Doc().Iter(); it.Next(); {
		switch {
		case it.Key == "input":
			e, err := p.operand(it.Value)
			if err != nil {
				return nil, err
			}
			q.input = e
		case it.Key == "p" && name == "$percentile":
			q.given = it.Value
		case it.Key == "method":
			if it.Value.Type != bson.TypeString {
				return nil, mongoerr.New(mongoerr.TypeMismatch,
					"BSON field '%s.method' is the wrong type '%s', expected type 'string'", name, it.Value.Type)
			}
			if it.Value.Str() != "approximate" {
				return nil, mongoerr.New(mongoerr.BadValue,
					"Currently only 'approximate' can be used as percentile 'method'.")
			}
		default:
			return nil, mongoerr.New(mongoerr.Code(40415), "BSON field '%s.%s' is an unknown field.", name, it.Key)
		}
	}
	for _, param := range params {
		if arg.Doc().Lookup(param).IsMissing() {
			return nil, mongoerr.New(mongoerr.IDLFailedToParse,
				"BSON field '%s.%s' is missing but a required field", name, param)
		}
	}
	if q.given.IsMissing() {
		return q, nil
	}
	return q, q.parsePs(p)
}

// parsePs evaluates p, which must be a constant array of numbers in [0, 1].
func (q *quantiles) parsePs(p *parser) error {
	e, err := p.operand(q.given)
	if err != nil {
		return err
	}
	if err := p.fillIn(&e); err != nil {
		return err
	}
	if e, err = p.optimize(e); err != nil {
		return err
	}
	v, ok := Constant(e)
	if !ok {
		return mongoerr.New(mongoerr.Code(7750300),
			"The $percentile 'p' field must be an array of constant values, but found value: %s.", text(q.given))
	}
	if v.Type != bson.TypeArray || v.Doc().IsEmpty() {
		return mongoerr.New(mongoerr.Code(7750301),
			"The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: %s", text(v))
	}
	q.ps = nil
	for x := range v.Doc().Values() {
		if !x.IsNumber() {
			return mongoerr.New(mongoerr.Code(7750302),
				"The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: %s", text(x))
		}
		f := bson.ToDouble(x)
		if !(f >= 0 && f <= 1) {
			return mongoerr.New(mongoerr.Code(7750303),
				"The $percentile 'p' field must be an array of numbers from [0.0, 1.0], but found: %s", text(x))
		}
		q.ps = append(q.ps, f)
	}
	return nil
}

// fillIn puts the values of the command's variables into an expression that must
// be constant.
func (p *parser) fillIn(e *Expr) (err error) {
	if f, ok := (*e).(*fieldPath); ok {
		if f.free && f.slot < len(p.opts.Values) {
			v, err := f.Eval(&Env{vars: p.opts.Values})
			*e = Const(v)
			return err
		}
		return nil
	}
	(*e).walk(func(sub *Expr) {
		if err == nil {
			err = p.fillIn(sub)
		}
	})
	return err
}

// value is the result for the numbers in d: nulls without any.
func (q *quantiles) value(d *digest) bson.Value {
	vs := make([]bson.Value, len(q.ps))
	for i, p := range q.ps {
		vs[i] = bson.Null
		if d.count > 0 {
			vs[i] = bson.Double(d.quantile(p))
		}
	}
	if q.name == "$median" {
		return vs[0]
	}
	return bson.Array(vs...)
}

func (q *quantiles) argument() bson.Value {
	var b bson.Builder
	b.Value("input", q.input.serialize())
	if q.name == "$percentile" {
		b.Value("p", q.given)
	}
	return bson.Document(b.String("method", "approximate").Finish())
}

// percentile is the expression: of the numbers of an array, or of one number.
type percentile struct{ *quantiles }

func parsePercentile(p *parser, name string, arg bson.Value) (Expr, error) {
	q, err := p.quantiles(name, arg)
	return &percentile{q}, err
}

func (n *percentile) Eval(env *Env) (bson.Value, error) {
	v, err := n.input.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	var d digest
	if v.Type == bson.TypeArray {
		for it := v.Doc().Iter(); it.Next(); {
			d.add(it.Value)
		}
	} else {
		d.add(v)
	}
	return n.value(&d), nil
}

func (n *percentile) walk(f func(*Expr))    { f(&n.input) }
func (n *percentile) serialize() bson.Value { return wrap(n.name, n.argument()) }

// percentileState is the accumulator.
type percentileState struct {
	q *quantiles
	d digest
}

func parsePercentileAccumulator(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
	q, err := p.quantiles(name, arg)
	if err != nil {
		return nil, err
	}
	return &AccumulatorSpec{Name: name, exprs: []Expr{q.input},
		print: func(*AccumulatorSpec) bson.Value { return q.argument() },
		start: func(s *AccumulatorSpec, _ *Env, _ bson.Value) (Accumulator, error) {
			return &gatherer{&percentileState{q: q}, s.exprs[0]}, nil
		}}, nil
}

func (s *percentileState) add(_ *Env, v bson.Value) error {
	s.d.add(v)
	return nil
}

func (s *percentileState) Result() (bson.Value, error) { return s.q.value(&s.d), nil }
func (s *percentileState) Size() int                   { return 64 + s.d.size() }

// Save appends the numbers.
func (s *percentileState) Save(b []byte) ([]byte, error) { return s.d.save(b), nil }

// Load adds those of a state.
func (s *percentileState) Load(_ *Env, b []byte) error {
	s.d.load(b)
	return nil
}
