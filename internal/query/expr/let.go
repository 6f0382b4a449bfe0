package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$let", parseLet) }

// let evaluates body with variables bound.
type let struct {
	names  []string
	slots  []int
	values []Expr
	body   Expr
}

func parseLet(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(16874), "$let only supports an object as its argument")
	}
	var vars, in bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "vars":
			vars = it.Value
		case "in":
			in = it.Value
		default:
			return nil, mongoerr.New(mongoerr.Code(16875), "Unrecognized parameter to $let: %s", it.Key)
		}
	}
	if vars.IsMissing() {
		return nil, mongoerr.New(mongoerr.Code(16876), "Missing 'vars' parameter to $let")
	}
	if in.IsMissing() {
		return nil, mongoerr.New(mongoerr.Code(16877), "Missing 'in' parameter to $let")
	}
	if vars.Type != bson.TypeDocument && vars.Type != bson.TypeArray {
		return nil, notAnObject("vars")
	}
	l := &let{}
	for it := vars.Doc().Iter(); it.Next(); {
		if err := ValidateVarName(it.Key); err != nil {
			return nil, err
		}
		e, err := p.operand(it.Value)
		if err != nil {
			return nil, err
		}
		l.names = append(l.names, it.Key)
		l.values = append(l.values, e)
	}
	err := p.within(l.names, func(slots []int) (err error) {
		l.slots = slots
		l.body, err = p.operand(in)
		return err
	})
	return l, err
}

func (l *let) Eval(env *Env) (bson.Value, error) {
	mark, held := env.mark(), env.held
	if err := env.pushAll(l.values); err != nil {
		return bson.Value{}, err
	}
	for i, v := range env.since(mark) {
		env.SetVar(l.slots[i], v)
	}
	env.release(mark)
	v, err := l.body.Eval(env)
	env.held = held
	return v, err
}

func (l *let) walk(f func(*Expr)) {
	walkAll(l.values, f)
	f(&l.body)
}

func (l *let) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$let").OpenDoc("vars")
	for i, n := range l.names {
		b.Value(n, l.values[i].serialize())
	}
	return bson.Document(b.Close().Value("in", l.body.serialize()).Close().Finish())
}

// notAnObject is the error for an element that must be an object.
func notAnObject(name string) error {
	return mongoerr.New(mongoerr.Code(10065), "invalid parameter: expected an object (%s)", name)
}
