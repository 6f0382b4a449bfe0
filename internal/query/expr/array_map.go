package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	register("$map", parseMap)
	register("$filter", parseFilter)
	register("$reduce", parseReduce)
}

// iteration is $map, $filter or $reduce: a body evaluated for each element of
// an array, with a variable bound to the element.
type iteration struct {
	name  string
	as    string // the variable; "" if none was given
	slot  int
	input Expr
	body  Expr
	extra Expr // $filter's limit (may be nil), $reduce's initialValue
	eval  func(n *iteration, env *Env, array bson.Doc) (bson.Value, error)
	print [3]string // the names of input, body and extra
}

// iterationErrors are the codes of what is wrong with an iteration's argument.
type iterationErrors struct {
	notObject, unknown, missingInput, missingBody, missingExtra mongoerr.Code
}

// parse fills n from the fields of arg. vars are the variables bound in the
// body; as says whether the first may be renamed, needExtra whether extra is
// required.
func (n *iteration) parse(p *parser, arg bson.Value, codes iterationErrors, as, needExtra bool, vars ...string) error {
	if arg.Type != bson.TypeDocument {
		return mongoerr.New(codes.notObject, "%s only supports an object as its argument", n.name)
	}
	var input, body, extra bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		switch {
		case it.Key == n.print[0]:
			input = it.Value
		case it.Key == n.print[1]:
			body = it.Value
		case it.Key == n.print[2]:
			extra = it.Value
		case as && it.Key == "as":
			n.as = ""
			if it.Value.Type == bson.TypeString {
				n.as = it.Value.Str()
			}
			if err := ValidateVarName(n.as); err != nil {
				return err
			}
			vars[0] = n.as
		default:
			return mongoerr.New(codes.unknown, "Unrecognized parameter to %s: %s", n.name, it.Key)
		}
	}
	for i, m := range []struct {
		v    bson.Value
		code mongoerr.Code
	}{{input, codes.missingInput}, {body, codes.missingBody}, {extra, codes.missingExtra}} {
		if m.v.IsMissing() && (i < 2 || needExtra) {
			return mongoerr.New(m.code, "Missing '%s' parameter to %s", n.print[i], n.name)
		}
	}
	var err error
	if n.input, err = p.operand(input); err != nil {
		return err
	}
	if !extra.IsMissing() {
		if n.extra, err = p.operand(extra); err != nil {
			return err
		}
	}
	return p.within(vars, func(slots []int) (err error) {
		n.slot = slots[0]
		n.body, err = p.operand(body)
		return err
	})
}

func (n *iteration) Eval(env *Env) (bson.Value, error) {
	input, err := n.input.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if input.IsNullish() {
		return bson.Null, nil
	}
	if input.Type != bson.TypeArray {
		switch n.name {
		case "$map":
			return bson.Value{}, mongoerr.New(mongoerr.Code(16883), "input to $map must be an array not %s", input.Type)
		case "$filter":
			return bson.Value{}, mongoerr.New(mongoerr.Code(28651), "input to $filter must be an array not %s", input.Type)
		}
		return bson.Value{}, mongoerr.New(mongoerr.Code(40080),
			"$reduce requires that 'input' be an array, found: %s", text(input))
	}
	mark := env.mark()
	v, err := n.eval(n, env, input.Doc())
	env.release(mark)
	return v, err
}

func (n *iteration) walk(f func(*Expr)) {
	f(&n.input)
	f(&n.body)
	if n.extra != nil {
		f(&n.extra)
	}
}

func (n *iteration) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc(n.name).Value(n.print[0], n.input.serialize())
	if n.as != "" {
		b.String("as", n.as)
	}
	b.Value(n.print[1], n.body.serialize())
	if n.extra != nil {
		b.Value(n.print[2], n.extra.serialize())
	}
	return bson.Document(b.Close().Finish())
}

func parseMap(p *parser, name string, arg bson.Value) (Expr, error) {
	n := &iteration{name: name, print: [3]string{"input", "in", ""}, eval: evalMap}
	return n, n.parse(p, arg, iterationErrors{16878, 16879, 16880, 16882, 0}, true, false, "this")
}

func evalMap(n *iteration, env *Env, array bson.Doc) (bson.Value, error) {
	mark, held := env.mark(), env.held
	for it := array.Iter(); it.Next(); {
		env.SetVar(n.slot, it.Value)
		v, err := n.body.Eval(env)
		if err == nil {
			err = env.hold(v)
		}
		if err == nil {
			err = env.Tick()
		}
		if err != nil {
			return bson.Value{}, err
		}
	}
	env.held = held
	return env.takeArray(mark)
}

func parseFilter(p *parser, name string, arg bson.Value) (Expr, error) {
	n := &iteration{name: name, print: [3]string{"input", "cond", "limit"}, eval: evalFilter}
	return n, n.parse(p, arg, iterationErrors{28646, 28647, 28648, 28650, 0}, true, false, "this")
}

func evalFilter(n *iteration, env *Env, array bson.Doc) (bson.Value, error) {
	limit := -1
	if n.extra != nil {
		v, err := n.extra.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if !v.IsNullish() {
			i, ok := bson.ExactInt32(v)
			if !ok {
				return bson.Value{}, mongoerr.New(mongoerr.Code(327391),
					"$filter: limit must be represented as a 32-bit integral value: %s", text(v))
			}
			if i <= 0 {
				return bson.Value{}, mongoerr.New(mongoerr.Code(327392), "$filter: limit must be greater than 0: %d", i)
			}
			limit = int(i)
		}
	}
	mark := env.mark()
	for it := array.Iter(); it.Next() && limit != 0; {
		env.SetVar(n.slot, it.Value)
		v, err := n.body.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if v.Truthy() {
			env.push(it.Value)
			limit--
		}
		if err := env.Tick(); err != nil {
			return bson.Value{}, err
		}
	}
	return env.takeArray(mark)
}

func parseReduce(p *parser, name string, arg bson.Value) (Expr, error) {
	n := &iteration{name: name, print: [3]string{"input", "in", "initialValue"}, eval: evalReduce}
	return n, n.parse(p, arg, iterationErrors{40075, 40076, 40077, 40079, 40078}, false, true, "this", "value")
}

func evalReduce(n *iteration, env *Env, array bson.Doc) (bson.Value, error) {
	value, err := n.extra.Eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	for it := array.Iter(); it.Next(); {
		env.SetVar(n.slot, it.Value)
		env.SetVar(n.slot+1, value)
		if value, err = n.body.Eval(env); err != nil {
			return bson.Value{}, err
		}
		if len(value.Data) > maxValueBytes {
			return bson.Value{}, tooLarge("value of $reduce")
		}
		if err := env.Tick(); err != nil {
			return bson.Value{}, err
		}
	}
	return value, nil
}
