package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() { register("$zip", parseZip) }

// zip makes one array of n-element arrays out of n arrays.
type zip struct {
	inputs, defaults []Expr
	longest          bool
}

func parseZip(p *parser, name string, arg bson.Value) (Expr, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.Code(34460), "$zip only supports an object as an argument, found %s", arg.Type)
	}
	z := &zip{}
	var err error
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "inputs":
			if it.Value.Type != bson.TypeArray {
				return nil, mongoerr.New(mongoerr.Code(34461), "inputs must be an array of expressions, found %s", it.Value.Type)
			}
			z.inputs, err = p.elements(it.Value.Doc())
		case "defaults":
			if it.Value.Type != bson.TypeArray {
				return nil, mongoerr.New(mongoerr.Code(34462), "defaults must be an array of expressions, found %s", it.Value.Type)
			}
			z.defaults, err = p.elements(it.Value.Doc())
		case "useLongestLength":
			if it.Value.Type != bson.TypeBool {
				return nil, mongoerr.New(mongoerr.Code(34463), "useLongestLength must be a bool, found %s", it.Value.Type)
			}
			z.longest = it.Value.Bool()
		default:
			return nil, mongoerr.New(mongoerr.Code(34464), "$zip found an unknown argument: %s", it.Key)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case len(z.inputs) == 0:
		return nil, mongoerr.New(mongoerr.Code(34465), "$zip requires at least one input array")
	case len(z.defaults) > 0 && !z.longest:
		return nil, mongoerr.New(mongoerr.Code(34466), "cannot specify defaults unless useLongestLength is true")
	case len(z.defaults) > 0 && len(z.defaults) != len(z.inputs):
		return nil, mongoerr.New(mongoerr.Code(34467), "defaults and inputs must have the same length")
	}
	return z, nil
}

func (z *zip) Eval(env *Env) (bson.Value, error) {
	iters := make([]bson.Iter, len(z.inputs))
	rows := -1
	for i, e := range z.inputs {
		v, err := e.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if v.IsNullish() {
			return bson.Null, nil
		}
		if v.Type != bson.TypeArray {
			return bson.Value{}, mongoerr.New(mongoerr.Code(34468), "$zip found a non-array expression in input: %s", text(v))
		}
		iters[i] = *v.Doc().Iter()
		if n := v.Doc().Len(); rows < 0 || z.longest && n > rows || !z.longest && n < rows {
			rows = n
		}
	}
	defaults := make([]bson.Value, len(z.inputs))
	for i := range defaults {
		defaults[i] = bson.Null
		if len(z.defaults) > 0 {
			v, err := z.defaults[i].Eval(env)
			if err != nil {
				return bson.Value{}, err
			}
			defaults[i] = v
		}
	}
	mark, held := env.mark(), env.held
	row := make([]bson.Value, len(iters))
	for range rows {
		for i := range iters {
			row[i] = defaults[i]
			if iters[i].Next() {
				row[i] = iters[i].Value
			}
		}
		v, err := env.array(row)
		if err == nil {
			err = env.hold(v)
		}
		if err == nil {
			err = env.Tick()
		}
		if err != nil {
			env.release(mark)
			return bson.Value{}, err
		}
	}
	env.held = held
	return env.takeArray(mark)
}

func (z *zip) walk(f func(*Expr)) {
	walkAll(z.inputs, f)
	walkAll(z.defaults, f)
}

func (z *zip) serialize() bson.Value {
	var b bson.Builder
	b.OpenDoc("$zip").Value("inputs", (&arrayLiteral{z.inputs}).serialize())
	if len(z.defaults) > 0 {
		b.Value("defaults", (&arrayLiteral{z.defaults}).serialize())
	}
	return bson.Document(b.Bool("useLongestLength", z.longest).Close().Finish())
}
