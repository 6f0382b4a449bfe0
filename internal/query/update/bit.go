package update

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// bit is $bit: its operations in the order they were given. A long on either
// side makes the result a long.
type bit struct{ ops []bitOp }

type bitOp struct {
	name    string
	operand int64
	long    bool
}

func parseBit(field string, arg bson.Value, _ *Options) (operator, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.BadValue,
			"The $bit modifier is not compatible with a %s. You must pass in an embedded document: {$bit: {field: {and/or/xor: #}}", arg.Type)
	}
	b := &bit{}
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "and", "or", "xor":
		default:
			return nil, mongoerr.New(mongoerr.BadValue,
				"The $bit modifier only supports 'and', 'or', and 'xor', not '%s' which is an unknown operator: {%s}", it.Key, elementText(it.Key, it.Value))
		}
		if it.Value.Type != bson.TypeInt32 && it.Value.Type != bson.TypeInt64 {
			return nil, mongoerr.New(mongoerr.BadValue,
				"The $bit modifier field must be an Integer(32/64 bit); a '%s' is not supported here: {%s}", it.Value.Type, elementText(it.Key, it.Value))
		}
		i, _ := bson.ExactInt64(it.Value)
		b.ops = append(b.ops, bitOp{it.Key, i, it.Value.Type == bson.TypeInt64})
	}
	if len(b.ops) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue,
			"You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}")
	}
	return b, nil
}

func (b *bit) apply(c *Context, dst []byte, field string, old bson.Value) ([]byte, bson.Type, error) {
	var i int64
	switch old.Type {
	case bson.Missing:
	case bson.TypeInt32, bson.TypeInt64:
		i, _ = bson.ExactInt64(old)
	default:
		return dst, 0, mongoerr.New(mongoerr.BadValue,
			"Cannot apply $bit to a value of non-integral type.%s has the field %s of non-integer type %s",
			elementText("_id", c.doc.Lookup("_id")), field, old.Type)
	}
	long := old.Type == bson.TypeInt64
	for _, op := range b.ops {
		long = long || op.long
		switch op.name {
		case "and":
			i &= op.operand
		case "or":
			i |= op.operand
		case "xor":
			i ^= op.operand
		}
	}
	if long {
		return binary.LittleEndian.AppendUint64(dst, uint64(i)), bson.TypeInt64, nil
	}
	return binary.LittleEndian.AppendUint32(dst, uint32(i)), bson.TypeInt32, nil
}
