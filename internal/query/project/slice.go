package project

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// slice is find's $slice: limit elements from skip on, where a negative skip
// counts from the end of the array.
type slice struct{ skip, limit int }

// parseSlice parses n or [skip, limit]. Its error says why arg is no such thing
// and so must be the argument of the expression of that name.
func parseSlice(arg bson.Value) (*slice, *mongoerr.Error) {
	if arg.IsNumber() {
		n := truncate32(arg)
		if n < 0 {
			return &slice{n, -n}, nil
		}
		return &slice{0, n}, nil
	}
	if arg.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.Code(31273), "$slice only supports numbers and [skip, limit] arrays")
	}
	vs := arg.Doc().Slice()
	switch {
	case len(vs) != 2:
		return nil, mongoerr.New(mongoerr.Code(31272), "$slice array argument should be of form [skip, limit]")
	case !vs[0].IsNumber():
		return nil, mongoerr.New(mongoerr.Code(31257), "$slice expects the skip argument to be a number, got %s", vs[0].Type)
	case !vs[1].IsNumber():
		return nil, mongoerr.New(mongoerr.Code(31258), "$slice expects the limit argument to be a number, got %s", vs[1].Type)
	}
	s := &slice{truncate32(vs[0]), truncate32(vs[1])}
	if s.limit <= 0 {
		return nil, mongoerr.New(mongoerr.Code(31259), "$slice limit must be positive, got %d", s.limit)
	}
	return s, nil
}

// bounds returns the first element that stays and the one behind the last.
func (s *slice) bounds(size int) (from, to int) {
	from = s.skip
	if from < 0 {
		from = max(0, size+from)
	}
	from = min(from, size)
	return from, min(size, from+s.limit)
}

// truncate32 is the whole part of a number, clamped to the range of an int;
// NaN is zero.
func truncate32(v bson.Value) int {
	n, ok := bson.TruncateToInt64(v)
	if !ok {
		n = math.MaxInt64 * int64(bson.NumberSign(v))
	}
	return int(min(max(n, math.MinInt32), math.MaxInt32))
}
