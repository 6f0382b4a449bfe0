package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxMade is how many characters or elements one call of a built-in method may
// make.
const maxMade = 16 << 20

// bound replaces the built-in functions by which one instruction does more than
// can be stopped: it makes a long string or array of little, or compiles.
func (c *scope) bound() {
	text := c.prototype("String")
	c.limit(text, "repeat", func(call goja.FunctionCall) int64 {
		return product(lengthOf(call.This), max(call.Argument(0).ToInteger(), 0))
	})
	for _, name := range []string{"padStart", "padEnd"} {
		c.limit(text, name, func(call goja.FunctionCall) int64 { return call.Argument(0).ToInteger() })
	}
	array := c.prototype("Array")
	for _, name := range []string{
		"concat", "copyWithin", "entries", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex", "flat", "flatMap",
		"forEach", "includes", "indexOf", "join", "keys", "lastIndexOf", "map", "reduce", "reduceRight", "reverse", "shift", "slice", "some",
		"sort", "splice", "toLocaleString", "toReversed", "toSorted", "toSpliced", "toString", "unshift", "values", "with",
	} {
		c.limit(array, name, func(call goja.FunctionCall) int64 { return lengthOf(call.This) })
	}
	c.boundCompilation()
}

// product is a·b, or more than is allowed where one of them is.
func product(a, b int64) int64 {
	if a > maxMade || b > maxMade {
		return maxMade + 1
	}
	return a * b
}

// prototype is the prototype of a built-in class.
func (c *scope) prototype(class string) *goja.Object {
	return c.vm.Get(class).ToObject(c.vm).Get("prototype").ToObject(c.vm)
}

// limit replaces a method by one that refuses where size says too much.
func (c *scope) limit(o *goja.Object, name string, size func(goja.FunctionCall) int64) {
	v := o.Get(name)
	if v == nil {
		return
	}
	method, ok := v.Export().(func(goja.FunctionCall) goja.Value)
	if !ok {
		return
	}
	c.function(o, name, func(call goja.FunctionCall) goja.Value {
		if n := size(call); n > maxMade || n < 0 {
			c.throw(mongoerr.New(mongoerr.JSInterpreterFailure, "RangeError: %s of more than %d characters or elements", name, maxMade))
		}
		return method(call)
	})
}

// lengthOf is the length of a string or an array, 0 for anything else.
func lengthOf(v goja.Value) int64 {
	switch v := v.(type) {
	case goja.String:
		return int64(v.Length())
	case *goja.Object:
		if v.ClassName() == "Array" {
			return v.Get("length").ToInteger()
		}
	}
	return 0
}

// boundCompilation puts the bounds of a text before eval and the constructors of
// functions. eval sees no local variables any more.
func (c *scope) boundCompilation() {
	c.helper("eval", func(args arguments) goja.Value {
		text, ok := args.at(0).(goja.String)
		if !ok {
			return args.at(0)
		}
		c.checkText(text.String())
		v, err := c.vm.RunString(text.String())
		if err != nil {
			c.rethrow(err)
		}
		return v
	})
	for _, sample := range []string{"(function(){})", "(async function(){})", "(function*(){})"} {
		v, err := c.vm.RunString(sample)
		c.rejectOn(err)
		c.boundConstructor(v.ToObject(c.vm).Prototype())
	}
}

// boundConstructor replaces the constructor that a prototype of functions names.
func (c *scope) boundConstructor(prototype *goja.Object) {
	old, ok := goja.AssertConstructor(prototype.Get("constructor"))
	if !ok {
		return
	}
	constructor := c.vm.ToValue(func(call goja.ConstructorCall) *goja.Object {
		size := 0
		for _, a := range call.Arguments {
			size += len(a.String())
			c.checkText(a.String())
		}
		if size > maxText {
			c.throw(syntaxError("the text is longer than %d bytes", maxText))
		}
		o, err := old(nil, call.Arguments...)
		if err != nil {
			c.rethrow(err)
		}
		return o
	}).ToObject(c.vm)
	name := prototype.Get("constructor").ToObject(c.vm).Get("name")
	c.hide(constructor, "name", name)
	c.rejectOn(constructor.Set("prototype", prototype))
	c.hide(prototype, "constructor", constructor)
	if name.String() == "Function" {
		c.hide(c.vm.GlobalObject(), "Function", constructor)
	}
}

// checkText throws for a text that must not be compiled.
func (c *scope) checkText(text string) {
	if err := checkText(text); err != nil {
		c.throw(err)
	}
}
