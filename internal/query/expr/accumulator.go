package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Accumulator gathers the documents of one group into one value.
type Accumulator interface {
	// Add adds the current document of env.
	Add(env *Env) error
	// Result returns the value of the documents added so far.
	Result() (bson.Value, error)
	// Size is an estimate of the bytes held.
	Size() int
}

// AccumulatorSpec is a parsed accumulator of a $group: {$sum: "$a"}.
type AccumulatorSpec struct {
	// Name is the accumulator's name, "$sum".
	Name string

	exprs []Expr // evaluated for each document
	init  Expr   // evaluated once for each group, or nil
	start func(s *AccumulatorSpec, env *Env, init bson.Value) (Accumulator, error)
	print func(s *AccumulatorSpec) bson.Value // nil: the only expression
}

// New makes the Accumulator of one group. group is the group's _id, to whose fields the
// `n` of $firstN and the like may refer.
func (s *AccumulatorSpec) New(env *Env, group bson.Value) (Accumulator, error) {
	var init bson.Value
	if s.init != nil {
		root := env.root
		env.root = bson.Empty
		if group.Type == bson.TypeDocument {
			env.root = group.Doc()
		}
		var err error
		init, err = s.init.Eval(env)
		env.root = root
		if err != nil {
			return nil, err
		}
	}
	return s.start(s, env, init)
}

// Exprs returns the expressions evaluated for each document, for dependency
// analysis.
func (s *AccumulatorSpec) Exprs() []Expr { return s.exprs }

// Serialize returns the accumulator as explain prints it: {$sum: "$a"}.
func (s *AccumulatorSpec) Serialize() bson.Value {
	if s.print != nil {
		return wrap(s.Name, s.print(s))
	}
	return wrap(s.Name, s.exprs[0].serialize())
}

// accumulatorParser parses the argument of one accumulator.
type accumulatorParser func(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error)

// accumulators is the registry, filled by the init functions of
// accumulator_*.go.
var accumulators = map[string]accumulatorParser{}

// IsAccumulator reports whether name ("$sum") is an accumulator of $group.
func IsAccumulator(name string) bool {
	_, ok := accumulators[name]
	return ok
}

// ParseAccumulator parses {name: arg}.
func ParseAccumulator(name string, arg bson.Value, opts *Options) (*AccumulatorSpec, error) {
	if arg.Type == bson.TypeArray {
		return nil, mongoerr.New(mongoerr.Code(40237), "The %s accumulator is a unary operator", name)
	}
	parse, ok := accumulators[name]
	if !ok {
		return nil, mongoerr.New(mongoerr.Code(15952), "unknown group operator '%s'", name)
	}
	p := newParser(opts)
	s, err := parse(p, name, arg)
	if err != nil {
		return nil, err
	}
	for i := range s.exprs {
		if s.exprs[i], err = p.reduced(s.exprs[i]); err != nil {
			return nil, err
		}
	}
	if s.init != nil {
		if s.init, err = p.reduced(s.init); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// state is what an accumulator of one expression gathers.
type state interface {
	add(env *Env, v bson.Value) error
	Result() (bson.Value, error)
	Size() int
}

// gatherer is the Accumulator of one expression.
type gatherer struct {
	state
	arg Expr
}

func (g *gatherer) Add(env *Env) error {
	v, err := g.arg.Eval(env)
	if err != nil {
		return err
	}
	return g.add(env, v)
}

// compact is a gatherer in one piece of memory with its state: groups are many.
type compact[S any, P statePointer[S]] struct {
	arg   Expr
	state S
}

type statePointer[S any] interface {
	*S
	state
	Saver
}

// Add adds the current document of env.
func (c *compact[S, P]) Add(env *Env) error {
	v, err := c.arg.Eval(env)
	if err != nil {
		return err
	}
	return P(&c.state).add(env, v)
}

func (c *compact[S, P]) Result() (bson.Value, error)         { return P(&c.state).Result() }
func (c *compact[S, P]) Size() int                           { return P(&c.state).Size() }
func (c *compact[S, P]) Save(b []byte) ([]byte, error)       { return P(&c.state).Save(b) }
func (c *compact[S, P]) Load(env *Env, b []byte) (err error) { return P(&c.state).Load(env, b) }

func (g *gatherer) inner() state      { return g.state }
func (c *compact[S, P]) inner() state { return P(&c.state) }

// registerGatherer registers an accumulator of one expression, which starts
// with a state.
func registerGatherer[S any, P statePointer[S]](name string, begin S) {
	accumulators[name] = func(p *parser, name string, arg bson.Value) (*AccumulatorSpec, error) {
		e, err := p.operand(arg)
		if err != nil {
			return nil, err
		}
		return &AccumulatorSpec{Name: name, exprs: []Expr{e},
			start: func(s *AccumulatorSpec, _ *Env, _ bson.Value) (Accumulator, error) {
				return &compact[S, P]{arg: s.exprs[0], state: begin}, nil
			}}, nil
	}
}
