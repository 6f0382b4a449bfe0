package expr

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerWindow("$min", func(Accumulator) slidingState { return &slidingExtreme{sense: -1} })
	registerWindow("$max", func(Accumulator) slidingState { return &slidingExtreme{sense: 1} })
	registerWindow("$minN", func(empty Accumulator) slidingState {
		s := gathered[*extremeN](empty)
		return &sorted{n: s.n, sense: 1, name: "$minN"}
	})
	registerWindow("$maxN", func(empty Accumulator) slidingState {
		s := gathered[*extremeN](empty)
		return &sorted{n: s.n, sense: -1, name: "$maxN"}
	})
}

// slidingExtreme is $min (sense -1) or $max (sense 1) of a sliding window. It
// keeps the values that may still become the result: each is better than all
// that came after it, so the first is the result, and a value is dropped as
// soon as a better one enters.
type slidingExtreme struct {
	sense   int
	entered int // values that have entered
	left    int // values that have left
	best    []kept
	bytes   int
}

func (x *slidingExtreme) add(env *Env, _ *queue, v bson.Value) error {
	x.entered++
	if v.IsNullish() {
		return nil
	}
	for n := len(x.best); n > 0; n-- {
		c := env.compare(v, x.best[n-1].value) * x.sense
		if c < 0 || c == 0 && x.sense < 0 {
			break
		}
		x.bytes -= keptOverhead
		x.best = x.best[:n-1]
	}
	x.best = append(x.best, kept{v, x.entered})
	x.bytes += keptOverhead
	return nil
}

func (x *slidingExtreme) remove(_ *Env, _ *queue, _ bson.Value) error {
	x.left++
	if len(x.best) > 0 && x.best[0].seq <= x.left {
		x.best = x.best[1:]
		x.bytes -= keptOverhead
	}
	return nil
}

func (x *slidingExtreme) result(*queue) (bson.Value, error) {
	if len(x.best) == 0 {
		return bson.Null, nil
	}
	return x.best[0].value, nil
}

func (x *slidingExtreme) size() int { return 64 + x.bytes }

// sorted is the n least values of a sliding window in the order of sense: 1 for
// ascending, -1 for descending. Equal values keep their order.
type sorted struct {
	name          string
	n, sense      int
	entered, left int // how many values have
	all           []kept
}

func (s *sorted) order(env *Env) func(a, b kept) int {
	return func(a, b kept) int {
		if c := env.compare(a.value, b.value) * s.sense; c != 0 {
			return c
		}
		return a.seq - b.seq
	}
}

func (s *sorted) add(env *Env, _ *queue, v bson.Value) error {
	s.entered++
	if v.IsNullish() {
		return nil
	}
	k := kept{v, s.entered}
	at, _ := slices.BinarySearchFunc(s.all, k, s.order(env))
	s.all = slices.Insert(s.all, at, k)
	return overBudget(s.name, len(s.all)*keptOverhead)
}

func (s *sorted) remove(env *Env, _ *queue, v bson.Value) error {
	s.left++
	if v.IsNullish() {
		return nil
	}
	at, _ := slices.BinarySearchFunc(s.all, kept{v, s.left}, s.order(env))
	s.all = slices.Delete(s.all, at, at+1)
	return nil
}

func (s *sorted) result(*queue) (bson.Value, error) {
	vs := make([]bson.Value, min(s.n, len(s.all)))
	for i := range vs {
		vs[i] = s.all[i].value
	}
	return new(Env).array(vs)
}

func (s *sorted) size() int { return 64 + len(s.all)*keptOverhead }
