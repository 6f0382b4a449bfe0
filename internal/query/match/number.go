package match

import (
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
	if v.IsNaN() {
		return fail("Expected an integer, but found NaN in")
	}
	if _, fits := bson.TruncateToInt64(v); !fits {
		return fail("Cannot represent as a 64-bit integer")
	}
	i, whole := bson.ExactInt64(v)
	if !whole {
		return fail("Expected an integer")
	}
	return i, nil
}

// nonNegative is integer for a whole number from 0 on.
func nonNegative(name string, v bson.Value) (int64, error) {
	i, err := integer(name, v)
	if err == nil && i < 0 {
		err = mongoerr.New(mongoerr.FailedToParse, "Expected a non-negative number in: %s: %s", name, v)
	}
	return i, err
}
