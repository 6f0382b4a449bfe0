package javascript

import (
	"strconv"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
)

const (
	// maxCharacters and maxElements are how many characters or elements one call of a
	// built-in function may go through or make.
	maxCharacters = 16 << 20
	maxElements   = 4 << 20
	// maxNative is how deep built-in functions may call each other.
	maxNative = 200
	// maxJSONNesting is how deep a text for JSON.parse may nest.
	maxJSONNesting = 1000
	// maxMatch is how long one search of a regular expression may take.
	maxMatch = 2 * time.Second
)

// withheld has globals of the engine that functions do not get: those that allocate
// much at once, or make chains that the engine follows by recursion.
var withheld = []string{
	"Proxy", "BigInt", "BigInt64Array", "BigUint64Array", "ArrayBuffer", "SharedArrayBuffer", "DataView", "Int8Array", "Uint8Array",
	"Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array",
}

func init() {
	// The engine treats a search that timed out as one without a match, so boundSearch
	// checks the time. Package pcre gives each of its expressions a limit of its own.
	regexp2.DefaultMatchTimeout = maxMatch
}

// measure estimates the work of a call of a built-in function.
type measure func(goja.FunctionCall) (size, limit int64)

// bound replaces the built-in functions in which one instruction does more work than
// can be interrupted.
func (c *scope) bound() {
	for _, name := range withheld {
		c.rejectOn(c.vm.GlobalObject().Delete(name))
	}
	text, array, re := c.prototype("String"), c.prototype("Array"), c.prototype("RegExp")
	c.limit(text, "repeat", func(call goja.FunctionCall) (int64, int64) {
		return product(lengthOf(call.This), max(call.Argument(0).ToInteger(), 0)), maxCharacters
	})
	for _, name := range []string{"padStart", "padEnd"} {
		c.limit(text, name, func(call goja.FunctionCall) (int64, int64) { return call.Argument(0).ToInteger(), maxCharacters })
	}
	c.limit(text, "concat", func(call goja.FunctionCall) (int64, int64) {
		n := lengthOf(call.This)
		for _, a := range call.Arguments {
			n += stringLength(a)
		}
		return n, maxCharacters
	})
	c.limit(c.vm.Get("String").ToObject(c.vm), "raw", func(call goja.FunctionCall) (int64, int64) {
		if o, ok := call.Argument(0).(*goja.Object); ok {
			return lengthOf(o.Get("raw")), maxElements
		}
		return 0, maxElements
	})
	for _, name := range []string{"split", "match", "matchAll", "search", "normalize", "toLowerCase", "toUpperCase", "toLocaleLowerCase", "toLocaleUpperCase"} {
		c.limit(text, name, ofThis)
	}
	c.limitSymbol(text, goja.SymIterator, ofThis)
	replaced := func(s, by goja.Value) (int64, int64) {
		return product(lengthOf(s), max(stringLength(by), 1)), maxCharacters
	}
	for _, name := range []string{"replace", "replaceAll"} {
		c.limit(text, name, func(call goja.FunctionCall) (int64, int64) { return replaced(call.This, call.Argument(1)) })
	}
	c.limitSymbol(re, goja.SymReplace, func(call goja.FunctionCall) (int64, int64) { return replaced(call.Argument(0), call.Argument(1)) })
	for _, name := range []string{
		"copyWithin", "entries", "every", "fill", "filter", "find", "findIndex", "findLast", "findLastIndex", "flatMap", "forEach", "includes",
		"indexOf", "keys", "lastIndexOf", "map", "reduce", "reduceRight", "reverse", "shift", "slice", "some", "sort", "splice",
		"toLocaleString", "toReversed", "toSorted", "toSpliced", "toString", "unshift", "values", "with",
	} {
		c.limit(array, name, ofThis)
	}
	c.orderByYes(array, "sort")
	c.orderByYes(array, "toSorted")
	c.limitSymbol(array, goja.SymIterator, ofThis)
	c.limit(array, "join", joined)
	c.limit(array, "concat", func(call goja.FunctionCall) (int64, int64) {
		n := lengthOf(call.This)
		for _, a := range call.Arguments {
			n += lengthOf(a)
		}
		return n, maxElements
	})
	argument := func(i int) measure {
		return func(call goja.FunctionCall) (int64, int64) { return lengthOf(call.Argument(i)), maxElements }
	}
	c.limit(c.vm.Get("Array").ToObject(c.vm), "from", argument(0))
	c.limit(c.prototype("Function"), "apply", argument(1))
	c.limit(c.vm.Get("Reflect").ToObject(c.vm), "apply", argument(2))
	c.limit(c.vm.Get("Reflect").ToObject(c.vm), "construct", argument(1))
	c.boundSearch(re)
	c.boundJSON()
	c.boundCompilation()
}

