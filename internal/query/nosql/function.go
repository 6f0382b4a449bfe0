package nosql

import (
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
)

// function is a built-in function of min to max arguments, max -1 for any
// number. (Cosmos DB: "System functions".)
type function struct {
	min, max int
	call     func(env *env, args []bson.Value) (bson.Value, error)
}

func (f *function) arity() string {
	switch {
	case f.max < 0:
		return "at least " + strconv.Itoa(f.min)
	case f.min == f.max:
		return strconv.Itoa(f.min)
	}
	return strconv.Itoa(f.min) + " to " + strconv.Itoa(f.max)
}

// functions are the built-in functions by upper-case name.
var functions = map[string]*function{}

func register(name string, min, max int, call func(env *env, args []bson.Value) (bson.Value, error)) {
	functions[name] = &function{min, max, call}
}

// registerPure registers a function of its arguments alone, which cannot fail.
func registerPure(name string, min, max int, f func(args []bson.Value) bson.Value) {
	register(name, min, max, func(_ *env, args []bson.Value) (bson.Value, error) { return f(args), nil })
}

// allText reports whether all arguments are strings, for functions that are
// undefined otherwise.
func allText(args []bson.Value) bool {
	for _, a := range args {
		if !isText(a) {
			return false
		}
	}
	return true
}

// integer is an argument that has to be a whole number.
func integer(v bson.Value) (int64, bool) {
	if !v.IsNumber() {
		return 0, false
	}
	return bson.ExactInt64(v)
}

// truncated is an argument of which only the whole part counts.
func truncated(v bson.Value) (int64, bool) {
	if !v.IsNumber() || v.IsNaN() {
		return 0, false
	}
	return bson.ClampToInt64(v), true
}
