package expr

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxStringBytes bounds a string that an expression makes; it must be shorter.
const maxStringBytes = 16 << 20

func stringTooLong() error {
	return mongoerr.New(mongoerr.Code(16493), "Tried to create string longer than 16MB")
}

// checkLength refuses a string, a symbol or code that is too long to be the
// value of an expression.
func checkLength(v bson.Value) error {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol, bson.TypeCode:
		if len(v.Data)-5 >= maxStringBytes {
			return stringTooLong()
		}
	}
	return nil
}

// newString makes a string of n bytes that the caller fills in.
func (e *Env) newString(n int) (v bson.Value, body []byte, err error) {
	if n >= maxStringBytes {
		return bson.Value{}, nil, stringTooLong()
	}
	b := e.alloc(n + 5)
	binary.LittleEndian.PutUint32(b, uint32(n+1))
	b[n+4] = 0
	return bson.Value{Type: bson.TypeString, Data: b}, b[4 : n+4], nil
}

// count makes an int of a number that is most often small.
func (e *Env) count(n int) bson.Value {
	if n < len(smallInts)-1 {
		return smallInt(n)
	}
	return e.Int32(int32(n))
}

// ctimeLayout is the form of a timestamp's time in texts.
const ctimeLayout = "Jan _2 15:04:05"

// coerceToString is the text of a value for the operators that take any value
// that has one: null is empty.
func coerceToString(v bson.Value) (string, error) {
	switch v.Type {
	case bson.TypeString, bson.TypeSymbol, bson.TypeCode:
		return v.Str(), nil
	case bson.Missing, bson.TypeNull, bson.TypeUndefined:
		return "", nil
	case bson.TypeInt32, bson.TypeInt64:
		return strconv.FormatInt(long(v), 10), nil
	case bson.TypeDouble:
		return shortDouble(v.Double()), nil
	case bson.TypeDecimal:
		return v.Decimal().String(), nil
	case bson.TypeDate:
		b, err := appendISODate(nil, v.Date())
		return string(b), err
	case bson.TypeTimestamp:
		t := v.Timestamp()
		b := time.Unix(int64(t>>32), 0).UTC().AppendFormat(nil, ctimeLayout)
		return string(strconv.AppendUint(append(b, ':'), t&0xffffffff, 10)), nil
	}
	return "", mongoerr.New(mongoerr.Code(16007), "can't convert from BSON type %s to String", v.Type)
}

// shortDouble prints six significant digits.
func shortDouble(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		if f < 0 {
			return "-inf"
		}
		return "inf"
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}

// coerceToLong reads a number as a position: a double loses its fraction, a
// decimal rounds.
func coerceToLong(v bson.Value) (int64, error) {
	if v.Type == bson.TypeDecimal {
		i, ok := v.Decimal().RoundToInt64()
		if !ok {
			return -1 << 63, nil
		}
		return i, nil
	}
	i, ok := bson.TruncateToInt64(v)
	if !ok {
		return 0, mongoerr.New(mongoerr.Code(31109), "Can't coerce out of range value %s to long", text(v))
	}
	return i, nil
}