// ofThis measures a method by the length of its object.
func ofThis(call goja.FunctionCall) (size, limit int64) {
	if _, ok := call.This.(goja.String); ok {
		return lengthOf(call.This), maxCharacters
	}
	return lengthOf(call.This), maxElements
}

// joined measures a join by the strings among the elements.
func joined(call goja.FunctionCall) (size, limit int64) {
	n := lengthOf(call.This)
	if n > maxElements {
		return n, maxElements
	}
	size = n
	if _, ok := call.Argument(0).(goja.String); ok {
		size = product(n, lengthOf(call.Argument(0)))
	}
	if o, ok := call.This.(*goja.Object); ok {
		for i := range n {
			size += stringLength(o.Get(strconv.FormatInt(i, 10)))
		}
	}
	return size, maxCharacters
}

// product is a·b, or too much where one of them is.
func product(a, b int64) int64 {
	if a > maxCharacters || b > maxCharacters {
		return maxCharacters + 1
	}
	return a * b
}

// lengthOf is the length of a string, an array or what looks like one, else 0.
func lengthOf(v goja.Value) int64 {
	switch v := v.(type) {
	case goja.String:
		return int64(v.Length())
	case *goja.Object:
		if n := v.Get("length"); n != nil && goja.IsNumber(n) {
			return n.ToInteger()
		}
	}
	return 0
}

// stringLength is the length of a string, 0 of anything else.
func stringLength(v goja.Value) int64 {
	if s, ok := v.(goja.String); ok {
		return int64(s.Length())
	}
	return 0
}

// prototype is the prototype of a built-in class.
func (c *scope) prototype(class string) *goja.Object {
	return c.vm.Get(class).ToObject(c.vm).Get("prototype").ToObject(c.vm)
}

// limit replaces a method by one that fails if it would do too much.
func (c *scope) limit(o *goja.Object, name string, m measure) {
	if method, ok := nativeOf(o.Get(name)); ok {
		c.function(o, name, c.limited(name, method, m))
	}
}

func (c *scope) limitSymbol(o *goja.Object, name *goja.Symbol, m measure) {
	if method, ok := nativeOf(o.GetSymbol(name)); ok {
		c.setSymbol(o, name, c.limited(name.String(), method, m))
	}
}

func (c *scope) setSymbol(o *goja.Object, name *goja.Symbol, f func(goja.FunctionCall) goja.Value) {
	c.rejectOn(o.DefineDataPropertySymbol(name, c.vm.ToValue(f), goja.FLAG_TRUE, goja.FLAG_TRUE, goja.FLAG_FALSE))
}

// nativeOf is a built-in function.
func nativeOf(v goja.Value) (func(goja.FunctionCall) goja.Value, bool) {
	if v == nil {
		return nil, false
	}
	f, ok := v.Export().(func(goja.FunctionCall) goja.Value)
	return f, ok
}

func (c *scope) limited(name string, method func(goja.FunctionCall) goja.Value, m measure) func(goja.FunctionCall) goja.Value {
	return func(call goja.FunctionCall) goja.Value {
		size, limit := m(call)
		if size > limit || size < 0 {
			c.throw(failed("RangeError: too much for one call of " + name))
		}
		c.made(elementBytes * size)
		c.nested++
		defer func() { c.nested-- }()
		if c.nested > maxNative {
			c.throw(failed("InternalError: too much recursion"))
		}
		if c.watch.stopped.Load() {
			c.poll()
		}
		return method(call)
	}
}

