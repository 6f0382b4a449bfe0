package project

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// slice is find's $slice: limit elements from skip on, where a negative skip
// counts from the end of the array.
type slice struct{ skip, limit int }

// parseSlice parses n or [skip, limit]; ok is false where arg is no such thing
// and so must be the argument of the expression of that name.
func parseSlice(arg bson.Value) (s *slice, ok bool, err error) {
	if arg.IsNumber() {
		n := truncate32(arg)
		if n < 0 {
			return &slice{n, -n}, true, nil
		}
		return &slice{0, n}, true, nil
	}
	if arg.Type != bson.TypeArray {
		return nil, false, nil
	}
	vs := arg.Doc().Slice()
	if len(vs) != 2 || !vs[0].IsNumber() || !vs[1].IsNumber() {
		return nil, false, nil
	}
	s = &slice{truncate32(vs[0]), truncate32(vs[1])}
	if s.limit <= 0 {
		return nil, false, mongoerr.New(mongoerr.Code(28724), "First argument to $slice must be an array, but is of type: %s", vs[0].Type)
	}
	return s, true, nil
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
