package nosql

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerPure("ARRAY_LENGTH", 1, 1, func(args []bson.Value) bson.Value {
		if args[0].Type != bson.TypeArray {
			return bson.Value{}
		}
		return bson.Int(int64(args[0].Doc().Len()))
	})
	registerPure("ARRAY_CONTAINS", 2, 3, arrayContains)
	register("ARRAY_CONTAINS_ANY", 2, -1, func(env *env, args []bson.Value) (bson.Value, error) {
		return containsEach(env, args, true)
	})
	register("ARRAY_CONTAINS_ALL", 2, -1, func(env *env, args []bson.Value) (bson.Value, error) {
		return containsEach(env, args, false)
	})
	register("ARRAY_CONCAT", 2, -1, arrayConcat)
	register("ARRAY_SLICE", 2, 3, arraySlice)
	registerSets("SETINTERSECT", func(a, b []bson.Value) []bson.Value {
		return setOf(b).filter(a, true)
	})
	registerSets("SETUNION", func(a, b []bson.Value) []bson.Value {
		return new(set).filter(append(a, b...), false)
	})
	registerSets("SETDIFFERENCE", func(a, b []bson.Value) []bson.Value {
		return setOf(b).filter(a, false)
	})
	register("OBJECTTOARRAY", 1, 3, objectToArray)
	registerPure("CHOOSE", 2, -1, func(args []bson.Value) bson.Value {
		i, ok := integer(args[0])
		if !ok || i < 1 || i >= int64(len(args)) {
			return bson.Value{}
		}
		return args[i]
	})
}

// arrayContains looks for an element; with a third argument true, for an
// object that has at least those fields.
func arrayContains(args []bson.Value) bson.Value {
	if args[0].Type != bson.TypeArray || args[1].IsMissing() {
		return bson.Value{}
	}
	partial := len(args) == 3 && isTrue(args[2])
	for v := range args[0].Doc().Values() {
		if equal(v, args[1]) || partial && covers(v, args[1]) {
			return bson.Bool(true)
		}
	}
	return bson.Bool(false)
}

// covers reports whether an object has all fields of another.
func covers(v, part bson.Value) bool {
	if v.Type != bson.TypeDocument || part.Type != bson.TypeDocument {
		return false
	}
	lookup := lookupIn(v.Doc(), part.Doc().Len())
	for name, want := range part.Doc().All() {
		got := lookup(name)
		if got.IsMissing() || !equal(got, want) && !covers(got, want) {
			return false
		}
	}
	return true
}

// containsEach reports whether an array has one of some values, or with one false
// all of them; undefined if only an undefined one could tell.
func containsEach(env *env, args []bson.Value, one bool) (bson.Value, error) {
	if args[0].Type != bson.TypeArray {
		return bson.Value{}, nil
	}
	elements, err := env.elements(args[0])
	if err != nil {
		return bson.Value{}, err
	}
	have, result := setOf(elements), bson.Bool(!one)
	for _, a := range args[1:] {
		switch {
		case a.IsMissing():
			result = bson.Value{}
		case have.has(a) == one:
			return bson.Bool(one), nil
		}
	}
	return result, nil
}

// registerSets registers a function that makes a set of two arrays.
func registerSets(name string, f func(a, b []bson.Value) []bson.Value) {
	register(name, 2, 2, func(env *env, args []bson.Value) (bson.Value, error) {
		a, b, ok, err := arrays(env, args)
		if !ok || err != nil {
			return bson.Value{}, err
		}
		return env.array(f(a, b))
	})
}

// arrays are the elements of two arrays; ok is false if one is none.
func arrays(env *env, args []bson.Value) (a, b []bson.Value, ok bool, err error) {
	if args[0].Type != bson.TypeArray || args[1].Type != bson.TypeArray {
		return nil, nil, false, nil
	}
	if a, err = env.elements(args[0]); err == nil {
		b, err = env.elements(args[1])
	}
	return a, b, true, err
}

func arrayConcat(env *env, args []bson.Value) (bson.Value, error) {
	n, size := 0, 0
	for _, a := range args {
		if a.Type != bson.TypeArray {
			return bson.Value{}, nil
		}
		size += len(a.Data)
		if n += a.Doc().Len(); n > maxArray {
			return bson.Value{}, failed("ARRAY_CONCAT makes an array of more than %d elements.", maxArray)
		}
	}
	if err := env.makes(elementRoom*n + size); err != nil {
		return bson.Value{}, err
	}
	vs := make([]bson.Value, 0, n)
	for _, a := range args {
		vs = append(vs, a.Doc().Slice()...)
	}
	return bson.Array(vs...), nil
}

// arraySlice takes a start, from the end if it is negative, and a length.
func arraySlice(env *env, args []bson.Value) (bson.Value, error) {
	from, ok := truncated(args[1])
	if args[0].Type != bson.TypeArray || !ok {
		return bson.Value{}, nil
	}
	vs, err := env.elements(args[0])
	if err != nil {
		return bson.Value{}, err
	}
	n := int64(len(vs))
	if len(args) == 3 {
		if n, ok = truncated(args[2]); !ok {
			return bson.Value{}, nil
		}
	}
	if from < 0 {
		from = max(0, from+int64(len(vs)))
	}
	from = min(from, int64(len(vs)))
	return env.array(vs[from : from+max(0, min(n, int64(len(vs))-from))])
}

// objectToArray makes {k, v} of each field; other names may be given.
func objectToArray(env *env, args []bson.Value) (bson.Value, error) {
	k, v := "k", "v"
	if len(args) > 1 {
		if !allText(args[1:]) {
			return bson.Value{}, nil
		}
		if k = args[1].Str(); len(args) > 2 {
			v = args[2].Str()
		}
	}
	if args[0].Type != bson.TypeDocument || strings.IndexByte(k, 0) >= 0 || strings.IndexByte(v, 0) >= 0 {
		return bson.Value{}, nil // no name has a zero character
	}
	fields := args[0].Doc()
	if err := env.makes(len(fields) + fields.Len()*(len(k)+len(v)+elementRoom)); err != nil {
		return bson.Value{}, err
	}
	var vs []bson.Value
	for name, value := range fields.All() {
		var b bson.Builder
		vs = append(vs, bson.Document(b.String(k, name).Value(v, value).Finish()))
	}
	return env.array(vs)
}
