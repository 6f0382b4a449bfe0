package expr

import (
	"math"
	"math/bits"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerNary("$add", 0, anyNumber, evalAdd)
	registerBinary("$subtract", evalSubtract)
}

// addition is the running sum of $add: separate sums of integers, doubles and
// decimals, and the widest type seen. Integers move to the doubles when their
// sum overflows.
type addition struct {
	long    int64
	double  float64
	decimal bson.Decimal128
	widest  bson.Type
	date    bool
	millis  int64 // the date
}

// wider is the wider one of two numeric types, int < long < double < decimal.
func wider(a, b bson.Type) bson.Type {
	if numericRank[b] > numericRank[a] {
		return b
	}
	return a
}

var numericRank = [256]uint8{bson.TypeInt32: 1, bson.TypeInt64: 2, bson.TypeDouble: 3, bson.TypeDecimal: 4}

func (s *addition) add(v bson.Value) {
	s.widest = wider(s.widest, v.Type)
	switch v.Type {
	case bson.TypeInt32:
		s.addLong(int64(v.Int32()))
	case bson.TypeInt64:
		s.addLong(v.Int64())
	case bson.TypeDouble:
		s.double += v.Double()
	case bson.TypeDecimal:
		if s.decimal == (bson.Decimal128{}) {
			s.decimal = v.Decimal()
		} else {
			s.decimal = s.decimal.Add(v.Decimal())
		}
	}
}

func (s *addition) addLong(i int64) {
	sum, ok := addLongs(s.long, i)
	if !ok {
		s.double += float64(s.long) + float64(i)
		s.long = 0
		s.widest = wider(s.widest, bson.TypeDouble)
		return
	}
	s.long = sum
}

// addLongs adds, or says that the sum overflows.
func addLongs(a, b int64) (sum int64, ok bool) {
	sum = a + b
	return sum, (a^sum)&(b^sum) >= 0
}

// multiplyLongs multiplies, or says that the product overflows.
func multiplyLongs(a, b int64) (product int64, ok bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	// From the unsigned to the signed product.
	hi -= uint64(a>>63)&uint64(b) + uint64(b>>63)&uint64(a)
	return int64(lo), int64(hi) == int64(lo)>>63
}

func (s *addition) value(env *Env) (bson.Value, error) {
	if s.date {
		return s.dateValue(env)
	}
	switch s.widest {
	case bson.TypeInt64:
		return env.Int64(s.long), nil
	case bson.TypeDouble:
		return env.Double(s.double + float64(s.long)), nil
	case bson.TypeDecimal:
		return env.Decimal(s.decimalSum()), nil
	}
	return env.Int(s.long), nil
}

func (s *addition) decimalSum() bson.Decimal128 {
	d := s.decimal
	if s.double != 0 {
		d = d.Add(bson.DecimalFromDouble(s.double, 15))
	}
	if s.long != 0 {
		d = d.Add(bson.DecimalFromInt64(s.long))
	}
	return d
}

func (s *addition) dateValue(env *Env) (bson.Value, error) {
	millis, ok := addLongs(s.millis, s.long)
	var more int64
	switch s.widest {
	case bson.TypeDouble:
		var fits bool
		more, fits = roundToLong(s.double)
		ok = ok && fits
	case bson.TypeDecimal:
		var fits bool
		more, fits = roundDecimalToLong(s.decimalSum())
		millis, ok = s.millis, fits
	}
	if ok {
		millis, ok = addLongs(millis, more)
	}
	if !ok {
		return bson.Value{}, mongoerr.New(mongoerr.Overflow, "date overflow in $add")
	}
	return env.Date(millis), nil
}

// roundToLong rounds half away from zero.
func roundToLong(f float64) (i int64, ok bool) {
	f = math.Round(f)
	return int64(f), f >= -1<<63 && f < 1<<63
}

// roundDecimalToLong rounds half to even.
func roundDecimalToLong(d bson.Decimal128) (i int64, ok bool) {
	r, ok := d.Quantize(0, bson.RoundHalfEven)
	if !ok {
		return 0, false
	}
	i, _, ok = r.TruncateToInt64()
	return i, ok
}

func evalAdd(env *Env, args []Expr) (bson.Value, error) {
	sum := addition{widest: bson.TypeInt32}
	for _, a := range args {
		v, err := a.Eval(env)
		switch {
		case err != nil:
			return bson.Value{}, err
		case v.IsNumber():
			sum.add(v)
		case v.Type == bson.TypeDate:
			if sum.date {
				return bson.Value{}, mongoerr.New(mongoerr.Code(16612), "only one date allowed in an $add expression")
			}
			sum.date, sum.millis = true, v.Date()
		case v.IsNullish():
			return bson.Null, nil
		default:
			return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch,
				"$add only supports numeric or date types, not %s", v.Type)
		}
	}
	return sum.value(env)
}

func evalSubtract(env *Env, a, b bson.Value) (bson.Value, error) {
	if a.IsNumber() && b.IsNumber() {
		switch wider(a.Type, b.Type) {
		case bson.TypeInt32:
			return env.Int(int64(a.Int32()) - int64(b.Int32())), nil
		case bson.TypeInt64:
			x, y := long(a), long(b)
			d := x - y
			if (x^y)&(x^d) < 0 {
				return env.Double(float64(x) - float64(y)), nil
			}
			return env.Int64(d), nil
		case bson.TypeDouble:
			return env.Double(bson.ToDouble(a) - bson.ToDouble(b)), nil
		}
		return env.Decimal(bson.ToDecimal(a).Subtract(bson.ToDecimal(b))), nil
	}
	if a.IsNullish() || b.IsNullish() {
		return bson.Null, nil
	}
	if a.Type == bson.TypeDate {
		return subtractFromDate(env, a.Date(), b)
	}
	return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "can't $subtract %s from %s", b.Type, a.Type)
}

func subtractFromDate(env *Env, millis int64, b bson.Value) (bson.Value, error) {
	var less int64
	ok := true
	switch b.Type {
	case bson.TypeDate:
		return env.Int64(millis - b.Date()), nil
	case bson.TypeInt32, bson.TypeInt64:
		less = long(b)
	case bson.TypeDouble:
		less, ok = roundToLong(b.Double())
	case bson.TypeDecimal:
		less, ok = roundDecimalToLong(b.Decimal())
	default:
		return bson.Value{}, mongoerr.New(mongoerr.TypeMismatch, "can't $subtract %s from date", b.Type)
	}
	d := millis - less
	if !ok || (millis^less)&(millis^d) < 0 {
		return bson.Value{}, mongoerr.New(mongoerr.Overflow, "date overflow in $subtract")
	}
	return env.Date(d), nil
}
