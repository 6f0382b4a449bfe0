package nosql

import (
	"cmp"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/pcre"
)

// env is the environment of an evaluation.
type env struct {
	slots  []bson.Value // of aliases
	params map[string]bson.Value
	now    time.Time
	item   bson.Doc // of the container, for subqueries that start from it
	number int64    // of the item
	totals []*total // of the group's aggregates, while its row is made
	*meter
	// patterns are the regular expressions of the run, compiled.
	patterns map[patternKey]*pcre.Regexp
}

type constant struct{ v bson.Value }

func (e *constant) eval(*env) (bson.Value, error) { return e.v, nil }

// parameter is @name; one that was not given is undefined.
type parameter struct{ name string }

func (e *parameter) eval(env *env) (bson.Value, error) { return env.params[e.name], nil }

type alias struct {
	name string
	slot int
}

func (e *alias) eval(env *env) (bson.Value, error) { return env.slots[e.slot], nil }

// property is of.key or of[key].
type property struct{ of, key expression }

func (e *property) eval(env *env) (bson.Value, error) {
	v, err := e.of.eval(env)
	if err != nil || v.IsMissing() {
		return bson.Value{}, err
	}
	k, err := e.key.eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	return child(v, k), nil
}

// child is a property of an object or an element of an array.
func child(v, key bson.Value) bson.Value {
	switch {
	case v.Type == bson.TypeDocument && isText(key):
		return v.Doc().Lookup(key.Str())
	case v.Type == bson.TypeArray && key.IsNumber():
		if i, ok := bson.ExactInt64(key); ok && i >= 0 {
			return v.Doc().Lookup(itoa(int(i)))
		}
	}
	return bson.Value{}
}

// logical is AND, or OR: with undefined unless one side decides.
type logical struct {
	l, r expression
	or   bool
}

func (e *logical) eval(env *env) (bson.Value, error) {
	l, err := e.l.eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if l.Type == bson.TypeBool && l.Bool() == e.or {
		return l, nil
	}
	r, err := e.r.eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if r.Type == bson.TypeBool && (r.Bool() == e.or || l.Type == bson.TypeBool) {
		return r, nil
	}
	return bson.Value{}, nil
}

type not struct{ e expression }

func (e *not) eval(env *env) (bson.Value, error) {
	v, err := e.e.eval(env)
	if err != nil || v.Type != bson.TypeBool {
		return bson.Value{}, err
	}
	return bson.Bool(!v.Bool()), nil
}

type conditional struct{ test, then, other expression }

func (e *conditional) eval(env *env) (bson.Value, error) {
	v, err := e.test.eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	if isTrue(v) {
		return e.then.eval(env)
	}
	return e.other.eval(env)
}

type coalesce struct{ l, r expression }

func (e *coalesce) eval(env *env) (bson.Value, error) {
	v, err := e.l.eval(env)
	if err != nil || !v.IsMissing() {
		return v, err
	}
	return e.r.eval(env)
}

// both evaluates the two sides of an operator.
func both(env *env, left, right expression) (l, r bson.Value, err error) {
	if l, err = left.eval(env); err == nil {
		r, err = right.eval(env)
	}
	return l, r, err
}

// comparison is undefined between two types, and but for equality between
// arrays or objects.
type comparison struct {
	op   string
	l, r expression
}

func (e *comparison) eval(env *env) (bson.Value, error) {
	l, r, err := both(env, e.l, e.r)
	if err == nil {
		err = env.weigh(l, r)
	}
	if err != nil {
		return bson.Value{}, err
	}
	return compare(e.op, l, r), nil
}

func compare(op string, l, r bson.Value) bson.Value {
	rank := typeRank(l)
	if rank == 0 || rank != typeRank(r) {
		return bson.Value{}
	}
	switch op {
	case "=":
		return bson.Bool(equal(l, r))
	case "!=", "<>":
		return bson.Bool(!equal(l, r))
	}
	if rank > typeRank(text("")) {
		return bson.Value{}
	}
	c := order(l, r)
	switch op {
	case "<":
		return bson.Bool(c < 0)
	case "<=":
		return bson.Bool(c <= 0)
	case ">":
		return bson.Bool(c > 0)
	}
	return bson.Bool(c >= 0)
}

// membership is IN.
type membership struct {
	value expression
	list  []expression
}

func (e *membership) eval(env *env) (bson.Value, error) {
	v, err := e.value.eval(env)
	if err != nil || v.IsMissing() {
		return bson.Value{}, err
	}
	for _, x := range e.list {
		w, err := x.eval(env)
		if err == nil {
			err = env.weigh(v, w)
		}
		if err != nil {
			return bson.Value{}, err
		}
		if !w.IsMissing() && equal(v, w) {
			return bson.Bool(true), nil
		}
	}
	return bson.Bool(false), nil
}

// arithmetic is every operator of numbers, and || of strings.
type arithmetic struct {
	op   string
	l, r expression
}

