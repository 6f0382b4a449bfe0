package javascript

import (
	"reflect"

	"github.com/dop251/goja"
	"github.com/dop251/goja/ast"
	"github.com/dop251/goja/token"
)

const (
	// sumName is the global function through which every sum goes (see countSums). No
	// text can name it.
	sumName = "sum of"
	// checkAfter is how many bytes a scope may allocate until the heap is checked.
	checkAfter = 2 << 20
	// elementBytes is what one element of an array takes.
	elementBytes = 16
)

var expressionType = reflect.TypeFor[ast.Expression]()

// countSums puts a call of sumName around each expression of a tree that may make
// a long string: sums, += and templates. Two copies of a string take one
// instruction, and a few of them all memory, before the watch checks.
func countSums(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		countSums(v.Elem())
		if e, ok := v.Interface().(ast.Expression); ok && v.Type() == expressionType && isSum(e) {
			v.Set(reflect.ValueOf(&ast.CallExpression{
				Callee:          &ast.Identifier{Name: sumName, Idx: e.Idx0()},
				LeftParenthesis: e.Idx0(), ArgumentList: []ast.Expression{e}, RightParenthesis: e.Idx1(),
			}))
		}
	case reflect.Pointer:
		if !v.IsNil() && v.Type() != fileType {
			countSums(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			countSums(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			countSums(v.Index(i))
		}
	}
}

func isSum(e ast.Expression) bool {
	switch e := e.(type) {
	case *ast.BinaryExpression:
		return e.Operator == token.PLUS
	case *ast.AssignExpression:
		return e.Operator == token.PLUS
	case *ast.TemplateLiteral:
		return e.Tag == nil && len(e.Expressions) > 0
	}
	return false
}

// addSums defines sumName, which no function can replace.
func (c *scope) addSums() {
	f := c.vm.ToValue(func(call goja.FunctionCall) goja.Value {
		v := call.Arguments[0]
		if s, ok := v.(goja.String); ok {
			n := int64(s.Length())
			if n > maxCharacters {
				c.throw(failed("RangeError: a string of more than 16777216 characters"))
			}
			c.made(2 * n)
		}
		return v
	})
	c.rejectOn(c.vm.GlobalObject().DefineDataProperty(sumName, f, goja.FLAG_FALSE, goja.FLAG_FALSE, goja.FLAG_FALSE))
}

// made counts n bytes that a function made, and now and then has the watch check the heap
// before it continues.
func (c *scope) made(n int64) {
	if c.unseen += n; c.unseen < checkAfter {
		return
	}
	n, c.unseen = c.unseen, 0
	c.engine.options.Budget.Settle(int(n))
	c.watch.checkHeap()
	if c.watch.stopped.Load() {
		c.poll()
	}
}
