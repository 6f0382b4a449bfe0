package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNary("$slice", 2, 3, evalSlice)
	registerNary("$range", 2, 3, evalRange)
	registerNary("$indexOfArray", 2, 4, evalIndexOfArray)
}

// evalAll evaluates up to four operands without allocating.
func evalAll(env *Env, args []Expr) (vs [4]bson.Value, err error) {
	for i, a := range args {
		if vs[i], err = a.Eval(env); err != nil {
			return vs, err
		}
	}
	return vs, nil
}

func evalSlice(env *Env, args []Expr) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	array, second := vs[0], vs[1]
	if array.IsNullish() || second.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(28724),
			"First argument to $slice must be an array, but is of type: %s", array.Type)
	}
	n, err := sliceNumber("Second", second, 28725)
	if err != nil {
		return bson.Value{}, err
	}
	size := array.Doc().Len()
	from, to := 0, size
	switch {
	case len(args) == 3:
		if vs[2].IsNullish() {
			return bson.Null, nil
		}
		count, err := sliceNumber("Third", vs[2], 28727)
		if err != nil {
			return bson.Value{}, err
		}
		if count <= 0 {
			return bson.Value{}, mongoerr.New(mongoerr.Code(28729), "Third argument to $slice must be positive: %s", text(vs[2]))
		}
		if from = n; n < 0 {
			from = max(0, size+n)
		}
		to = min(size, from+count)
	case n >= 0:
		to = min(size, n)
	default:
		from = max(0, size+n)
	}
	mark, i := env.mark(), 0
	for it := array.Doc().Iter(); i < to && it.Next(); i++ {
		if i >= from {
			env.push(it.Value)
		}
	}
	return env.takeArray(mark)
}

func sliceNumber(which string, v bson.Value, code mongoerr.Code) (int, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(code, "%s argument to $slice must be a numeric value, but is of type: %s", which, v.Type)
	}
	i, ok := bson.ExactInt32(v)
	if !ok {
		return 0, mongoerr.New(code+1, "%s argument to $slice can't be represented as a 32-bit integer: %s", which, text(v))
	}
	return int(i), nil
}

// rangeElementBytes is what the server counts for one element of $range.
const rangeElementBytes = 16

func evalRange(env *Env, args []Expr) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	if len(args) == 2 {
		vs[2] = smallInt(1)
	}
	var n [3]int64
	for i, what := range []string{"starting", "ending", "step"} {
		if !vs[i].IsNumber() {
			return bson.Value{}, mongoerr.New(mongoerr.Code(34443+2*i),
				"$range requires a numeric %s value, found value of type: %s", what, vs[i].Type)
		}
		v, ok := bson.ExactInt32(vs[i])
		if !ok {
			return bson.Value{}, mongoerr.New(mongoerr.Code(34444+2*i),
				"$range requires a %s value that can be represented as a 32-bit integer, found value: %s", what, text(vs[i]))
		}
		n[i] = int64(v)
	}
	start, end, step := n[0], n[1], n[2]
	if step == 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Code(34449), "$range requires a non-zero step value")
	}
	if bytes := (end - start) / step * rangeElementBytes; bytes > maxValueBytes {
		return bson.Value{}, mongoerr.New(mongoerr.ExceededMemoryLimit,
			"$range would use too much memory (%d bytes) and cannot spill to disk. Memory limit: %d bytes", bytes, maxValueBytes)
	}
	mark := env.mark()
	for i := start; step > 0 && i < end || step < 0 && i > end; i += step {
		env.push(env.Int32(int32(i)))
	}
	return env.takeArray(mark)
}

func evalIndexOfArray(env *Env, args []Expr) (bson.Value, error) {
	vs, err := evalAll(env, args)
	if err != nil {
		return bson.Value{}, err
	}
	array := vs[0]
	if array.IsNullish() {
		return bson.Null, nil
	}
	if array.Type != bson.TypeArray {
		return bson.Value{}, mongoerr.New(mongoerr.Code(40090),
			"$indexOfArray requires an array as a first argument, found: %s", array.Type)
	}
	start, end := 0, -1
	if len(args) > 2 {
		if start, err = arrayBound("starting", vs[2]); err != nil {
			return bson.Value{}, err
		}
	}
	if len(args) > 3 {
		if end, err = arrayBound("ending", vs[3]); err != nil {
			return bson.Value{}, err
		}
	}
	i := 0
	for it := array.Doc().Iter(); i != end && it.Next(); i++ {
		if i >= start && env.compare(it.Value, vs[1]) == 0 {
			return smallInt(i), nil
		}
	}
	return smallInt(-1), nil
}

func arrayBound(which string, v bson.Value) (int, error) {
	i, ok := bson.ExactInt32(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(9711600),
			"$indexOfArray requires an integral %s index, found a value of type: %s, with value: \"%s\"", which, v.Type, text(v))
	}
	if i < 0 {
		return 0, mongoerr.New(mongoerr.Code(9711601),
			"$indexOfArray requires a nonnegative %s index, found: %d", which, i)
	}
	return int(i), nil
}
