package expr

import (
	"math"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
)

// toText converts to a string.
func (how *conversion) toText(env *Env, v bson.Value) (bson.Value, error) {
	var buf [64]byte
	b := buf[:0]
	switch v.Type {
	case bson.TypeBool:
		b = strconv.AppendBool(b, v.Bool())
	case bson.TypeInt32, bson.TypeInt64:
		b = strconv.AppendInt(b, long(v), 10)
	case bson.TypeDouble:
		b = appendDouble(b, v.Double())
	case bson.TypeDecimal:
		b = v.Decimal().AppendText(b)
	case bson.TypeObjectID:
		return env.String(bson.FormatObjectID(v.ObjectID())), nil
	case bson.TypeDate:
		var err error
		if b, err = appendISODate(b, v.Date()); err != nil {
			return bson.Value{}, err
		}
	case bson.TypeBinary:
		return how.textOfBinary(env, v)
	default:
		return bson.Value{}, unsupported(v, how.to)
	}
	out, body, err := env.newString(len(b))
	copy(body, b)
	return out, err
}

// Doubles from leastPlain to below firstScientific are written without an
// exponent.
const (
	leastPlain      = 1e-4
	firstScientific = 1e16
)

// appendDouble writes the shortest text that reads as f again.
func appendDouble(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "NaN"...)
	case math.IsInf(f, 1):
		return append(b, "Infinity"...)
	case math.IsInf(f, -1):
		return append(b, "-Infinity"...)
	}
	if a := math.Abs(f); a != 0 && (a < leastPlain || a >= firstScientific) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
