package expr

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Sliding is an Accumulator over a window that documents also leave, in the
// order in which they entered it.
type Sliding interface {
	Accumulator
	// Remove takes out the document that has been in the window the longest.
	Remove(env *Env) error
}

// Frame reports whether a window function is given a window.
type Frame int

// The kinds of Frame.
const (
	FrameOptional Frame = iota // the whole partition if none is given
	FrameRequired
	FrameRunning // none: from the start of the partition to the document
)

// WindowSpec is a parsed accumulator of a $setWindowFields: {$sum: "$a"}.
type WindowSpec struct {
	// Name is the function's name, "$sum".
	Name string
	// Frame reports whether it takes a window.
	Frame Frame

	exprs []Expr
	grow  func(env *Env) (Accumulator, error)
	slide func(env *Env) (Sliding, error)
	print func() bson.Value
}

// Exprs returns the expressions evaluated for each document.
func (w *WindowSpec) Exprs() []Expr { return w.exprs }

// Serialize returns the argument as explain prints it.
func (w *WindowSpec) Serialize() bson.Value { return w.print() }

// Growing makes the accumulator of a window that documents only enter.
func (w *WindowSpec) Growing(env *Env) (Accumulator, error) { return w.grow(env) }

// Sliding makes the accumulator of a window that documents enter and leave.
func (w *WindowSpec) Sliding(env *Env) (Sliding, error) { return w.slide(env) }

// windowParser parses the argument of one window function; by is the sort of
// the partition.
type windowParser func(p *parser, name string, arg bson.Value, by WindowOrder) (*WindowSpec, error)

// windowFunctions is the registry, filled by the init functions of window_*.go.
var windowFunctions = map[string]windowParser{}

// IsWindowFunction reports whether ParseWindow knows name ("$sum").
func IsWindowFunction(name string) bool {
	_, ok := windowFunctions[name]
	return ok
}

// WindowOrder is the sort of a partition.
type WindowOrder struct {
	// Spec is the specification, or nil.
	Spec bson.Doc
	// Path is the field of the sort if there is exactly one, else "".
	Path string
}

// ParseWindow parses {name: arg}. Errors: those of the functions, most with the
// code FailedToParse.
func ParseWindow(name string, arg bson.Value, by WindowOrder, opts *Options) (*WindowSpec, error) {
	p := newParser(opts)
	w, err := windowFunctions[name](p, name, arg, by)
	if err != nil {
		return nil, err
	}
	for i := range w.exprs {
		if w.exprs[i], err = p.reduced(w.exprs[i]); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// registerWindow makes the accumulator of a group a window function. slide
// makes the state that gathers the values of a sliding window, from the accumulator of
// an empty group.
func registerWindow(name string, slide func(empty Accumulator) slidingState) {
	windowFunctions[name] = func(p *parser, name string, arg bson.Value, _ WindowOrder) (*WindowSpec, error) {
		s, err := accumulators[name](p, name, arg)
		if err != nil {
			return nil, err
		}
		w := &WindowSpec{Name: name, exprs: s.exprs}
		w.print = func() bson.Value { _, v := s.Serialize().Doc().First(); return v }
		w.grow = func(env *Env) (Accumulator, error) { return s.New(env, bson.Value{}) }
		w.slide = func(env *Env) (Sliding, error) {
			empty, err := s.New(env, bson.Value{})
			if err != nil {
				return nil, err
			}
			return &slider{state: slide(empty), input: s.exprs[0].Eval}, nil
		}
		return w, nil
	}
}

// slidingState is what a sliding window gathers of the values in q.
type slidingState interface {
	// add takes in v, which is the last of q.
	add(env *Env, q *queue, v bson.Value) error
	// remove takes out v, which was the first of q.
	remove(env *Env, q *queue, v bson.Value) error
	result(q *queue) (bson.Value, error)
	size() int
}

// slider is a Sliding that keeps the values of its documents.
type slider struct {
	input func(env *Env) (bson.Value, error)
	q     queue
	state slidingState
}

// sliderBytes is what a slider costs besides its values.
const sliderBytes = 128

func (s *slider) Add(env *Env) error {
	v, err := s.input(env)
	if err != nil {
		return err
	}
	v = v.Clone()
	s.q.push(v)
	if s.q.bytes > largeValue {
		// The result may be a copy of all, which is copied into its document.
		if err := env.holdLarge(2 * s.q.bytes); err != nil {
			return err
		}
	}
	return s.state.add(env, &s.q, v)
}

func (s *slider) Remove(env *Env) error { return s.state.remove(env, &s.q, s.q.pop()) }

func (s *slider) Result() (bson.Value, error) { return s.state.result(&s.q) }
func (s *slider) Size() int                   { return sliderBytes + s.q.bytes + s.state.size() }

// queue holds the values of a window, the oldest first. Missing values count.
type queue struct {
	values []bson.Value
	head   int // values before it have left
	bytes  int
}

func (q *queue) len() int              { return len(q.values) - q.head }
func (q *queue) at(i int) bson.Value   { return q.values[q.head+i] }
func (q *queue) in() []bson.Value      { return q.values[q.head:] }
func (q *queue) cost(v bson.Value) int { return len(v.Data) + keptOverhead }

func (q *queue) push(v bson.Value) {
	if q.head > 64 && q.head > len(q.values)/2 {
		q.values = slices.Delete(q.values, 0, q.head)
		q.head = 0
	}
	q.values = append(q.values, v)
	q.bytes += q.cost(v)
}

func (q *queue) pop() bson.Value {
	v := q.values[q.head]
	q.values[q.head] = bson.Value{}
	q.head++
	q.bytes -= q.cost(v)
	return v
}

// stateless is the slidingState of functions whose result is read off the
// queue.
type stateless struct {
	of func(q *queue) (bson.Value, error)
}

func (stateless) add(*Env, *queue, bson.Value) error            { return nil }
func (stateless) remove(*Env, *queue, bson.Value) error         { return nil }
func (s stateless) result(q *queue) (bson.Value, error)         { return s.of(q) }
func (stateless) size() int                                     { return 0 }
func fromQueue(of func(q *queue) (bson.Value, error)) stateless { return stateless{of} }

// failedToParse is the error of a wrong argument of a window function.
func failedToParse(format string, args ...any) error {
	return mongoerr.New(mongoerr.FailedToParse, format, args...)
}
