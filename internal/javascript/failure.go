package javascript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxFrames is how many calls an error's trace shows.
const maxFrames = 20

// isUncatchable reports whether err stopped the runtime, so that no function could
// catch it.
func isUncatchable(err error) bool {
	var overflow *goja.StackOverflowError
	var interrupted *goja.InterruptedError
	return errors.As(err, &overflow) || errors.As(err, &interrupted)
}

// failure is the error of a call: of a thrown Error, its text and where it came
// from, "ReferenceError: x is not defined :\n@:1:22\n", with code 139.
func (c *scope) failure(err error) error {
	var overflow *goja.StackOverflowError
	if errors.As(err, &overflow) {
		c.broken = true
		return failed("InternalError: too much recursion :\n" + trace(overflow.Stack()))
	}
	var user *mongoerr.Error
	if errors.As(err, &user) {
		return user
	}
	var thrown *goja.Exception
	if !errors.As(err, &thrown) {
		return err
	}
	text, isError := c.describe(thrown.Value())
	if !isError {
		return failed("uncaught exception: " + text)
	}
	return failed(text + " :\n" + trace(thrown.Stack()))
}

func failed(text string) error { return mongoerr.New(mongoerr.JSInterpreterFailure, "%s", text) }

// describe is the text of a thrown value, and whether it is an Error. An Error's text
// is not computed by its own methods, which could do anything.
func (c *scope) describe(v goja.Value) (text string, isError bool) {
	o, ok := v.(*goja.Object)
	if !ok {
		return printable(v), false
	}
	isError = o.ClassName() == "Error"
	if !isError {
		return "[object " + o.ClassName() + "]", false
	}
	var name, message string
	if ex := c.vm.Try(func() { name, message = own(o, "name"), own(o, "message") }); ex != nil || name == "" {
		return "Error", true
	}
	if message == "" {
		return name, true
	}
	return name + ": " + message, true
}

// printable is the text of a primitive value.
func printable(v goja.Value) string {
	if v == nil {
		return "undefined"
	}
	return v.String()
}

// own returns a text property of an object, "" if it is not a text.
func own(o *goja.Object, name string) string {
	if s, ok := o.Get(name).(goja.String); ok {
		return s.String()
	}
	return ""
}

// trace is a stack as the server prints it: a line name@file:line:column for each
// function, innermost first. What clients sent has no file; helpers are left out.
func trace(stack []goja.StackFrame) string {
	var b strings.Builder
	lines := 0
	for i := range stack {
		f := &stack[i]
		p := f.Position()
		if p.Line == 0 || f.SrcName() == preludeName {
			continue
		}
		if lines++; lines > maxFrames {
			break
		}
		name := f.FuncName()
		if name == "<anonymous>" {
			name = ""
		}
		fmt.Fprintf(&b, "%s@%s:%d:%d\n", name, f.SrcName(), p.Line, p.Column)
	}
	return b.String()
}

// throw throws err as a JavaScript error.
func (c *scope) throw(err error) { panic(c.vm.NewGoError(err)) }

// reject throws the error of an invalid argument of a constructor or a helper.
func (c *scope) reject(format string, args ...any) {
	c.throw(mongoerr.New(mongoerr.BadValue, "Error: "+format, args...))
}
