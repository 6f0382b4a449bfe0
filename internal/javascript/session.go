package javascript

import (
	"context"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Session is what all JavaScript of one operation shares: the globals of its
// scope, which is made with the first call. One goroutine at a time uses it. A
// nil Session stands for a server that runs no JavaScript.
//
// The methods end with the context; their errors are *mongoerr.Error or the
// context's cause. Documents and arguments need only stay as they are until the
// call returns; results are the caller's.
type Session struct {
	Engine *Engine
	// Globals become global variables: the `scope` of a mapReduce.
	Globals bson.Doc
	// Library has the functions that the database stores, for $where and for a
	// mapReduce; it may be nil.
	Library Library
	// MapReduce says that the operation is a mapReduce: every function may call the
	// stored ones, and emit.
	MapReduce bool

	scope *scope
}

// Library reads the functions that a database stores (its system.js), documents
// {_id: name, value: …}.
type Library interface {
	Stored(ctx context.Context) ([]bson.Doc, error)
}

// Test calls a $where: doc is this and the global obj. It tells whether the
// result is true.
func (s *Session) Test(ctx context.Context, f *Function, doc bson.Doc) (result bool, err error) {
	err = s.run(ctx, true, func(c *scope) error {
		this := c.document(doc)
		c.vm.Set("obj", this)
		c.vm.Set("fullObject", true)
		v, err := c.call(f, this)
		if err == nil {
			result = v.ToBoolean()
		}
		return err
	})
	return result, err
}

// Call calls a function with those arguments.
func (s *Session) Call(ctx context.Context, f *Function, args ...bson.Value) (result bson.Value, err error) {
	err = s.run(ctx, s.MapReduce, func(c *scope) error {
		v, err := c.call(f, c.vm.NewObject(), c.values(args)...)
		if err == nil {
			result, err = c.result(v)
		}
		return err
	})
	return result, err
}

// Fold calls f(state, …) for one array of further arguments after the other; each
// result is the next state.
func (s *Session) Fold(ctx context.Context, f *Function, state bson.Value, calls []bson.Value) (result bson.Value, err error) {
	err = s.run(ctx, s.MapReduce, func(c *scope) error {
		v := c.read(state)
		for _, args := range calls {
			all := append([]goja.Value{v}, c.values(args.Doc().Slice())...)
			if v, err = c.call(f, c.vm.NewObject(), all...); err != nil {
				return err
			}
		}
		result, err = c.result(v)
		return err
	})
	return result, err
}

// Emit calls the map function of a mapReduce, doc being this, and returns what it
// emits: an array of {k: key, v: value}.
func (s *Session) Emit(ctx context.Context, f *Function, doc bson.Doc) (emitted bson.Value, err error) {
	err = s.run(ctx, s.MapReduce, func(c *scope) error {
		if c.emits == nil {
			c.addEmit()
		}
		c.emits.start()
		_, err := c.call(f, c.document(doc))
		emitted = c.emits.finish()
		return err
	})
	return emitted, err
}

// run runs calls in the scope, which it makes if there is none.
func (s *Session) run(ctx context.Context, stored bool, calls func(*scope) error) error {
	if s.scope == nil || s.scope.broken {
		s.scope = newScope(s.Engine)
		if err := s.scope.run(ctx, func(c *scope) error { return c.setGlobals(s) }); err != nil {
			return err
		}
	}
	if stored && !s.scope.stored && s.Library != nil {
		docs, err := s.Library.Stored(ctx)
		if err != nil {
			return err
		}
		s.scope.stored = true
		if err := s.scope.run(ctx, func(c *scope) error { return c.store(docs) }); err != nil {
			return err
		}
	}
	return s.scope.run(ctx, calls)
}
