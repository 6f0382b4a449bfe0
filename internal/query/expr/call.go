package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Most operators are one of the node types here: unaryCall and binaryCall take their
// operands evaluated, naryCall takes them unevaluated, recordCall has named arguments.
// An operator's init function registers it with the function that computes it.

// arguments parses the argument of a positional operator: an array is the list
// of operands, anything else the only one.
func (p *parser) arguments(arg bson.Value) ([]Expr, error) {
	if arg.Type == bson.TypeArray {
		return p.elements(arg.Doc())
	}
	e, err := p.operand(arg)
	return []Expr{e}, err
}

// exactly is arguments for an operator with n operands.
func (p *parser) exactly(name string, arg bson.Value, n int) ([]Expr, error) {
	args, err := p.arguments(arg)
	if err == nil && len(args) != n {
		err = mongoerr.New(mongoerr.Code(16020),
			"Expression %s takes exactly %d arguments. %d were passed in.", name, n, len(args))
	}
	return args, err
}

// between is arguments for an operator with min to max operands.
func (p *parser) between(name string, arg bson.Value, min, max int) ([]Expr, error) {
	args, err := p.arguments(arg)
	if err == nil && (len(args) < min || len(args) > max) {
		err = mongoerr.New(mongoerr.Code(28667),
			"Expression %s takes at least %d arguments, and at most %d, but %d were passed in.", name, min, max, len(args))
	}
	return args, err
}

// unaryCall is an operator of one operand.
type unaryCall struct {
	name string
	fn   func(env *Env, v bson.Value) (bson.Value, error)
	arg  Expr
}

func registerUnary(name string, fn func(env *Env, v bson.Value) (bson.Value, error)) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.exactly(name, arg, 1)
		if err != nil {
			return nil, err
		}
		return &unaryCall{name, fn, args[0]}, nil
	})
}

func (u *unaryCall) Eval(env *Env) (bson.Value, error) {
	v, err := u.arg.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	return u.fn(env, v)
}

func (u *unaryCall) walk(f func(*Expr))    { f(&u.arg) }
func (u *unaryCall) serialize() bson.Value { return serializeCall(u.name, u.arg) }

// binaryCall is an operator of two operands, evaluated from left to right.
type binaryCall struct {
	name string
	fn   func(env *Env, a, b bson.Value) (bson.Value, error)
	a, b Expr
}

func registerBinary(name string, fn func(env *Env, a, b bson.Value) (bson.Value, error)) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.exactly(name, arg, 2)
		if err != nil {
			return nil, err
		}
		return &binaryCall{name, fn, args[0], args[1]}, nil
	})
}

func (n *binaryCall) Eval(env *Env) (bson.Value, error) {
	a, err := n.a.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	b, err := n.b.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	return n.fn(env, a, b)
}

func (n *binaryCall) walk(f func(*Expr)) {
	f(&n.a)
	f(&n.b)
}

func (n *binaryCall) serialize() bson.Value { return serializeCall(n.name, n.a, n.b) }

// naryCall is an operator that evaluates its operands itself.
type naryCall struct {
	name string
	fn   func(env *Env, args []Expr) (bson.Value, error)
	args []Expr
}

// anyNumber as the max of registerNary is an operator without an upper bound.
const anyNumber = -1

// registerNary registers an operator of min to max operands; if both are the
// same, the error for another number is that of a fixed arity.
func registerNary(name string, min, max int, fn func(env *Env, args []Expr) (bson.Value, error)) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		var args []Expr
		var err error
		switch {
		case max == anyNumber:
			args, err = p.arguments(arg)
		case min == max:
			args, err = p.exactly(name, arg, min)
		default:
			args, err = p.between(name, arg, min, max)
		}
		if err != nil {
			return nil, err
		}
		return &naryCall{name, fn, args}, nil
	})
}

func (n *naryCall) Eval(env *Env) (bson.Value, error) { return n.fn(env, n.args) }
func (n *naryCall) walk(f func(*Expr))                { walkAll(n.args, f) }
func (n *naryCall) serialize() bson.Value             { return serializeCall(n.name, n.args...) }

// recordCall is an operator with named arguments: {$op: {input: …, …}}.
type recordCall struct {
	name   string
	params []string
	fn     func(env *Env, args []Expr) (bson.Value, error)
	args   []Expr // by params; nil if absent
}

// checkedCall is a recordCall whose constant arguments are checked before there
// is a document.
type checkedCall struct {
	recordCall
	check func(env *Env, args []Expr) error
}

func (c *checkedCall) checkConstants(env *Env) error { return c.check(env, c.args) }

func (r *recordCall) Eval(env *Env) (bson.Value, error) { return r.fn(env, r.args) }
func (r *recordCall) walk(f func(*Expr))                { walkAll(r.args, f) }

func (r *recordCall) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc(r.name)
	for i, a := range r.args {
		if a != nil {
			b.Value(r.params[i], a.serialize())
		}
	}
	return bson.Document(b.Close().Finish())
}

// named parses each field of a record's argument into the slot of its name;
// absent ones stay nil. unknown makes the error for any other name.
func (p *parser) named(d bson.Doc, params []string, unknown func(name string) error) ([]Expr, error) {
	args := make([]Expr, len(params))
fields:
	for it := d.Iter(); it.Next(); {
		for i, name := range params {
			if it.Key == name {
				e, err := p.operand(it.Value)
				if err != nil {
					return nil, err
				}
				args[i] = e
				continue fields
			}
		}
		return nil, unknown(it.Key)
	}
	return args, nil
}

// evalOr evaluates an optional argument; if it is absent, the result is otherwise.
func evalOr(env *Env, e Expr, otherwise bson.Value) (bson.Value, error) {
	if e == nil {
		return otherwise, nil
	}
	return e.Eval(env)
}
