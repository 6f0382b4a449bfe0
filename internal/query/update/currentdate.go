package update

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// currentDate is $currentDate.
type currentDate struct{ timestamp bool }

func parseCurrentDate(_ string, arg bson.Value, _ *Options) (operator, error) {
	const badType = "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}"
	switch arg.Type {
	case bson.TypeBool:
		return &currentDate{}, nil
	case bson.TypeDocument:
	default:
		return nil, mongoerr.New(mongoerr.BadValue,
			"%s is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({$type: 'timestamp/date'}).", arg.Type)
	}
	var kind bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key != "$type" {
			return nil, mongoerr.New(mongoerr.BadValue, "Unrecognized $currentDate option: %s", it.Key)
		}
		kind = it.Value
	}
	if kind.Type != bson.TypeString {
		return nil, mongoerr.New(mongoerr.BadValue, badType)
	}
	switch kind.Str() {
	case "date":
		return &currentDate{}, nil
	case "timestamp":
		return &currentDate{timestamp: true}, nil
	}
	return nil, mongoerr.New(mongoerr.BadValue, badType)
}

func (d *currentDate) apply(c *Context, dst []byte, _ string, _ bson.Value) ([]byte, bson.Type, error) {
	if d.timestamp {
		return binary.LittleEndian.AppendUint64(dst, c.timestamp()), bson.TypeTimestamp, nil
	}
	return binary.LittleEndian.AppendUint64(dst, uint64(c.now())), bson.TypeDate, nil
}
