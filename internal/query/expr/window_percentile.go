package expr

import (
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	for _, name := range []string{"$percentile", "$median"} {
		registerWindow(name, func(empty Accumulator) slidingState {
			return &slidingQuantiles{q: gathered[*percentileState](empty).q}
		})
	}
}

// slidingQuantiles is $percentile or $median of a sliding window: of its
// numbers, kept in order.
type slidingQuantiles struct {
	q       *quantiles
	numbers []float64
}

// number is v as one of the numbers; NaN is none.
func (s *slidingQuantiles) number(v bson.Value) (f float64, ok bool) {
	if !v.IsNumber() {
		return 0, false
	}
	f = bson.ToDouble(v)
	return f, !math.IsNaN(f)
}

func (s *slidingQuantiles) add(_ *Env, _ *queue, v bson.Value) error {
	if f, ok := s.number(v); ok {
		at, _ := slices.BinarySearch(s.numbers, f)
		s.numbers = slices.Insert(s.numbers, at, f)
	}
	return nil
}

func (s *slidingQuantiles) remove(_ *Env, _ *queue, v bson.Value) error {
	if f, ok := s.number(v); ok {
		at, _ := slices.BinarySearch(s.numbers, f)
		s.numbers = slices.Delete(s.numbers, at, at+1)
	}
	return nil
}

func (s *slidingQuantiles) result(*queue) (bson.Value, error) {
	vs := make([]bson.Value, len(s.q.ps))
	for i, p := range s.q.ps {
		vs[i] = bson.Null
		if n := len(s.numbers); n > 0 {
			rank := int(math.Ceil(p*float64(n))) - 1
			vs[i] = bson.Double(s.numbers[max(rank, 0)])
		}
	}
	if s.q.name == "$median" {
		return vs[0], nil
	}
	return bson.Array(vs...), nil
}

func (s *slidingQuantiles) size() int { return 64 + 8*cap(s.numbers) }
