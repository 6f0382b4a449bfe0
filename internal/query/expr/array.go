package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerBinary("$arrayElemAt", evalArrayElemAt)
	registerUnary("$first", func(env *Env, v bson.Value) (bson.Value, error) { return endOf("$first", v, 0) })
	registerUnary("$last", func(env *Env, v bson.Value) (bson.Value, error) { return endOf("$last", v, -1) })
	registerAssociative("$concatArrays", false, evalConcatArrays)
	register("$in", parseIn)
	registerUnary("$reverseArray", evalReverseArray)
	registerUnary("$size", evalSize)
}

// elementAt is the i-th element of an array, from its end if i is negative,
// or Missing.
func elementAt(d bson.Doc, i int) bson.Value {
	if i < 0 {
		if i += d.Len(); i < 0 {
			return bson.Value{}
		}
	}
	for it := d.Iter(); it.Next(); i-- {
		if i == 0 {
			return it.Value
		}
	}
	return bson.Value{}
}

func evalArrayElemAt(env *Env, array, index bson.Value) (bson.Value, error) {
	if array.IsNullish() || index.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28689),
			"$arrayElemAt's first argument must be an array, but is %s", array.Type)
	}
	if !index.IsNumber() {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28690),
			"$arrayElemAt's second argument must be a numeric value, but is %s", index.Type)
	}
	i, ok := bson.ExactInt32(index)
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28691),
			"$arrayElemAt's second argument must be representable as a 32-bit integer: %s", text(index))
	}
	return elementAt(array.Doc(), int(i)), nil
}

func endOf(name string, array bson.Value, i int) (bson.Value, error) {
	if array.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28689),
			"%s's argument must be an array, but is %s", name, array.Type)
	}
	return elementAt(array.Doc(), i), nil
}

func evalConcatArrays(env *Env, args []Expr) (bson.Value, error) {
	mark := env.mark()
	null, err := env.pushArrays(args, func(t bson.Type) error {
		return mongoerr.New(mongoerr.Code(28664), "$concatArrays only supports arrays, not %s", t)
	})
	if err != nil || null {
		return bson.Null, err
	}
	return env.takeArray(mark)
}

// pushArrays pushes the elements of all arrays that operands evaluate to. If
// one is nullish, null is set and nothing is pushed; other is the error for
// a value that is no array.
func (e *Env) pushArrays(args []Expr, other func(bson.Type) error) (null bool, err error) {
	mark, held := e.mark(), e.held
	for _, a := range args {
		v, err := a.Eval(e)
		if err == nil {
			err = e.account(len(v.Data))
		}
		if err == nil {
			err = e.Tick()
		}
		if err == nil && !v.IsNullish() && v.Type != bson.TypeArray {
			err = other(v.Type)
		}
		if err != nil {
			e.release(mark)
			return false, err
		}
		if v.IsNullish() {
			e.release(mark)
			e.held = held
			return true, nil
		}
		e.pushElements(v)
	}
	e.held = held
	return false, nil
}

// pushElements pushes the elements of an array.
func (e *Env) pushElements(array bson.Value) {
	for it := array.Doc().Iter(); it.Next(); {
		e.push(it.Value)
	}
}

// parseIn parses {$in: [needle, haystack]}. Of a filter's {$expr: {$in: ["$field",
// [constants]]}} the server makes the filter {field: {$in: …}} without the
// collation.
func parseIn(p *parser, name string, arg bson.Value) (Expr, error) {
	depth := p.depth
	args, err := p.exactly(name, arg, 2)
	if err != nil {
		return nil, err
	}
	in := &binaryCall{name, evalIn, args[0], args[1]}
	if f, ok := args[0].(*fieldPath); ok && f.slot == slotRoot && p.opts.Filter && depth == 1 && isConstantList(args[1]) {
		in.fn = func(env *Env, needle, haystack bson.Value) (bson.Value, error) {
			defer func(c bson.Collator) { env.Collator = c }(env.Collator)
			env.Collator = nil
			return evalIn(env, needle, haystack)
		}
	}
	return in, nil
}

// isConstantList reports whether e is an array of constants.
func isConstantList(e Expr) bool {
	a, ok := e.(*arrayLiteral)
	if !ok {
		return false
	}
	for _, x := range a.exprs {
		if _, ok := x.(*constant); !ok {
			return false
		}
	}
	return true
}

func evalIn(env *Env, needle, haystack bson.Value) (bson.Value, error) {
	if haystack.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40081),
			"$in requires an array as a second argument, found: %s", haystack.Type)
	}
	for it := haystack.Doc().Iter(); it.Next(); {
		if env.compare(needle, it.Value) == 0 {
			return bson.True, nil
		}
	}
	return bson.False, nil
}

func evalReverseArray(env *Env, array bson.Value) (bson.Value, error) {
	if array.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(34435),
			"The argument to $reverseArray must be an array, but was of type: %s", array.Type)
	}
	mark := env.mark()
	env.pushElements(array)
	vs := env.since(mark)
	for i, j := 0, len(vs)-1; i < j; i, j = i+1, j-1 {
		vs[i], vs[j] = vs[j], vs[i]
	}
	return env.takeArray(mark)
}

func evalSize(env *Env, array bson.Value) (bson.Value, error) {
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(17124),
			"The argument to $size must be an array, but was of type: %s", array.Type)
	}
	n := array.Doc().Len()
	if n < len(smallInts)-1 {
		return smallInt(n), nil
	}
	return env.Int32(int32(n)), nil
}