// poll ends a call that was interrupted, which only JavaScript code notices.
func (c *scope) poll() {
	if _, err := c.vm.RunString("0"); err != nil {
		c.rethrow(err)
	}
}

// boundSearch returns an error from a regular expression search that took too long.
func (c *scope) boundSearch(re *goja.Object) {
	for _, name := range []string{"exec", "test"} {
		if search, ok := nativeOf(re.Get(name)); ok {
			c.function(re, name, c.timed(search))
		}
	}
	for _, name := range []*goja.Symbol{goja.SymMatch, goja.SymMatchAll, goja.SymReplace, goja.SymSearch, goja.SymSplit} {
		if search, ok := nativeOf(re.GetSymbol(name)); ok {
			c.setSymbol(re, name, c.timed(search))
		}
	}
}

func (c *scope) timed(search func(goja.FunctionCall) goja.Value) func(goja.FunctionCall) goja.Value {
	return func(call goja.FunctionCall) goja.Value {
		start := time.Now()
		v := search(call)
		if time.Since(start) >= maxMatch {
			c.throw(failed("Error: a regular expression takes more than " + maxMatch.String()))
		}
		return v
	}
}

// boundJSON bounds how deep the texts nest that JSON.parse reads. (prelude.js has
// a JSON.stringify that can be stopped.)
func (c *scope) boundJSON() {
	json := c.vm.Get("JSON").ToObject(c.vm)
	c.limit(json, "parse", func(call goja.FunctionCall) (int64, int64) {
		text := call.Argument(0).String()
		if len(text) > maxCharacters {
			return int64(len(text)), maxCharacters
		}
		open, deepest := 0, 0
		for i := range len(text) {
			switch text[i] {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open = max(open-1, 0)
			}
		}
		return int64(deepest), maxJSONNesting
	})
}

// boundCompilation checks texts for eval and the constructors of functions. eval no
// longer sees local variables.
func (c *scope) boundCompilation() {
	c.helper("eval", func(args arguments) goja.Value {
		text, ok := args.at(0).(goja.String)
		if !ok {
			return args.at(0)
		}
		program, err := compileProgram(text.String())
		if err != nil {
			c.throw(err)
		}
		v, err := c.vm.RunProgram(program)
		c.rejectOn(err)
		return v
	})
	for _, kind := range []string{"function", "async function", "function*"} {
		v, err := c.vm.RunString("(" + kind + "(){})")
		c.rejectOn(err)
		c.boundConstructor(kind, v.ToObject(c.vm).Prototype())
	}
}

// boundConstructor replaces the constructor of a kind of functions, which their
// prototype names.
func (c *scope) boundConstructor(kind string, prototype *goja.Object) {
	old, ok := goja.AssertConstructor(prototype.Get("constructor"))
	if !ok {
		return
	}
	constructor := c.vm.ToValue(func(call goja.ConstructorCall) *goja.Object {
		var texts []string
		for _, a := range call.Arguments {
			texts = append(texts, a.String())
		}
		if err := checkFunction(texts); err != nil {
			c.throw(err)
		}
		o, err := old(nil, call.Arguments...)
		c.rejectOn(err)
		if len(texts) == 0 {
			return o
		}
		// The engine has reported errors in the texts. Its function is compiled without
		// the additions of compileProgram.
		body := len(texts) - 1
		program, err := compileProgram("(" + kind + " anonymous(" + strings.Join(texts[:body], ",") + "\n) {\n" + texts[body] + "\n})")
		c.rejectOn(err)
		v, err := c.vm.RunProgram(program)
		c.rejectOn(err)
		return v.ToObject(c.vm)
	}).ToObject(c.vm)
	name := prototype.Get("constructor").ToObject(c.vm).Get("name")
	c.hide(constructor, "name", name)
	c.rejectOn(constructor.Set("prototype", prototype))
	c.hide(prototype, "constructor", constructor)
	if name.String() == "Function" {
		c.hide(c.vm.GlobalObject(), "Function", constructor)
	}
}
