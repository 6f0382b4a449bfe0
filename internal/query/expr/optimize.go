package expr

import "github.com/mayflydb/mayfly/internal/bson"

// folder is a node that reduces itself once its operands are reduced, instead
// of becoming a constant exactly when they all are.
type folder interface {
	reduce(env *Env) (Expr, error)
}

// optimizer is a node that decides which of its operands are optimized.
type optimizer interface {
	optimizeSelf(p *parser) (Expr, error)
}

// reduced is a whole expression optimized as the options say. One that fails is
// left unchanged if failures are gathered.
func (p *parser) reduced(e Expr) (Expr, error) {
	if p.opts.Late {
		return e, nil
	}
	out, err := p.optimize(e)
	if err != nil && p.opts.Faults != nil {
		p.opts.Faults.Add(err)
		return e, nil
	}
	return out, err
}

// optimize replaces each subexpression whose operands are constant by its
// value, operands first.
func (p *parser) optimize(e Expr) (Expr, error) {
	if o, ok := e.(optimizer); ok {
		return o.optimizeSelf(p)
	}
	constants := true
	var err error
	e.walk(func(operand *Expr) {
		if err != nil {
			return
		}
		var out Expr
		if out, err = p.optimize(*operand); err == nil {
			*operand = out
			_, ok := out.(*constant)
			constants = constants && ok
		}
	})
	if err != nil {
		return nil, err
	}
	switch n := e.(type) {
	case folder:
		return n.reduce(p.fold)
	case *constant, *fieldPath:
		return e, nil
	}
	if !constants {
		if c, ok := e.(*checkedCall); ok {
			return e, c.checkConstants(p.fold)
		}
		return e, nil
	}
	v, err := e.Eval(p.fold)
	if err != nil {
		return nil, err
	}
	return &constant{v.Clone()}, nil
}

// text is a value as the server's messages print it.
func text(v bson.Value) string { return v.String() }
