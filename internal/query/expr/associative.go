package expr

import "github.com/mayflydb/mayfly/internal/bson"

// associative is a naryCall whose operands may be grouped: neighbouring
// constants become one, and the operands of an operand that is the same
// operator become its own. Where the operator commutes too, constants go to the
// end; this order is visible, since it decides which of two bad operands is
// reported.
type associative struct {
	naryCall
	commutes bool
}

// registerAssociative registers an operator of any number of operands.
func registerAssociative(name string, commutes bool, fn func(env *Env, args []Expr) (bson.Value, error)) {
	register(name, func(p *parser, name string, arg bson.Value) (Expr, error) {
		args, err := p.arguments(arg)
		return &associative{naryCall{name, fn, args}, commutes}, err
	})
}

func (a *associative) reduce(env *Env) (Expr, error) {
	var args, constants []Expr
	flush := func() error {
		if len(constants) > 1 {
			v, err := a.fn(env, constants)
			if err != nil {
				return err
			}
			constants = []Expr{&constant{v.Clone()}}
		}
		args = append(args, constants...)
		constants = nil
		return nil
	}
	for _, arg := range a.flattened() {
		if _, ok := arg.(*constant); ok {
			constants = append(constants, arg)
			continue
		}
		if !a.commutes {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		args = append(args, arg)
	}
	if len(args) > 0 {
		if err := flush(); err != nil {
			return nil, err
		}
		return &associative{naryCall{a.name, a.fn, args}, a.commutes}, nil
	}
	v, err := a.fn(env, constants)
	if err != nil {
		return nil, err
	}
	return &constant{v.Clone()}, nil
}

func (a *associative) flattened() []Expr {
	var args []Expr
	for _, arg := range a.args {
		if same, ok := arg.(*associative); ok && same.name == a.name {
			args = append(args, same.args...)
			continue
		}
		args = append(args, arg)
	}
	return args
}
