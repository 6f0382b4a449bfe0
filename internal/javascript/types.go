package javascript

import (
	"slices"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// types are the constructors and prototypes of a scope, as they were before
// scripts could change the global names.
type types struct {
	date, regExp   goja.Value
	minKey, maxKey *goja.Object
	dbRef          *goja.Object // prototype
	classes        map[bson.Type]classOf
}

// classOf is a class in a scope.
type classOf struct {
	*class
	prototype *goja.Object
}

// classes are the boxed types.
var classes = []*class{
	&objectID, &numberLong, &numberInt, &numberDecimal, &binData, &timestamp, &minKey, &maxKey, &dbPointer, &code,
}

// addTypes defines the constructors of the BSON types.
func (c *scope) addTypes() {
	c.types = types{date: c.vm.Get("Date"), regExp: c.vm.Get("RegExp"), classes: map[bson.Type]classOf{}}
	for _, k := range classes {
		constructor := c.define(k.name, func(args arguments) *goja.Object { return c.box(k.make(c, args)) })
		prototype := constructor.Get("prototype").ToObject(c.vm)
		for name, m := range k.methods {
			c.addMethod(prototype, k, name, m)
		}
		for _, t := range k.types {
			c.types.classes[t] = classOf{k, prototype}
		}
		switch k {
		case &minKey:
			c.types.minKey = constructor
		case &maxKey:
			c.types.maxKey = constructor
		case &objectID:
			c.addObjectIDFunctions(constructor, prototype)
		}
	}
	c.addDBRef()
	c.addBinDataFunctions()
	c.addNumberFunctions()
}

// define defines a global constructor, which works without new too.
func (c *scope) define(name string, construct func(args arguments) *goja.Object) *goja.Object {
	o := c.vm.ToValue(func(call goja.ConstructorCall) *goja.Object { return construct(call.Arguments) }).ToObject(c.vm)
	c.hide(o, "name", c.vm.ToValue(name))
	c.vm.Set(name, o)
	return o
}

// addMethod defines a method for the objects of a class.
func (c *scope) addMethod(prototype *goja.Object, k *class, name string, m method) {
	c.function(prototype, name, func(call goja.FunctionCall) goja.Value {
		v := unbox(call.This)
		if !slices.Contains(k.types, v.Type) || v.IsMissing() {
			panic(c.vm.NewTypeError("Incompatible receiver for %s.%s", k.name, name))
		}
		return m(c, v, call.Arguments)
	})
}

// function defines a function as a property that loops over names pass by.
func (c *scope) function(o *goja.Object, name string, f func(goja.FunctionCall) goja.Value) {
	fn := c.vm.ToValue(f).ToObject(c.vm)
	c.hide(fn, "name", c.vm.ToValue(name))
	c.hide(o, name, fn)
}

// hide defines a property that loops over names pass by.
func (c *scope) hide(o *goja.Object, name string, v goja.Value) {
	if err := o.DefineDataProperty(name, v, goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE); err != nil {
		c.rethrow(err)
	}
}

// helper defines a global function.
func (c *scope) helper(name string, f func(args arguments) goja.Value) {
	c.function(c.vm.GlobalObject(), name, func(call goja.FunctionCall) goja.Value { return f(call.Arguments) })
}

func (c *scope) setPrototype(o, prototype *goja.Object) {
	if err := o.SetPrototype(prototype); err != nil {
		c.rethrow(err)
	}
}

// text makes a string.
func (c *scope) text(s string) goja.Value { return c.vm.ToValue(s) }

// object makes a plain object of one property.
func (c *scope) object(name string, v any) *goja.Object {
	o := c.vm.NewObject()
	if err := o.Set(name, v); err != nil {
		c.rethrow(err)
	}
	return o
}
