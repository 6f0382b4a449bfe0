package update

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// arithmetic is $inc and $mul. The result has the wider type of the two
// numbers; an int that overflows becomes a long, a long that does is an error.
type arithmetic struct {
	name    string
	operand bson.Value
	absent  bson.Value // the result if there is no field
	do      func(a, b bson.Value) (bson.Value, bool)
}

func parseInc(field string, arg bson.Value, _ *Options) (operator, error) {
	if !arg.IsNumber() {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "Cannot increment with non-numeric argument: {%s}", elementText(field, arg))
	}
	return &arithmetic{"$inc", arg, arg, bson.Add}, nil
}

func parseMul(field string, arg bson.Value, _ *Options) (operator, error) {
	if !arg.IsNumber() {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "Cannot multiply with non-numeric argument: {%s}", elementText(field, arg))
	}
	zero, _ := bson.Multiply(bson.Int32(0), arg)
	return &arithmetic{"$mul", arg, zero, bson.Multiply}, nil
}

func (a *arithmetic) apply(c *Context, dst []byte, field string, old bson.Value) ([]byte, bson.Type, error) {
	if old.IsMissing() {
		return append(dst, a.absent.Data...), a.absent.Type, nil
	}
	if !old.IsNumber() {
		return dst, 0, mongoerr.New(mongoerr.TypeMismatch,
			"Cannot apply %s to a value of non-numeric type. %s has the field '%s' of non-numeric type %s", a.name, c.id(), field, old.Type)
	}
	if a.name == "$inc" && old.Type == bson.TypeInt32 && a.operand.Type == bson.TypeInt32 {
		// The common case allocates nothing.
		if sum := int64(old.Int32()) + int64(a.operand.Int32()); sum == int64(int32(sum)) {
			return binary.LittleEndian.AppendUint32(dst, uint32(sum)), bson.TypeInt32, nil
		}
	}
	v, overflow := a.do(a.operand, old)
	if overflow {
		return dst, 0, mongoerr.New(mongoerr.BadValue,
			"Failed to apply %s operations to current value (%s) for document %s", a.name, debugNumber(old), c.id())
	}
	if v.Type == old.Type && bson.CompareNumbers(v, old) == 0 {
		// Equal is the same: -0.0 stays, and so do the trailing zeros of a decimal.
		v = old
	}
	return append(dst, v.Data...), v.Type, nil
}

// debugNumber is a number with its type: (NumberLong)5.
func debugNumber(v bson.Value) string {
	switch v.Type {
	case bson.TypeInt32:
		return "(NumberInt)" + v.String()
	case bson.TypeInt64:
		return "(NumberLong)" + v.String()
	case bson.TypeDouble:
		return "(NumberDouble)" + v.String()
	}
	return "(NumberDecimal)" + v.String()
}
