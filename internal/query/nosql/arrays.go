package nosql

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerPure("ARRAY_LENGTH", 1, 1, func(args []bson.Value) bson.Value {
		if args[0].Type != bson.TypeArray {
			return bson.Value{}
		}
		return bson.Int(int64(args[0].Doc().Len()))
	})
	registerPure("ARRAY_CONTAINS", 2, 3, arrayContains)
	registerPure("ARRAY_CONTAINS_ANY", 2, -1, func(args []bson.Value) bson.Value {
		return containsEach(args, true)
	})
	registerPure("ARRAY_CONTAINS_ALL", 2, -1, func(args []bson.Value) bson.Value {
		return containsEach(args, false)
	})
	register("ARRAY_CONCAT", 2, -1, arrayConcat)
	registerPure("ARRAY_SLICE", 2, 3, arraySlice)
	registerPure("SETINTERSECT", 2, 2, func(args []bson.Value) bson.Value {
		return setOf(args, func(dst []bson.Value, a, b []bson.Value) []bson.Value {
			for _, v := range a {
				if holds(b, v) {
					dst = addNew(dst, v)
				}
			}
			return dst
		})
	})
	registerPure("SETUNION", 2, 2, func(args []bson.Value) bson.Value {
		return setOf(args, func(dst []bson.Value, a, b []bson.Value) []bson.Value {
			for _, v := range append(a, b...) {
				dst = addNew(dst, v)
			}
			return dst
		})
	})
	registerPure("SETDIFFERENCE", 2, 2, func(args []bson.Value) bson.Value {
		return setOf(args, func(dst []bson.Value, a, b []bson.Value) []bson.Value {
			for _, v := range a {
				if !holds(b, v) {
					dst = addNew(dst, v)
				}
			}
			return dst
		})
	})
	registerPure("OBJECTTOARRAY", 1, 3, objectToArray)
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
	for name, want := range part.Doc().All() {
		got := v.Doc().Lookup(name)
		if got.IsMissing() || !equal(got, want) && !covers(got, want) {
			return false
		}
	}
	return true
}

// containsEach reports whether an array has one of some values, or with one false
// all of them; undefined if only an undefined one could tell.
func containsEach(args []bson.Value, one bool) bson.Value {
	if args[0].Type != bson.TypeArray {
		return bson.Value{}
	}
	have := args[0].Doc().Slice()
	result := bson.Bool(!one)
	for _, a := range args[1:] {
		switch {
		case a.IsMissing():
			result = bson.Value{}
		case holds(have, a) == one:
			return bson.Bool(one)
		}
	}
	return result
}

func holds(vs []bson.Value, v bson.Value) bool {
	for _, w := range vs {
		if equal(v, w) {
			return true
		}
	}
	return false
}

func addNew(dst []bson.Value, v bson.Value) []bson.Value {
	if holds(dst, v) {
		return dst
	}
	return append(dst, v)
}

func setOf(args []bson.Value, f func(dst, a, b []bson.Value) []bson.Value) bson.Value {
	if args[0].Type != bson.TypeArray || args[1].Type != bson.TypeArray {
		return bson.Value{}
	}
	return bson.Array(f(nil, args[0].Doc().Slice(), args[1].Doc().Slice())...)
}

func arrayConcat(_ *env, args []bson.Value) (bson.Value, error) {
	var vs []bson.Value
	for _, a := range args {
		if a.Type != bson.TypeArray {
			return bson.Value{}, nil
		}
		if vs = append(vs, a.Doc().Slice()...); len(vs) > maxArray {
			return bson.Value{}, failed("ARRAY_CONCAT makes an array of more than %d elements.", maxArray)
		}
	}
	return bson.Array(vs...), nil
}

// arraySlice takes a start, from the end if it is negative, and a length.
func arraySlice(args []bson.Value) bson.Value {
	from, ok := truncated(args[1])
	if args[0].Type != bson.TypeArray || !ok {
		return bson.Value{}
	}
	vs := args[0].Doc().Slice()
	n := int64(len(vs))
	if len(args) == 3 {
		if n, ok = truncated(args[2]); !ok {
			return bson.Value{}
		}
	}
	if from < 0 {
		from = max(0, from+int64(len(vs)))
	}
	from = min(from, int64(len(vs)))
	return bson.Array(vs[from : from+max(0, min(n, int64(len(vs))-from))]...)
}

// objectToArray makes {k, v} of each field; other names may be given.
func objectToArray(args []bson.Value) bson.Value {
	k, v := "k", "v"
	if len(args) > 1 {
		if !allText(args[1:]) {
			return bson.Value{}
		}
		if k = args[1].Str(); len(args) > 2 {
			v = args[2].Str()
		}
	}
	if args[0].Type != bson.TypeDocument {
		return bson.Value{}
	}
	var vs []bson.Value
	for name, value := range args[0].Doc().All() {
		var b bson.Builder
		vs = append(vs, bson.Document(b.String(k, name).Value(v, value).Finish()))
	}
	return bson.Array(vs...)
}
