package javascript

import (
	"strings"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// read makes a JavaScript value of a BSON value that does not change during the
// call.
func (c *scope) read(v bson.Value) goja.Value { return c.readIn(v, false) }

// lasting makes a JavaScript value that outlives the call.
func (c *scope) lasting(v bson.Value) goja.Value { return c.readIn(v.Clone(), true) }

// values makes arguments of values.
func (c *scope) values(vs []bson.Value) []goja.Value {
	out := make([]goja.Value, len(vs))
	for i, v := range vs {
		out[i] = c.read(v)
	}
	return out
}

// readIn makes a JavaScript value. Numbers other than long and decimal are
// numbers, code is a function, undefined is null; a type that JavaScript lacks becomes
// a boxed value. It throws if code or a pattern does not compile.
func (c *scope) readIn(v bson.Value, lasting bool) goja.Value {
	switch v.Type {
	case bson.TypeDouble:
		return c.vm.ToValue(v.Double())
	case bson.TypeInt32:
		return c.vm.ToValue(int64(v.Int32()))
	case bson.TypeString, bson.TypeSymbol:
		return c.vm.ToValue(strings.Clone(v.Str()))
	case bson.TypeBool:
		return c.vm.ToValue(v.Bool())
	case bson.Missing, bson.TypeNull, bson.TypeUndefined:
		return goja.Null()
	case bson.TypeDocument:
		return c.newDocument(v.Doc(), lasting)
	case bson.TypeArray:
		return c.readArray(v.Doc(), lasting)
	case bson.TypeDate:
		return c.construct(c.types.date, c.vm.ToValue(v.Date()))
	case bson.TypeRegex:
		pattern, options := v.Regex()
		return c.construct(c.types.regExp, c.vm.ToValue(strings.Clone(pattern)), c.vm.ToValue(strings.Clone(options)))
	case bson.TypeCode:
		return c.readCode(v.Str())
	case bson.TypeCodeScope:
		code, _ := v.CodeScope()
		return c.readCode(code)
	}
	return c.box(v.Clone())
}

func (c *scope) readArray(d bson.Doc, lasting bool) goja.Value {
	items := make([]any, 0, d.Len())
	for v := range d.Values() {
		items = append(items, c.readIn(v, lasting))
	}
	return c.vm.NewArray(items...)
}

// readCode makes a function.
func (c *scope) readCode(text string) goja.Value {
	f, err := c.engine.Compile(text)
	if err != nil {
		c.throw(err)
	}
	v, err := c.vm.RunProgram(f.program)
	if err != nil {
		c.rethrow(err)
	}
	return v
}

// construct is new class(args…).
func (c *scope) construct(class goja.Value, args ...goja.Value) *goja.Object {
	o, err := c.vm.New(class, args...)
	if err != nil {
		c.rethrow(err)
	}
	return o
}

// rethrow throws the error of a call into the runtime.
func (c *scope) rethrow(err error) {
	if ex, ok := err.(*goja.Exception); ok {
		panic(ex)
	}
	panic(err)
}
