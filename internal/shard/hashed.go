package shard

import (
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxEnumerated bounds the integers of a range on a hashed field that are looked up one
// by one.
const maxEnumerated = 256

// hashed turns the bounds on the value of a hashed field into bounds on its
// hash: values into their hashes, short ranges of numbers into the hashes of the
// integers in them. Anything else can be anywhere.
func hashed(l plan.Intervals) plan.Intervals {
	var hashes []int64
	for _, iv := range l {
		switch {
		case iv.Lo.IsNumber() && iv.Hi.IsNumber():
			var ok bool
			if hashes, ok = appendNumbers(hashes, iv.Lo, iv.Hi); !ok {
				return plan.All
			}
		case !iv.IsPoint() || !hashesAlike(iv.Lo):
			return plan.All
		default:
			hashes = append(hashes, schema.HashOf(iv.Lo, nil))
		}
	}
	slices.Sort(hashes)
	out := make(plan.Intervals, 0, len(hashes))
	for _, h := range slices.Compact(hashes) {
		out = append(out, plan.Point(bson.Int64(h)))
	}
	return out
}

// appendNumbers appends the hashes of all numbers from lo to hi. A double is hashed by
// its integer part, a decimal by the nearest integer, so both are between the integers
// around lo and hi.
func appendNumbers(hashes []int64, lo, hi bson.Value) ([]int64, bool) {
	from, okFrom := whole(lo, false)
	to, okTo := whole(hi, true)
	switch {
	case okFrom && okTo && from <= to && uint64(to)-uint64(from) < maxEnumerated:
		for i := from; ; i++ {
			hashes = append(hashes, schema.HashOf(bson.Int64(i), nil))
			if i == to {
				return hashes, true
			}
		}
	case !bson.Equal(lo, hi):
		return hashes, false
	case lo.IsNaN():
		return append(hashes, schema.HashOf(lo, nil)), true
	}
	// A number outside the range of longs is hashed as the nearest bound; 2^63 as either.
	for _, end := range []int64{math.MinInt64, math.MaxInt64} {
		hashes = append(hashes, schema.HashOf(bson.Int64(end), nil))
	}
	return hashes, true
}

// whole returns v as an integer, or the next one above or below. ok is false
// outside the range of a long, and for NaN.
func whole(v bson.Value, above bool) (i int64, ok bool) {
	if i, ok = bson.ExactInt64(v); ok {
		return i, true
	}
	if i, ok = bson.TruncateToInt64(v); !ok {
		return 0, false
	}
	switch sign := bson.NumberSign(v); { // towards zero is up for negative numbers
	case above && sign > 0 && i < math.MaxInt64:
		i++
	case !above && sign < 0 && i > math.MinInt64:
		i--
	}
	return i, true
}

// hashesAlike reports whether all values that are equal to v have its hash. A number
// with a fraction may be a double or a decimal, which round differently.
func hashesAlike(v bson.Value) bool {
	switch v.Type {
	case bson.TypeDouble, bson.TypeDecimal:
		_, ok := bson.ExactInt64(v)
		return ok
	case bson.TypeDocument, bson.TypeArray:
		for e := range v.Doc().Values() {
			if !hashesAlike(e) {
				return false
			}
		}
	case bson.TypeCodeScope:
		_, scope := v.CodeScope()
		return hashesAlike(bson.Document(scope))
	}
	return true
}
