package plan

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// numbers is the interval of all numbers but NaN.
var numbers = Interval{bson.Double(math.Inf(-1)), bson.Double(math.Inf(1)), true, true}

// lowest is the smallest value of each class that has one.
var lowest = []bson.Value{
	bson.MinKey,
	bson.Undefined,
	bson.Null,
	bson.Double(math.NaN()),
	bson.String(""),
	bson.Document(bson.Empty),
	bson.ArrayOf(bson.Empty),
	bson.Binary(0, nil),
	bson.ObjectID([12]byte{}),
	bson.False,
	bson.Date(math.MinInt64),
	bson.Timestamp(0),
	bson.Regex("", ""),
	{Type: bson.TypeDBPointer, Data: append([]byte{1, 0, 0, 0, 0}, make([]byte, 12)...)},
	bson.Code(""),
	{Type: bson.TypeCodeScope, Data: []byte{14, 0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0}},
	bson.MaxKey,
}

// wholeClass is the interval of all values that share t's class.
func wholeClass(t bson.Type) Interval {
	for i, v := range lowest {
		if v.Type.Class() != t.Class() {
			continue
		}
		if t == bson.TypeMinKey || t == bson.TypeMaxKey || t == bson.TypeNull || t == bson.TypeUndefined {
			return Point(v)
		}
		return Interval{v, lowest[i+1], true, false}
	}
	return All[0]
}

// classInterval is the interval that a comparison with a value of type t can
// reach, with the ends that explain prints.
func classInterval(t bson.Type) Interval {
	switch t.Class() {
	case bson.TypeDouble.Class():
		return numbers
	case bson.TypeDate.Class():
		return Interval{bson.Date(math.MinInt64), bson.Date(math.MaxInt64), true, true}
	case bson.TypeBool.Class():
		return Interval{bson.False, bson.True, true, true}
	case bson.TypeTimestamp.Class():
		return Interval{bson.Timestamp(0), bson.Timestamp(math.MaxUint64), true, true}
	case bson.TypeObjectID.Class():
		max := [12]byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}
		return Interval{bson.ObjectID([12]byte{}), bson.ObjectID(max), true, true}
	}
	return wholeClass(t)
}
