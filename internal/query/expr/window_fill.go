package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Interpolate is the value at x on the line through (x0, y0) and (x1, y1), for
// $linearFill. The places are dates or numbers, the values numbers.
func Interpolate(env *Env, x, x0, y0, x1, y1 bson.Value) (bson.Value, error) {
	rise, err := evalSubtract(env, y1, y0)
	if err != nil {
		return bson.Value{}, err
	}
	run, err := evalSubtract(env, x1, x0)
	if err != nil {
		return bson.Value{}, err
	}
	part, err := evalSubtract(env, x, x0)
	if err != nil {
		return bson.Value{}, err
	}
	slope, err := evalDivide(env, rise, run)
	if err != nil {
		return bson.Value{}, err
	}
	p := product{long: 1, double: 1, widest: bson.TypeInt32}
	p.multiply(slope)
	p.multiply(part)
	return AddNumbers(env, y0, p.value(env))
}

// CheckFill returns an error unless v, a value to fill, is a number or null.
func CheckFill(v bson.Value) error {
	if !v.IsNumber() && !v.IsNullish() {
		return mongoerr.New(mongoerr.TypeMismatch, "Value to be filled must be numeric or nullish, but found %s", v.Type)
	}
	return nil
}
