package expr

import "github.com/mayflydb/mayfly/internal/bson"

// Expr is a parsed expression. It is immutable once Parse has returned it.
type Expr interface {
	// Eval computes the expression for the document and variables of env; the
	// result is Missing if a field is absent.
	Eval(env *Env) (bson.Value, error)

	// serialize is the expression as the server's explain prints it.
	serialize() bson.Value
	// walk calls f for each operand's slot, so that f may replace it.
	walk(f func(*Expr))
}

// Serialize returns the expression as a value that parses to the same
// expression, in the form explain prints: {$add: ["$a", {$const: 1}]}.
func Serialize(e Expr) bson.Value { return e.serialize() }

// Constant returns the value of an expression that Parse folded into a constant.
func Constant(e Expr) (v bson.Value, ok bool) {
	if c, ok := e.(*constant); ok {
		return c.value, true
	}
	return bson.Value{}, false
}

// Const makes an expression whose value is always v.
func Const(v bson.Value) Expr { return &constant{v} }

// constant is a literal or the result of folding.
type constant struct{ value bson.Value }

func (c *constant) Eval(*Env) (bson.Value, error) { return c.value, nil }
func (c *constant) walk(func(*Expr))              {}

// serialize is a literal; a missing value becomes $$REMOVE.
func (c *constant) serialize() bson.Value {
	if c.value.IsMissing() {
		return bson.String("$$REMOVE")
	}
	return wrap("$const", c.value)
}

// wrap is the document {name: v}.
func wrap(name string, v bson.Value) bson.Value {
	return bson.Document(new(bson.Builder).Value(name, v).Finish())
}

// serializeCall is {name: [operands…]}.
func serializeCall(name string, args ...Expr) bson.Value {
	var b bson.Builder
	b.OpenArray(name)
	for i, a := range args {
		b.Value(bson.Index(i), a.serialize())
	}
	return bson.Document(b.Close().Finish())
}
