package bson

import "math"

// The functions below take a number of any type, and answer 0 or false for a
// value that is none.

// ToDouble is the double nearest to v. A decimal too large becomes infinite.
func ToDouble(v Value) float64 {
	switch v.Type {
	case TypeDouble:
		return v.Double()
	case TypeInt32, TypeInt64:
		return float64(integer(v))
	case TypeDecimal:
		return v.Decimal().Double()
	}
	return 0
}

// ExactInt64 is the value of a number that is a whole number in the range of a
// long, whatever its type.
func ExactInt64(v Value) (i int64, ok bool) {
	switch v.Type {
	case TypeInt32, TypeInt64:
		return integer(v), true
	case TypeDouble:
		f := v.Double()
		if f != math.Trunc(f) || f < -1<<63 || f >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	case TypeDecimal:
		i, exact, ok := v.Decimal().TruncateToInt64()
		return i, ok && exact
	}
	return 0, false
}

// ExactInt32 is the value of a number that is a whole number in the range of an
// int, whatever its type.
func ExactInt32(v Value) (i int32, ok bool) {
	n, ok := ExactInt64(v)
	return int32(n), ok && n == int64(int32(n))
}

// TruncateToInt64 drops the fraction of v, as $toLong does. ok reports whether the
// result is in the range of a long; it never is for NaN and infinities.
func TruncateToInt64(v Value) (i int64, ok bool) {
	switch v.Type {
	case TypeInt32, TypeInt64:
		return integer(v), true
	case TypeDouble:
		f := v.Double()
		if !(f >= -1<<63 && f < 1<<63) {
			return 0, false
		}
		return int64(f), true
	case TypeDecimal:
		i, _, ok := v.Decimal().TruncateToInt64()
		return i, ok
	}
	return 0, false
}

// ClampToInt64 is v as the server reads limits, sizes and other options where
// any number will do: a double loses its fraction, a decimal rounds half to
// even, NaN is 0, what is out of the range of a long becomes the nearest long.
func ClampToInt64(v Value) int64 {
	if v.Type == TypeDecimal {
		d := v.Decimal()
		if i, ok := d.RoundToInt64(); ok || d.IsNaN() {
			return i
		}
		if d.Negative() {
			return math.MinInt64
		}
		return math.MaxInt64
	}
	i, ok := TruncateToInt64(v)
	if !ok && v.Type == TypeDouble {
		switch f := v.Double(); {
		case f > 0:
			return math.MaxInt64
		case f < 0:
			return math.MinInt64
		}
	}
	return i
}

// IsNaN reports whether v is a double or a decimal that is not a number.
func (v Value) IsNaN() bool {
	switch v.Type {
	case TypeDouble:
		return math.IsNaN(v.Double())
	case TypeDecimal:
		return v.Decimal().IsNaN()
	}
	return false
}

// IsInf reports whether v is an infinite double or decimal: 1 or -1, or 0 if it
// is not.
func (v Value) IsInf() int {
	switch v.Type {
	case TypeDouble:
		switch f := v.Double(); {
		case math.IsInf(f, 1):
			return 1
		case math.IsInf(f, -1):
			return -1
		}
	case TypeDecimal:
		return v.Decimal().IsInf()
	}
	return 0
}

// NumberSign is -1, 0 or 1; it is 0 for zeros and NaN.
func NumberSign(v Value) int {
	switch v.Type {
	case TypeInt32, TypeInt64:
		i := integer(v)
		return b2i(i > 0) - b2i(i < 0)
	case TypeDouble:
		f := v.Double()
		return b2i(f > 0) - b2i(f < 0)
	case TypeDecimal:
		return v.Decimal().Sign()
	}
	return 0
}

// IsZero reports whether v is a number equal to zero.
func IsZero(v Value) bool { return v.IsNumber() && NumberSign(v) == 0 && !v.IsNaN() }
