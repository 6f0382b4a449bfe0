package expr

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	for _, name := range []string{"$top", "$bottom", "$topN", "$bottomN"} {
		windowFunctions[name] = parseTopWindow
	}
}

func parseTopWindow(p *parser, name string, arg bson.Value, _ WindowOrder) (*WindowSpec, error) {
	s, err := parseTop(p, name, arg)
	if err != nil {
		return nil, err
	}
	w := &WindowSpec{Name: name, exprs: s.exprs}
	w.print = func() bson.Value { return s.print(s) }
	w.grow = func(env *Env) (Accumulator, error) { return s.New(env, bson.Value{}) }
	w.slide = func(env *Env) (Sliding, error) {
		empty, err := s.New(env, bson.Value{})
		if err != nil {
			return nil, err
		}
		return &slidingTop{topState: empty.(*topState)}, nil
	}
	return w, nil
}

// slidingTop keeps the outputs of all documents of a window in the order of
// their keys; equal keys keep the order in which they came.
type slidingTop struct {
	*topState
	entered []topValue // in the order in which they came; head of them have left
	head    int
}

func (t *slidingTop) Add(env *Env) (err error) {
	if t.key, err = t.keys.Append(t.key[:0], env.root); err != nil {
		return err
	}
	output, err := t.output.Eval(env)
	if err != nil {
		return err
	}
	t.seq++
	v := topValue{kept{orNull(output).Clone(), t.seq}, bytes.Clone(t.key)}
	if t.head > 64 && t.head > len(t.entered)/2 {
		t.entered = slices.Delete(t.entered, 0, t.head)
		t.head = 0
	}
	t.entered = append(t.entered, v)
	at, _ := slices.BinarySearchFunc(t.values, v, t.before)
	t.values = slices.Insert(t.values, at, v)
	t.bytes += t.size(v)
	return overBudget(t.name, t.bytes)
}

func (t *slidingTop) Remove(*Env) error {
	v := t.entered[t.head]
	t.entered[t.head] = topValue{}
	t.head++
	at, _ := slices.BinarySearchFunc(t.values, v, t.before)
	t.values = slices.Delete(t.values, at, at+1)
	t.bytes -= t.size(v)
	return nil
}

func (t *slidingTop) Result() (bson.Value, error) {
	n := min(t.n, len(t.values))
	shown := t.values[:n]
	if t.bottom {
		shown = t.values[len(t.values)-n:]
	}
	if t.single {
		if n == 0 {
			return bson.Null, nil
		}
		return shown[0].value, nil
	}
	vs := make([]bson.Value, n)
	for i, v := range shown {
		vs[i] = v.value
	}
	return new(Env).array(vs)
}
