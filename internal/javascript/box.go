package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// box is a BSON value of a type that JavaScript lacks, as an object whose class
// has the server's methods. It is a goja.DynamicObject, and cannot be changed.
type box struct {
	class  *class
	scope  *scope
	value  bson.Value
	fields []field // own properties
}

// field is a property of a box.
type field struct {
	name  string
	value goja.Value
}

// class is a global constructor and the methods of what it makes.
type class struct {
	name string
	// types are the types whose values are of this class.
	types []bson.Type
	// make makes a value of the constructor's arguments.
	make func(c *scope, args arguments) bson.Value
	// fields are the own properties, or nil.
	fields  func(c *scope, v bson.Value) []field
	methods map[string]method
}

// method is a method of a boxed value.
type method func(c *scope, v bson.Value, args arguments) goja.Value

// arguments are those of a call.
type arguments []goja.Value

// at is the i-th argument, undefined if there is none.
func (a arguments) at(i int) goja.Value {
	if i < len(a) {
		return a[i]
	}
	return goja.Undefined()
}

// text is the i-th argument as a string.
func (a arguments) text(i int) string { return a.at(i).String() }

// box makes the object of a value of a boxed type.
func (c *scope) box(v bson.Value) *goja.Object {
	k := c.types.classes[v.Type]
	b := &box{class: k.class, scope: c, value: v}
	if k.fields != nil {
		b.fields = k.fields(c, v)
	}
	o := c.vm.NewDynamicObject(b)
	c.setPrototype(o, k.prototype)
	return o
}

// unbox is the boxed value of an object, Missing for anything else.
func unbox(v goja.Value) bson.Value {
	if o, ok := v.(*goja.Object); ok && o.ExportType() == boxType {
		return o.Export().(*box).value
	}
	return bson.Value{}
}

// Get returns a property.
func (b *box) Get(name string) goja.Value {
	for _, f := range b.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// Set refuses: boxed values are immutable.
func (b *box) Set(string, goja.Value) bool { return false }

// Delete refuses to take a property away.
func (b *box) Delete(name string) bool { return !b.Has(name) }

// Has reports whether there is such a property.
func (b *box) Has(name string) bool { return b.Get(name) != nil }

// Keys returns the names of the properties.
func (b *box) Keys() []string {
	names := make([]string, len(b.fields))
	for i, f := range b.fields {
		names[i] = f.name
	}
	return names
}
