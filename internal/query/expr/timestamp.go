package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func init() {
	registerTimestampPart("$tsSecond", 5687301, func(t uint64) uint64 { return t >> 32 })
	registerTimestampPart("$tsIncrement", 5687302, func(t uint64) uint64 { return t & (1<<32 - 1) })
}

func registerTimestampPart(name string, code mongoerr.Code, part func(t uint64) uint64) {
	registerUnary(name, func(env *Env, v bson.Value) (bson.Value, error) {
		if v.IsNullish() {
			return bson.Null, nil
		}
		if v.Type != bson.TypeTimestamp {
			return bson.Value{}, mongoerr.New(code, "Argument to %s must be a timestamp, but is %s", name, v.Type)
		}
		return env.Int64(int64(part(v.Timestamp()))), nil
	})
}
