package match

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// integer reads an operator's argument that must be a whole number; name is
// the operator, for the message.
func integer(name string, v bson.Value) (int64, error) {
	fail := func(what string) (int64, error) {
		return 0, mongoerr.New(mongoerr.FailedToParse, "%s: %s: %s", what, name, v)
	}
	if !v.IsNumber() {
		return fail("Expected a number in")
	}
	if isNaN(v) {
		return fail("Expected an integer, but found NaN in")
	}
	i, whole, fits := truncate(v)
	if !fits {
		return fail("Cannot represent as a 64-bit integer")
	}
	if !whole {
		return fail("Expected an integer")
	}
	return i, nil
}

func nonNegative(name string, v bson.Value) (int64, error) {
	i, err := integer(name, v)
	if err == nil && i < 0 {
		err = mongoerr.New(mongoerr.FailedToParse, "Expected a non-negative number in: %s: %s", name, v)
	}
	return i, err
}

// truncate is the whole part of a number, whether there is no other part, and
// whether it fits a long; NaN and the infinities do not.
func truncate(v bson.Value) (i int64, whole, fits bool) {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32()), true, true
	case bson.TypeInt64:
		return v.Int64(), true, true
	case bson.TypeDouble:
		f := v.Double()
		t := math.Trunc(f)
		if !(f >= -1<<63 && f < 1<<63) {
			return 0, f == t, false
		}
		return int64(t), f == t, true
	case bson.TypeDecimal:
		return truncateDecimal(v.Decimal())
	}
	return 0, false, false
}

func truncateDecimal(d bson.Decimal128) (i int64, whole, fits bool) {
	if d.IsNaN() || d.IsInf() != 0 {
		return 0, false, false
	}
	var buf [40]byte
	digits, exp := d.Digits(buf[:0])
	digits = trimZeros(digits)
	whole = true
	for ; exp < 0 && len(digits) > 0; exp++ {
		whole = whole && digits[len(digits)-1] == '0'
		digits = digits[:len(digits)-1]
	}
	if len(digits) == 0 {
		return 0, whole, true
	}
	if len(digits)+exp > 19 {
		return 0, whole, false
	}
	var u uint64
	for _, c := range digits {
		u = u*10 + uint64(c-'0')
	}
	for ; exp > 0; exp-- {
		u *= 10
	}
	switch {
	case d.Negative():
		return -int64(u), whole, u <= 1<<63
	default:
		return int64(u), whole, u < 1<<63
	}
}

func trimZeros(digits []byte) []byte {
	for len(digits) > 0 && digits[0] == '0' {
		digits = digits[1:]
	}
	return digits
}
