package keystring

import (
	"crypto/md5"
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Hash is what the server's hashed indexes, hashed shard keys and
// $toHashedIndexKey store for v; Missing hashes as null. The seed is 0 but for
// indexes that name another one. Numbers of all types hash by their whole part,
// so values that compare equal hash equal but for decimals: those round half to
// even where a double truncates, as in the server.
func Hash(v bson.Value, seed int32) int64 {
	if v.IsMissing() {
		v = bson.Null
	}
	var buf [64]byte // enough for most scalars, and it stays on the stack
	binary.LittleEndian.PutUint32(buf[:], uint32(seed))
	binary.LittleEndian.PutUint32(buf[4:], uint32(int32(v.Type.Class())))
	var sum [md5.Size]byte
	switch {
	case v.IsNumber():
		binary.LittleEndian.PutUint64(buf[8:], uint64(hashedLong(v)))
		sum = md5.Sum(buf[:16])
	case v.Type == bson.TypeDocument || v.Type == bson.TypeArray || v.Type == bson.TypeCodeScope:
		sum = md5.Sum(appendHashed(append(make([]byte, 0, 16+2*len(v.Data)), buf[:8]...), v))
	default:
		sum = md5.Sum(append(buf[:8], v.Data...))
	}
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

func appendClass(dst []byte, t bson.Type) []byte {
	return binary.LittleEndian.AppendUint32(dst, uint32(int32(t.Class())))
}

// appendHashed appends what follows the class and, inside documents, the name.
func appendHashed(dst []byte, v bson.Value) []byte {
	switch v.Type {
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal:
		return binary.LittleEndian.AppendUint64(dst, uint64(hashedLong(v)))
	case bson.TypeDocument, bson.TypeArray:
		return appendHashedFields(dst, v.Doc())
	case bson.TypeCodeScope:
		code, scope := v.CodeScope()
		return appendHashedFields(append(append(dst, code...), 0), scope)
	}
	return append(dst, v.Data...)
}

func appendHashedFields(dst []byte, d bson.Doc) []byte {
	for it := d.Iter(); it.Next(); {
		dst = appendClass(dst, it.Value.Type)
		dst = append(append(dst, it.Key...), 0)
		dst = appendHashed(dst, it.Value)
	}
	return appendClass(dst, bson.Missing)
}

// hashedLong is the long that a number is hashed as.
func hashedLong(v bson.Value) int64 {
	switch v.Type {
	case bson.TypeInt32:
		return int64(v.Int32())
	case bson.TypeInt64:
		return v.Int64()
	case bson.TypeDecimal:
		return hashedDecimal(v.Decimal())
	}
	switch f := v.Double(); {
	case f != f:
		return 0
	case f == 1<<63: // just this one wraps, for the sake of old indexes
		return math.MinInt64
	case f > 1<<63:
		return math.MaxInt64
	case f < -1<<63:
		return math.MinInt64
	default:
		return int64(f)
	}
}

// hashedDecimal rounds half to even and keeps to the range of a long.
func hashedDecimal(d bson.Decimal128) int64 {
	if d.IsNaN() {
		return 0
	}
	if i, ok := d.RoundToInt64(); ok {
		return i
	}
	if d.Negative() {
		return math.MinInt64
	}
	return math.MaxInt64
}
