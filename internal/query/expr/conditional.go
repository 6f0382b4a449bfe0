package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$cond", parseCond)
	register("$ifNull", parseIfNull)
}

// cond evaluates one of two branches.
type cond struct{ test, then, otherwise Expr }

func parseCond(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		args, err := p.exactly(name, arg, 3)
		if err != nil {
			return nil, err
		}
		return &cond{args[0], args[1], args[2]}, nil
	}
	params := []string{"if", "then", "else"}
	args, err := p.named(arg.Doc(), params, func(field string) error {
		return mongoerr.New(mongoerr.Code(17083), "Unrecognized parameter to $cond: %s", field)
	})
	if err != nil {
		return nil, err
	}
	for i, a := range args {
		if a == nil {
			return nil, mongoerr.New(mongoerr.Code(17080+i), "Missing '%s' parameter to $cond", params[i])
		}
	}
	return &cond{args[0], args[1], args[2]}, nil
}

func (c *cond) Eval(env *Env) (bson.Value, error) {
	v, err := c.test.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if v.Truthy() {
		return c.then.Eval(env)
	}
	return c.otherwise.Eval(env)
}

func (c *cond) walk(f func(*Expr)) {
	f(&c.test)
	f(&c.then)
	f(&c.otherwise)
}

func (c *cond) serialize() bson.Value { return serializeCall("$cond", c.test, c.then, c.otherwise) }

// ifNull returns the first operand that is not null, undefined or missing, or
// else the last operand.
type ifNull struct{ args []Expr }

func parseIfNull(p *parser, name string, arg bson.Value) (Expr, error) {
	args, err := p.arguments(arg)
	if err != nil {
		return nil, err
	}
	if len(args) < 2 {
		return nil, mongoerr.New(mongoerr.Code(1257300), "$ifNull needs at least two arguments, had: %d", len(args))
	}
	return &ifNull{args}, nil
}

func (n *ifNull) Eval(env *Env) (v bson.Value, err error) {
	for _, a := range n.args {
		if v, err = a.Eval(env); err != nil || !v.IsNullish() {
			return v, err
		}
	}
	return v, nil
}

// reduce drops constant nulls, and what follows a constant that is not null.
func (n *ifNull) reduce(*Env) (Expr, error) {
	var kept []Expr
	for i, a := range n.args {
		v, ok := Constant(a)
		if ok && v.IsNullish() && i < len(n.args)-1 {
			continue
		}
		kept = append(kept, a)
		if ok {
			break
		}
	}
	if len(kept) == 1 {
		return kept[0], nil
	}
	return &ifNull{kept}, nil
}

func (n *ifNull) walk(f func(*Expr))    { walkAll(n.args, f) }
func (n *ifNull) serialize() bson.Value { return serializeCall("$ifNull", n.args...) }
