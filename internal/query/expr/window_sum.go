package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	sum := func(Accumulator) slidingState { return &slidingSum{} }
	registerWindow("$sum", sum)
	registerWindow("$count", sum)
	registerWindow("$avg", func(Accumulator) slidingState { return &slidingSum{average: true} })
}

// slidingSum is $sum or $avg of a sliding window.
type slidingSum struct {
	removableSum
	average bool
}

func (s *slidingSum) add(_ *Env, _ *queue, v bson.Value) error {
	s.update(v, 1)
	return nil
}

func (s *slidingSum) remove(_ *Env, _ *queue, v bson.Value) error {
	s.update(v, -1)
	return nil
}

func (s *slidingSum) result(*queue) (bson.Value, error) {
	if !s.average {
		return s.value(), nil
	}
	n := s.count()
	switch {
	case n == 0:
		return bson.Null, nil
	case s.decimals > 0:
		return bson.Decimal(bson.ToDecimal(s.value()).Divide(bson.DecimalFromInt64(n))), nil
	}
	return bson.Double(bson.ToDouble(s.value()) / float64(n)), nil
}

func (s *slidingSum) size() int { return sumBytes }

// removableSum is a sum of numbers that can be taken out again. Infinities and
// NaN are counted, not added, so that they leave no trace.
type removableSum struct {
	finite                      summation
	integers, doubles, decimals int64
	positive, negative, nan     int64 // infinities and NaN
}

func (s *removableSum) count() int64 { return s.integers + s.doubles + s.decimals }

// update takes a number in (n 1) or out (n -1); other values are ignored.
func (s *removableSum) update(v bson.Value, n int64) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		s.integers += n
	case bson.TypeDouble:
		s.doubles += n
	case bson.TypeDecimal:
		s.decimals += n
	default:
		return
	}
	switch class := infinity(v); {
	case v.IsNaN():
		s.nan += n
	case class > 0:
		s.positive += n
	case class < 0:
		s.negative += n
	case n < 0:
		s.finite.add(negated(v))
	default:
		s.finite.add(v)
	}
	if s.count() == 0 {
		*s = removableSum{}
	}
}

// infinity is 1 or -1 for the infinite doubles and decimals, else 0.
func infinity(v bson.Value) int {
	switch v.Type {
	case bson.TypeDouble:
		if math.IsInf(v.Double(), 0) {
			return int(math.Copysign(1, v.Double()))
		}
	case bson.TypeDecimal:
		return v.Decimal().IsInf()
	}
	return 0
}

// negated is -v. The least integers become doubles, which are exact.
func negated(v bson.Value) bson.Value {
	switch v.Type {
	case bson.TypeInt32:
		return bson.Int64(-int64(v.Int32()))
	case bson.TypeInt64:
		if v.Int64() == math.MinInt64 {
			return bson.Double(-float64(math.MinInt64))
		}
		return bson.Int64(-v.Int64())
	case bson.TypeDouble:
		return bson.Double(-v.Double())
	}
	return bson.Decimal(v.Decimal().Neg())
}

// value is the sum: a decimal or a double if one is in, else of the
// narrowest type that holds it.
func (s *removableSum) value() bson.Value {
	if s.nan+s.positive+s.negative > 0 {
		return s.nonFinite()
	}
	sum := s.finite
	switch {
	case s.decimals > 0:
		sum.widest = bson.TypeDecimal
	case s.doubles > 0:
		sum.widest = bson.TypeDouble
	default:
		sum.widest = bson.TypeInt32
	}
	return sum.sum()
}

func (s *removableSum) nonFinite() bson.Value {
	f := math.Inf(1)
	switch {
	case s.nan > 0 || s.positive > 0 && s.negative > 0:
		f = math.NaN()
	case s.negative > 0:
		f = math.Inf(-1)
	}
	if s.decimals > 0 {
		return bson.Decimal(bson.DecimalFromDouble(f, decimalDigits))
	}
	return bson.Double(f)
}
