package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxPendingCalls and maxPendingBytes bound the calls of accumulate that are
	// made together: the state stays JavaScript's between them.
	maxPendingCalls = 1000
	maxPendingBytes = 1 << 20
)

func init() { accumulators["$accumulator"] = parseJavaScriptAccumulator }

// customAccumulator is {$accumulator: {init, initArgs, accumulate,
// accumulateArgs, merge, finalize, lang}}.
type customAccumulator struct {
	init, accumulate, merge, finalize *script // finalize may be nil
}

// parseJavaScriptAccumulator parses $accumulator.
func parseJavaScriptAccumulator(p *parser, _ string, arg bson.Value) (*AccumulatorSpec, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(4544703), "$accumulator expects an object as an argument; found: %s", arg.Type)
	}
	a := &customAccumulator{}
	functions := map[string]**script{"init": &a.init, "accumulate": &a.accumulate, "merge": &a.merge, "finalize": &a.finalize}
	var initArgs, args Expr
	for it := arg.Doc().Iter(); it.Next(); {
		var err error
		switch it.Key {
		case "init", "accumulate", "merge", "finalize":
			*functions[it.Key], err = p.constantScript(it.Key, it.Value)
		case "initArgs":
			initArgs, err = p.operand(it.Value)
		case "accumulateArgs":
			args, err = p.operand(it.Value)
		case "lang":
			err = checkLanguage(it.Value)
		default:
			err = mongoerr.New(mongoerr.Code(4544706), "$accumulator got an unexpected field: %s", it.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	for i, name := range []string{"init", "accumulate", "merge"} {
		if f := *functions[name]; f == nil || f.text == "" {
			return nil, mongoerr.New(mongoerr.Code(4544707+i), "$accumulator missing required argument '%s'", name)
		}
	}
	if args == nil {
		return nil, mongoerr.New(mongoerr.Code(4544710), "$accumulator missing required argument 'accumulateArgs'")
	}
	if initArgs == nil {
		initArgs = &constant{bson.Array()}
	}
	return &AccumulatorSpec{Name: "$accumulator", exprs: []Expr{args}, init: initArgs, start: a.start, print: a.print}, nil
}

func checkLanguage(v bson.Value) error {
	switch {
	case v.Type != bson.TypeString:
		return mongoerr.New(mongoerr.Code(4544704), "$accumulator lang must be a string; found: %s", v.Type)
	case v.Str() != "js":
		return mongoerr.New(mongoerr.Code(4544705), "$accumulator only supports lang: 'js'")
	}
	return nil
}

// constantScript reads one of the functions.
func (p *parser) constantScript(name string, v bson.Value) (*script, error) {
	e, err := p.operand(v)
	if err != nil {
		return nil, err
	}
	if e, err = p.optimize(e); err != nil {
		return nil, err
	}
	c, ok := e.(*constant)
	switch {
	case !ok:
		return nil, mongoerr.New(mongoerr.Code(4544701), "$accumulator '%s' must be a constant expression", name)
	case !isText(c.value):
		return nil, mongoerr.New(mongoerr.Code(4544702), "$accumulator '%s' must be a String or Code", name)
	}
	return p.script(c.value.Str()), nil
}

func (a *customAccumulator) print(s *AccumulatorSpec) bson.Value {
	var b bson.Builder
	b.String("init", a.init.text).Value("initArgs", s.init.serialize())
	b.String("accumulate", a.accumulate.text).Value("accumulateArgs", s.exprs[0].serialize()).String("merge", a.merge.text)
	if a.finalize != nil {
		b.String("finalize", a.finalize.text)
	}
	return bson.Document(b.String("lang", "js").Finish())
}

// start calls init for a new group.
func (a *customAccumulator) start(s *AccumulatorSpec, env *Env, args bson.Value) (Accumulator, error) {
	if _, err := a.init.ready(); err != nil {
		return nil, err
	}
	if args.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.Code(4544711), "$accumulator initArgs must evaluate to an array: %s", text(args))
	}
	state, err := a.init.call(env, args.Doc().Slice()...)
	return &customState{a: a, args: s.exprs[0], env: env, state: state}, err
}

// customState is one group of a $accumulator.
type customState struct {
	a       *customAccumulator
	args    Expr
	env     *Env
	state   bson.Value
	begun   bool         // it has documents
	pending []bson.Value // arguments of calls not yet made
	bytes   int
}

func (s *customState) Add(env *Env) error {
	args, err := s.args.Eval(env)
	if err != nil {
		return err
	}
	if args.Type != bson.TypeArray {
		return mongoerr.New(mongoerr.Code(4544712), "$accumulator accumulateArgs must evaluate to an array: %s", text(args))
	}
	s.begun, s.pending = true, append(s.pending, args.Clone())
	s.bytes += len(args.Data)
	if len(s.pending) >= maxPendingCalls || s.bytes >= maxPendingBytes {
		return s.accumulate()
	}
	return nil
}

// accumulate makes the pending calls.
func (s *customState) accumulate() error {
	f, err := s.a.accumulate.ready()
	if err != nil {
		return err
	}
	s.state, err = s.a.accumulate.session.Fold(s.env.Context(), f, s.state, s.pending)
	s.pending, s.bytes = s.pending[:0], 0
	return err
}

func (s *customState) Result() (bson.Value, error) {
	if err := s.accumulate(); err != nil || s.a.finalize == nil {
		return s.state, err
	}
	return s.a.finalize.call(s.env, s.state)
}

func (s *customState) Size() int { return 128 + len(s.state.Data) + s.bytes }

// Save makes the pending calls and appends the state.
func (s *customState) Save(b []byte) ([]byte, error) {
	err := s.accumulate()
	return saveValue(b, s.state), err
}

// Load merges the state with that of the documents so far.
func (s *customState) Load(_ *Env, b []byte) (err error) {
	in := saved(b)
	other := in.value()
	if !s.begun {
		s.begun, s.state = true, other.Clone()
		return nil
	}
	if err = s.accumulate(); err != nil {
		return err
	}
	s.state, err = s.a.merge.call(s.env, s.state, other)
	return err
}