func (e *arithmetic) eval(env *env) (bson.Value, error) {
	l, r, err := both(env, e.l, e.r)
	if err != nil {
		return bson.Value{}, err
	}
	if e.op == "||" {
		if !isText(l) || !isText(r) {
			return bson.Value{}, nil
		}
		return concat(env, l.Str(), r.Str())
	}
	if !l.IsNumber() || !r.IsNumber() {
		return bson.Value{}, nil
	}
	x, y := bson.ToDouble(l), bson.ToDouble(r)
	switch e.op {
	case "+":
		return finite(x + y), nil
	case "-":
		return finite(x - y), nil
	case "*":
		return finite(x * y), nil
	case "/": // by zero it is no finite number, as the service's page of IS_FINITE_NUMBER says, and so undefined
		return finite(x / y), nil
	case "%":
		return finite(math.Mod(x, y)), nil
	}
	return bits(e.op, int32(int64(x)), int32(int64(y))), nil
}

// bits are the operators on 32-bit integers.
func bits(op string, x, y int32) bson.Value {
	shift := uint(y) & 31
	switch op {
	case "&":
		x &= y
	case "|":
		x |= y
	case "^":
		x ^= y
	case "<<":
		x <<= shift
	case ">>":
		x >>= shift
	case ">>>":
		return bson.Int(int64(uint32(x) >> shift))
	}
	return bson.Int(int64(x))
}

func concat(env *env, parts ...string) (bson.Value, error) {
	n := 0
	for _, p := range parts {
		if n += len(p); n > maxString {
			return bson.Value{}, failed("A string of more than %d bytes was made.", maxString)
		}
	}
	if err := env.makes(n); err != nil {
		return bson.Value{}, err
	}
	b := make([]byte, 0, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	return text(string(b)), nil
}

// sign is a unary operator of numbers.
type sign struct {
	op string
	e  expression
}

func (e *sign) eval(env *env) (bson.Value, error) {
	v, err := e.e.eval(env)
	if err != nil || !v.IsNumber() {
		return bson.Value{}, err
	}
	switch e.op {
	case "-":
		if i, ok := bson.ExactInt64(v); ok && i != 0 && i != math.MinInt64 {
			return bson.Int(-i), nil
		}
		return bson.Double(-bson.ToDouble(v)), nil
	case "~":
		return bson.Int(int64(^int32(int64(bson.ToDouble(v))))), nil
	}
	return v, nil
}

// arrayMaker is [a, b]: an undefined element is null.
type arrayMaker struct{ es []expression }

func (e *arrayMaker) eval(env *env) (bson.Value, error) {
	vs := make([]bson.Value, len(e.es))
	for i, x := range e.es {
		v, err := x.eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		vs[i] = v
	}
	return env.array(vs)
}

// objectMaker is {a: b}: an undefined field is left out.
type objectMaker struct {
	names  []string
	values []expression
}

func (e *objectMaker) eval(env *env) (bson.Value, error) {
	var b bson.Builder
	for i, x := range e.values {
		v, err := x.eval(env)
		if err == nil {
			err = env.makes(len(e.names[i]) + len(v.Data))
		}
		if err != nil {
			return bson.Value{}, err
		}
		b.Value(e.names[i], v)
	}
	return bson.Document(b.Finish()), nil
}

// call is a built-in function.
type call struct {
	f    *function
	args []expression
}

func (e *call) eval(env *env) (bson.Value, error) {
	var few [4]bson.Value
	vs := few[:0]
	for _, a := range e.args {
		v, err := a.eval(env)
		if err != nil {
			return bson.Value{}, err
		}
		vs = append(vs, v)
	}
	if err := env.weigh(vs...); err != nil {
		return bson.Value{}, err
	}
	v, err := e.f.call(env, vs)
	if err == nil {
		err = env.makes(len(v.Data))
	}
	return v, err
}

type exists struct{ s *selection }

func (e *exists) eval(env *env) (bson.Value, error) {
	found := false
	err := e.s.rows(env, func(bson.Value) bool { found = true; return false })
	return bson.Bool(found), err
}

type arraySubquery struct{ s *selection }

func (e *arraySubquery) eval(env *env) (bson.Value, error) {
	var vs []bson.Value
	var full error
	err := e.s.rows(env, func(v bson.Value) bool {
		vs = append(vs, v)
		if full = env.makes(elementRoom + len(v.Data)); full == nil && len(vs) > maxArray {
			full = failed("A subquery makes an array of more than %d elements.", maxArray)
		}
		return full == nil
	})
	if err = cmp.Or(err, full); err != nil {
		return bson.Value{}, err
	}
	return env.array(vs)
}

// scalarSubquery is its first row.
type scalarSubquery struct{ s *selection }

func (e *scalarSubquery) eval(env *env) (bson.Value, error) {
	var first bson.Value
	var full error
	err := e.s.rows(env, func(v bson.Value) bool {
		first, full = v, env.makes(len(v.Data))
		return false
	})
	return first, cmp.Or(err, full)
}
