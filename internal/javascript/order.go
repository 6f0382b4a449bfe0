package javascript

import "github.com/dop251/goja"

// orderByYes has a method that sorts take comparisons that return a boolean, as
// many do: the server's engine only asks whether the result is above 0, which true
// is. Where it is false, the comparison the other way around decides.
func (c *scope) orderByYes(array *goja.Object, name string) {
	sort, ok := nativeOf(array.Get(name))
	if !ok {
		return
	}
	c.function(array, name, func(call goja.FunctionCall) goja.Value {
		compare, ok := goja.AssertFunction(call.Argument(0))
		if !ok {
			return sort(call)
		}
		ask := func(a, b goja.Value) goja.Value {
			order, err := compare(goja.Undefined(), a, b)
			c.rejectOn(err)
			return order
		}
		ordered := func(pair goja.FunctionCall) goja.Value {
			a, b := pair.Argument(0), pair.Argument(1)
			order := ask(a, b)
			above, isBool := order.Export().(bool)
			if !isBool || above {
				return order
			}
			if ask(b, a).ToBoolean() {
				return c.vm.ToValue(-1)
			}
			return c.vm.ToValue(0)
		}
		return sort(goja.FunctionCall{This: call.This, Arguments: []goja.Value{c.vm.ToValue(ordered)}})
	})
}
