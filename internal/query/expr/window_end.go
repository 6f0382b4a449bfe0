package expr

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerWindow("$first", func(Accumulator) slidingState {
		return fromQueue(func(q *queue) (bson.Value, error) { return q.edge(0), nil })
	})
	registerWindow("$last", func(Accumulator) slidingState {
		return fromQueue(func(q *queue) (bson.Value, error) { return q.edge(q.len() - 1), nil })
	})
	registerWindow("$firstN", func(empty Accumulator) slidingState {
		n := gathered[*firstNState](empty).n
		return fromQueue(func(q *queue) (bson.Value, error) { return new(Env).array(q.in()[:min(n, q.len())]) })
	})
	registerWindow("$lastN", func(empty Accumulator) slidingState {
		n := gathered[*lastNState](empty).n
		return fromQueue(func(q *queue) (bson.Value, error) { return new(Env).array(q.in()[max(0, q.len()-n):]) })
	})
	registerWindow("$push", func(Accumulator) slidingState { return fromQueue(pushed) })
	registerWindow("$concatArrays", func(Accumulator) slidingState { return concatenated{} })
}

// gathered is the state of the accumulator of one expression.
func gathered[S state](a Accumulator) S { return a.(interface{ inner() state }).inner().(S) }

// edge is the value at i, or null if the window is empty or the value
// missing.
func (q *queue) edge(i int) bson.Value {
	if q.len() == 0 {
		return bson.Null
	}
	return orNull(q.at(i))
}

// pushed is the array of all values but missing ones.
func pushed(q *queue) (bson.Value, error) {
	there := slices.DeleteFunc(slices.Clone(q.in()), bson.Value.IsMissing)
	return new(Env).array(there)
}

// concatenated is the concatenation of the arrays of a window.
type concatenated struct{ stateless }

func (concatenated) add(_ *Env, _ *queue, v bson.Value) error { return needArray("$concatArrays", v) }

func (concatenated) result(q *queue) (bson.Value, error) {
	var l list
	for _, v := range q.in() {
		if v.IsMissing() {
			continue
		}
		for it := v.Doc().Iter(); it.Next(); {
			if err := l.append(nil, "$concatArrays", it.Value); err != nil {
				return bson.Value{}, err
			}
		}
	}
	return l.value(), nil
}
