package expr

import (
	"bytes"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// summation is the total of $sum and $avg. Integers and doubles are added up in
// twofold precision, so that the order of the values hardly matters; decimals
// have a total of their own.
type summation struct {
	total    twofold
	special  float64 // the plain sum: infinities and NaN, which break total
	decimal  bson.Decimal128
	decimals bool
	widest   bson.Type
	count    int64 // numbers added
	rough    bool  // longs are added as doubles, as $avg does outside $group
}

// add takes in v if it is a number.
func (s *summation) add(v bson.Value) {
	if !v.IsNumber() {
		return
	}
	s.count++
	s.widest = wider(s.widest, v.Type)
	switch v.Type {
	case bson.TypeInt32:
		s.addDouble(float64(v.Int32()))
	case bson.TypeInt64:
		i := v.Int64()
		if s.rough {
			s.addDouble(float64(i))
			break
		}
		s.addDouble(float64(i >> 32 << 32))
		s.addDouble(float64(i & (1<<32 - 1)))
	case bson.TypeDouble:
		s.addDouble(v.Double())
	case bson.TypeDecimal:
		s.addDecimal(v.Decimal())
	}
}

func (s *summation) addDecimal(d bson.Decimal128) {
	if !s.decimals {
		s.decimals, s.decimal = true, decimalZero
	}
	s.decimal = s.decimal.Add(d)
}

// join adds the numbers of another sum, except for its decimals.
func (s *summation) join(o *summation) {
	special := s.special + o.special
	if s.count == 0 {
		s.total = o.total
	} else if o.count > 0 {
		s.addDouble(o.total.hi)
		s.addDouble(o.total.lo)
	}
	s.special, s.count = special, s.count+o.count
	if o.count > 0 {
		s.widest = wider(s.widest, o.widest)
	}
}

func (s *summation) addDouble(f float64) {
	s.special += f
	sum := twoSum(s.total.hi, f)
	s.total = quickSum(sum.hi, sum.lo+s.total.lo)
}

func (s *summation) double() float64 {
	if math.IsNaN(s.total.hi) || math.IsNaN(s.total.lo) {
		return s.special
	}
	return s.total.hi
}

// long is the total as a long, if it is in range.
func (s *summation) long() (i int64, ok bool) {
	hi, lo := s.total.hi, int64(s.total.lo)
	switch {
	case hi >= -1<<63 && hi < 1<<63:
		i = int64(hi)
		return i + lo, (i < 0) == (i+lo < 0) || (i < 0) != (lo < 0)
	case hi == 1<<63 && lo < 0:
		return math.MaxInt64 + (lo + 1), true
	}
	return 0, false
}

// decimalTotal is the total of all numbers, as a decimal.
func (s *summation) decimalTotal() bson.Decimal128 {
	rest := exactDecimal(s.double())
	if s.total.lo != 0 && !math.IsNaN(s.total.lo) {
		rest = rest.Add(exactDecimal(s.total.lo))
	}
	if !s.decimals {
		return rest
	}
	return s.decimal.Add(rest)
}

// exactDecimal is f with 34 digits, or as many as it has.
func exactDecimal(f float64) bson.Decimal128 {
	d := bson.DecimalFromDouble(f, decimalDigits)
	if d.IsNaN() || d.IsInf() != 0 {
		return d
	}
	var buf [2 * decimalDigits]byte
	digits, exp := d.Digits(buf[:0])
	zeros := len(digits) - len(bytes.TrimRight(digits, "0"))
	if shorter, ok := d.WithExponent(min(0, exp+zeros)); ok {
		return shorter
	}
	return d
}

// sum is the result of $sum: an int or a long if all numbers were such and
// the total is in range.
func (s *summation) sum() bson.Value {
	switch s.widest {
	case bson.TypeDecimal:
		return bson.Decimal(s.decimalTotal())
	case bson.TypeDouble:
		return bson.Double(s.double())
	}
	i, ok := s.long()
	switch {
	case !ok:
		return bson.Double(s.double())
	case s.widest == bson.TypeInt64:
		return bson.Int64(i)
	}
	return bson.Int(i)
}

// average is the result of $avg: null without numbers.
func (s *summation) average() bson.Value {
	switch {
	case s.count == 0:
		return bson.Null
	case s.decimals:
		return bson.Decimal(s.decimalTotal().Divide(bson.DecimalFromInt64(s.count)))
	}
	return bson.Double(s.double() / float64(s.count))
}
