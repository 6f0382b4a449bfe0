package nosql

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerNumbers("ARRAY_SUM", func(fs []float64) (float64, bool) {
		sum := 0.0
		for _, f := range fs {
			sum += f
		}
		return sum, true
	})
	registerNumbers("ARRAY_AVG", func(fs []float64) (float64, bool) {
		sum := 0.0
		for _, f := range fs {
			sum += f
		}
		return sum / float64(len(fs)), len(fs) > 0
	})
	registerNumbers("ARRAY_MEDIAN", func(fs []float64) (float64, bool) {
		if len(fs) == 0 {
			return 0, false
		}
		slices.Sort(fs)
		n := len(fs)
		if n%2 == 1 {
			return fs[n/2], true
		}
		return (fs[n/2-1] + fs[n/2]) / 2, true
	})
	registerPure("ARRAY_MIN", 1, 1, func(args []bson.Value) bson.Value { return extreme(args[0], -1) })
	registerPure("ARRAY_MAX", 1, 1, func(args []bson.Value) bson.Value { return extreme(args[0], 1) })
	register("SETEQUAL", 2, 2, func(env *env, args []bson.Value) (bson.Value, error) {
		a, b, ok, err := arrays(env, args)
		if !ok || err != nil {
			return bson.Value{}, err
		}
		return bson.Bool(setOf(a).hasAll(b) && setOf(b).hasAll(a)), nil
	})
}

// registerNumbers registers a function of an array of numbers, which is
// undefined if one of the elements is none.
func registerNumbers(name string, f func(fs []float64) (float64, bool)) {
	registerPure(name, 1, 1, func(args []bson.Value) bson.Value {
		if args[0].Type != bson.TypeArray {
			return bson.Value{}
		}
		var fs []float64
		for v := range args[0].Doc().Values() {
			if !v.IsNumber() {
				return bson.Value{}
			}
			fs = append(fs, bson.ToDouble(v))
		}
		result, ok := f(fs)
		if !ok {
			return bson.Value{}
		}
		return finite(result)
	})
}

// extreme is the least element of an array, or with sign 1 the greatest;
// undefined if one is an array or an object.
func extreme(v bson.Value, sign int) bson.Value {
	if v.Type != bson.TypeArray {
		return bson.Value{}
	}
	best := bson.Value{}
	for e := range v.Doc().Values() {
		if typeRank(e) > typeRank(text("")) {
			return bson.Value{}
		}
		if best.IsMissing() || order(e, best)*sign > 0 {
			best = e
		}
	}
	return best
}
