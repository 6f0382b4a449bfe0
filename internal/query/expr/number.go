package expr

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// exactInt64 is the value of a number that is a whole number within the range
// of a long.
func exactInt64(v bson.Value) (i int64, ok bool) {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32()), true
	case bson.TypeInt64:
		return v.Int64(), true
	case bson.TypeDouble:
		f := v.Double()
		if f != math.Trunc(f) || f < -1<<63 || f >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	case bson.TypeDecimal:
		i, exact, ok := v.Decimal().TruncateToInt64()
		return i, ok && exact
	}
	return 0, false
}

// exactInt32 is the value of a number that is a whole number within the range
// of an int.
func exactInt32(v bson.Value) (i int32, ok bool) {
	n, ok := exactInt64(v)
	return int32(n), ok && n == int64(int32(n))
}
