package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// objectLiteral is {a: <expression>, …}; a field whose expression is
// Missing is left out.
type objectLiteral struct {
	names []string
	exprs []Expr
}

func (p *parser) objectLiteral(d bson.Doc) (Expr, error) {
	o := &objectLiteral{}
	seen := map[string]bool{}
	for it := d.Iter(); it.Next(); {
		if seen[it.Key] {
			return nil, mongoerr.New(mongoerr.Code(16406),
				"duplicate field name specified in object literal: %s", text(bson.Document(d)))
		}
		seen[it.Key] = true
		if err := ValidateFieldName(it.Key); err != nil {
			return nil, err
		}
		e, err := p.operand(it.Value)
		if err != nil {
			return nil, err
		}
		o.names = append(o.names, it.Key)
		o.exprs = append(o.exprs, e)
	}
	return o, nil
}

func (o *objectLiteral) Eval(env *Env) (bson.Value, error) {
	mark, held := env.mark(), env.held
	if err := env.pushAll(o.exprs); err != nil {
		return bson.Value{}, err
	}
	v, err := env.object(o.names, env.since(mark))
	env.release(mark)
	env.held = held
	return v, err
}

func (o *objectLiteral) walk(f func(*Expr)) { walkAll(o.exprs, f) }

func (o *objectLiteral) serialize() bson.Value {
	var b bson.Builder
	for i, e := range o.exprs {
		b.Value(o.names[i], e.serialize())
	}
	return bson.Document(b.Finish())
}

// arrayLiteral is [<expression>, …]; Missing elements become null.
type arrayLiteral struct{ exprs []Expr }

func (p *parser) arrayLiteral(d bson.Doc) (Expr, error) {
	exprs, err := p.elements(d)
	return &arrayLiteral{exprs}, err
}

// elements parses each element of an array.
func (p *parser) elements(d bson.Doc) ([]Expr, error) {
	exprs := []Expr{}
	for v := range d.Values() {
		e, err := p.operand(v)
		if err != nil {
			return nil, err
		}
		exprs = append(exprs, e)
	}
	return exprs, nil
}

func (a *arrayLiteral) Eval(env *Env) (bson.Value, error) {
	mark, held := env.mark(), env.held
	if err := env.pushAll(a.exprs); err != nil {
		return bson.Value{}, err
	}
	env.held = held
	return env.takeArray(mark)
}

// pushAll evaluates the expressions onto the stack and holds their values; if
// it fails it leaves the stack as it was.
func (e *Env) pushAll(exprs []Expr) error {
	mark := e.mark()
	for _, x := range exprs {
		v, err := x.Eval(e)
		if err == nil {
			err = e.hold(v)
		}
		if err != nil {
			e.release(mark)
			return err
		}
	}
	return nil
}

func (a *arrayLiteral) walk(f func(*Expr)) { walkAll(a.exprs, f) }

func (a *arrayLiteral) serialize() bson.Value {
	vs := make([]bson.Value, len(a.exprs))
	for i, e := range a.exprs {
		vs[i] = e.serialize()
	}
	return bson.Array(vs...)
}

// walkAll calls f for the slots that hold an expression.
func walkAll(exprs []Expr, f func(*Expr)) {
	for i := range exprs {
		if exprs[i] != nil {
			f(&exprs[i])
		}
	}
}
