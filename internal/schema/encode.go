package schema

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// appendKey encodes one value for each part as a further key.
func (ix *Index) appendKey(dst []Key, values []bson.Value) []Key {
	dst = slices.Grow(dst, 1)
	dst = dst[:len(dst)+1]
	k := &dst[len(dst)-1]
	k.Bytes, k.TypeBits = k.Bytes[:0], k.TypeBits[:0]
	for _, v := range values {
		k.Bytes = append(append(k.Bytes, byte(v.Type)), v.Data...)
	}
	return dst
}

func hash(v bson.Value, seed int32) int64 { return int64(len(v.Data)) }
