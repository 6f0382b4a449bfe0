package expr

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerUnary("$allElementsTrue", func(env *Env, v bson.Value) (bson.Value, error) {
		return allElements("$allElementsTrue", 17040, v, true)
	})
	registerUnary("$anyElementTrue", func(env *Env, v bson.Value) (bson.Value, error) {
		return allElements("$anyElementTrue", 17041, v, false)
	})
	registerAssociative("$setUnion", true, evalSetUnion)
	registerAssociative("$setIntersection", true, evalSetIntersection)
	registerBinary("$setDifference", evalSetDifference)
	registerBinary("$setIsSubset", evalSetIsSubset)
	register("$setEquals", parseSetEquals)
}

// allElements reports whether the truth of every element is all, for
// $allElementsTrue, or of some element is !all, for $anyElementTrue.
func allElements(name string, code mongoerr.Code, v bson.Value, all bool) (bson.Value, error) {
	if v.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(code, "%s's argument must be an array, but is %s", name, v.Type)
	}
	for it := v.Doc().Iter(); it.Next(); {
		if it.Value.Truthy() != all {
			return bson.Bool(!all), nil
		}
	}
	return bson.Bool(all), nil
}

// A set is a slice of values, sorted and without duplicates. The first of equal values of
// different types stays.

// set sorts vs and drops duplicates.
func (e *Env) set(vs []bson.Value) []bson.Value {
	slices.SortStableFunc(vs, e.compare)
	return slices.CompactFunc(vs, func(a, b bson.Value) bool { return e.compare(a, b) == 0 })
}

// pushSet pushes the elements of an array as a set.
func (e *Env) pushSet(array bson.Value) {
	mark := e.mark()
	e.pushElements(array)
	e.release(mark + len(e.set(e.since(mark))))
}

// inSet reports whether the set has v.
func (e *Env) inSet(set []bson.Value, v bson.Value) bool {
	_, found := slices.BinarySearchFunc(set, v, e.compare)
	return found
}

func evalSetUnion(env *Env, args []Expr) (bson.Value, error) {
	mark := env.mark()
	null, err := env.pushArrays(args, func(t bson.Type) error {
		return mongoerr.New(mongoerr.Code(17043), "All operands of $setUnion must be arrays. One argument is of type: %s", t)
	})
	if err != nil || null {
		return bson.Null, err
	}
	env.release(mark + len(env.set(env.since(mark))))
	return env.takeArray(mark)
}

func evalSetIntersection(env *Env, args []Expr) (bson.Value, error) {
	mark := env.mark()
	for i, a := range args {
		v, err := a.Eval(env)
		if err != nil {
			env.release(mark)
			return bson.Value{}, err
		}
		if v.IsNullish() {
			env.release(mark)
			return bson.Null, nil
		}
		if v.Type != bson.TypeArray {
			env.release(mark)
			return bson.Value{}, mongoerr.New(mongoerr.Code(17047),
				"All operands of $setIntersection must be arrays. One argument is of type: %s", v.Type)
		}
		if i == 0 {
			env.pushSet(v)
			continue
		}
		n := len(env.since(mark))
		env.pushSet(v)
		common, other := env.since(mark)[:n], env.since(mark)[n:]
		common = slices.DeleteFunc(common, func(x bson.Value) bool { return !env.inSet(other, x) })
		env.release(mark + len(common))
		if len(common) == 0 {
			break
		}
	}
	return env.takeArray(mark)
}

// evalSetDifference keeps the order of the first array.
func evalSetDifference(env *Env, a, b bson.Value) (bson.Value, error) {
	if a.IsNullish() || b.IsNullish() {
		return bson.Null, nil
	}
	for i, v := range []bson.Value{a, b} {
		if v.Type != bson.TypeArray {
			return bson.Value{}, mongoerr.New(mongoerr.Code(17048+i),
				"both operands of $setDifference must be arrays. %s argument is of type: %s", []string{"First", "Second"}[i], v.Type)
		}
	}
	mark := env.mark()
	env.pushSet(b)
	result := env.mark()
	set := env.since(mark)
	seen := make([]bool, 0, 16)
	env.pushElements(a)
	vs := env.since(result)
	order := make([]int, len(vs))
	for i := range order {
		order[i] = i
		seen = append(seen, env.inSet(set, vs[i]))
	}
	slices.SortStableFunc(order, func(i, j int) int { return env.compare(vs[i], vs[j]) })
	for k := 1; k < len(order); k++ {
		if env.compare(vs[order[k-1]], vs[order[k]]) == 0 {
			seen[order[k]] = true
		}
	}
	n := 0
	for i, v := range vs {
		if !seen[i] {
			vs[n] = v
			n++
		}
	}
	v, err := env.array(vs[:n])
	env.release(mark)
	return v, err
}

func evalSetIsSubset(env *Env, a, b bson.Value) (bson.Value, error) {
	if a.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(17046),
			"both operands of $setIsSubset must be arrays. First argument is of type: %s", a.Type)
	}
	if b.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(17042),
			"both operands of $setIsSubset must be arrays. Second argument is of type: %s", b.Type)
	}
	mark := env.mark()
	defer env.release(mark)
	env.pushSet(b)
	for it := a.Doc().Iter(); it.Next(); {
		if !env.inSet(env.since(mark), it.Value) {
			return bson.False, nil
		}
	}
	return bson.True, nil
}

// setEquals reports whether all operands have the same distinct elements.
type setEquals struct{ naryCall }

func parseSetEquals(p *parser, name string, arg bson.Value) (Expr, error) {
	args, err := p.arguments(arg)
	if err != nil {
		return nil, err
	}
	if len(args) < 2 {
		return nil, mongoerr.New(mongoerr.Code(17045), "$setEquals needs at least two arguments had: %d", len(args))
	}
	return &setEquals{naryCall{name, evalSetEquals, args}}, nil
}

// reduce refuses constant operands that are no arrays.
func (s *setEquals) reduce(env *Env) (Expr, error) {
	constants := 0
	for _, a := range s.args {
		v, ok := Constant(a)
		if !ok {
			continue
		}
		if v.Type != bson.TypeArray {
			return nil, mongoerr.New(mongoerr.Code(5887502),
				"All operands of $setEquals must be arrays. One argument is of type: %s", v.Type)
		}
		constants++
	}
	if constants < len(s.args) {
		return s, nil
	}
	v, err := s.Eval(env)
	return &constant{v}, err
}

func evalSetEquals(env *Env, args []Expr) (bson.Value, error) {
	mark := env.mark()
	defer env.release(mark)
	var n int
	for i, a := range args {
		v, err := a.Eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		if v.Type != bson.TypeArray {
			return bson.Value{}, mongoerr.New(mongoerr.Code(17044),
				"All operands of $setEquals must be arrays. %d-th argument is of type: %s", i+1, v.Type)
		}
		env.pushSet(v)
		if i == 0 {
			n = len(env.since(mark))
			continue
		}
		equal := slices.EqualFunc(env.since(mark)[:n], env.since(mark)[n:], func(a, b bson.Value) bool { return env.compare(a, b) == 0 })
		env.release(mark + n)
		if !equal {
			return bson.False, nil
		}
	}
	return bson.True, nil
}
