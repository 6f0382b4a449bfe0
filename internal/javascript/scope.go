package javascript

import (
	"context"
	"fmt"

	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxCalls is how deep calls may be nested.
const maxCalls = 1000

// scope is a runtime with its globals.
type scope struct {
	engine    *Engine
	vm        *goja.Runtime
	types     types
	functions map[*Function]goja.Callable
	emits     *emits
	stored    bool  // the stored functions are defined
	nested    int   // built-in functions that run inside each other
	broken    bool  // a call was stopped halfway; the runtime is unusable
	unseen    int64 // bytes allocated since the last check of the heap

	// generation counts calls: documents of an earlier call are invalid.
	generation uint64
	watch      watch
}

func newScope(e *Engine) *scope {
	c := &scope{engine: e, vm: goja.New(), functions: map[*Function]goja.Callable{}}
	c.watch.scope = c
	c.vm.SetMaxCallStackSize(maxCalls)
	c.vm.SetParserOptions(parser.WithDisableSourceMaps)
	return c
}

// setGlobals fills a new scope.
func (c *scope) setGlobals(s *Session) error {
	c.addTypes()
	c.addHelpers()
	c.addSums()
	if _, err := c.vm.RunProgram(c.engine.prelude); err != nil {
		return err
	}
	c.bound()
	if s.MapReduce {
		c.addEmit()
	}
	for it := s.Globals.Iter(); it.Next(); {
		if err := c.set(it.Key, it.Value.Clone()); err != nil {
			return err
		}
	}
	return nil
}

// set sets a global variable.
func (c *scope) set(name string, v bson.Value) (err error) {
	if ex := c.vm.Try(func() { err = c.vm.Set(name, c.lasting(v)) }); ex != nil {
		return ex
	}
	return err
}

// store defines the stored functions and values, documents of a system.js.
func (c *scope) store(docs []bson.Doc) error {
	for _, d := range docs {
		name := d.Lookup("_id")
		if name.Type != bson.TypeString {
			return mongoerr.New(mongoerr.Code(10209), "name has to be a string: %s", name)
		}
		v := d.Lookup("value")
		if v.IsMissing() {
			return mongoerr.New(mongoerr.Code(10210), "value has to be set")
		}
		if err := c.set(name.Str(), v); err != nil {
			return err
		}
	}
	return nil
}

// call calls a function, which may throw.
func (c *scope) call(f *Function, this goja.Value, args ...goja.Value) (goja.Value, error) {
	fn := c.functions[f]
	if fn == nil {
		v, err := c.vm.RunProgram(f.program)
		if err != nil {
			return nil, err
		}
		var ok bool
		if fn, ok = goja.AssertFunction(v); !ok {
			return nil, mongoerr.New(mongoerr.Code(10232), "not a function")
		}
		c.functions[f] = fn
	}
	return fn(this, args...)
}

// result is the BSON of what a function returned; getters may throw.
func (c *scope) result(v goja.Value) (result bson.Value, err error) {
	if ex := c.vm.Try(func() { result, err = c.write(v) }); ex != nil {
		return bson.Value{}, ex
	}
	return result, err
}

// run runs calls within the bounds of time and memory, and returns why they ended as an
// error.
func (c *scope) run(ctx context.Context, calls func(*scope) error) (err error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.engine.enter(ctx); err != nil {
		return err
	}
	defer c.engine.leave()
	c.watch.begin(ctx)
	thrown := c.guard(calls)
	c.generation++
	if cause := c.watch.end(); cause != nil {
		c.broken = true
		return cause
	}
	return thrown
}

// guard converts the end of the calls to an error, also a panic.
func (c *scope) guard(calls func(*scope) error) (err error) {
	defer func() {
		if x := recover(); x != nil {
			c.broken = true
			if e, ok := x.(error); ok && isUncatchable(e) {
				err = failed("InternalError: too much recursion")
				return
			}
			err = failed(fmt.Sprintf("InternalError: %v", x))
		}
	}()
	if err := calls(c); err != nil {
		return c.failure(err)
	}
	return nil
}
