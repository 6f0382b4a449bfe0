package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerJunction("$and", false)
	registerJunction("$or", true)
	registerUnary("$not", func(env *Env, v bson.Value) (bson.Value, error) { return bson.Bool(!v.Truthy()), nil })
}

// junction is $and or $or: it evaluates operands until one decides.
type junction struct {
	name     string
	deciding bool // the truth of an operand that decides
	args     []Expr
}

func registerJunction(name string, deciding bool) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.arguments(arg)
		return &junction{name, deciding, args}, err
	})
}

func (j *junction) Eval(env *Env) (bson.Value, error) {
	for _, a := range j.args {
		v, err := a.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if v.Truthy() == j.deciding {
			return bson.Bool(j.deciding), nil
		}
	}
	return bson.Bool(!j.deciding), nil
}

// reduce drops constants that do not decide; one that does is the result,
// whatever the other operands are.
func (j *junction) reduce(*Env) (Expr, error) {
	kept := j.args[:0:0]
	for _, a := range j.args {
		v, ok := Constant(a)
		if !ok {
			kept = append(kept, a)
		} else if v.Truthy() == j.deciding {
			return &constant{bson.Bool(j.deciding)}, nil
		}
	}
	if len(kept) == 0 {
		return &constant{bson.Bool(!j.deciding)}, nil
	}
	return &junction{j.name, j.deciding, kept}, nil
}

func (j *junction) walk(f func(*Expr))    { walkAll(j.args, f) }
func (j *junction) serialize() bson.Value { return serializeCall(j.name, j.args...) }
