package keystring

import (
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Append appends the component of v to dst and returns the longer slice. Keys
// compare as bson.CompareWith(a, b, coll) does; a descending component compares
// the other way round. Missing counts as undefined: where the server wants null,
// the caller says so. With a collator the component orders strings by its keys
// and can not be decoded to what they were. Nothing but dst is allocated, except
// for decimals far out of the range of 64-bit integers and by coll.
func Append(dst []byte, v bson.Value, descending bool, coll bson.Collator) []byte {
	start := len(dst)
	dst = appendValue(dst, v, coll)
	if descending {
		invert(dst[start:])
	}
	return dst
}

// AppendKey appends the components of several values: vs[i] descending where
// descending[i] is true; a nil descending is all ascending.
func AppendKey(dst []byte, vs []bson.Value, descending []bool, coll bson.Collator) []byte {
	for i, v := range vs {
		dst = Append(dst, v, descending != nil && descending[i], coll)
	}
	return dst
}

func invert(b []byte) {
	for len(b) >= 8 {
		binary.NativeEndian.PutUint64(b, ^binary.NativeEndian.Uint64(b))
		b = b[8:]
	}
	for i := range b {
		b[i] = ^b[i]
	}
}

func appendValue(dst []byte, v bson.Value, coll bson.Collator) []byte {
	switch v.Type {
	case bson.TypeInt32:
		return appendInteger(dst, int64(v.Int32()))
	case bson.TypeInt64:
		return appendInteger(dst, v.Int64())
	case bson.TypeString, bson.TypeSymbol:
		dst = append(dst, tagString)
		if coll != nil {
			return appendCollated(dst, v.Str(), coll)
		}
		return appendText(dst, v.Str())
	case bson.TypeObjectID:
		return append(append(dst, tagObjectID), v.Data...)
	case bson.TypeDate:
		return binary.BigEndian.AppendUint64(append(dst, tagDate), uint64(v.Date())^1<<63)
	case bson.TypeDouble:
		return appendDouble(dst, v.Double())
	case bson.TypeDecimal:
		return appendDecimal(dst, v.Decimal())
	case bson.TypeBool:
		if v.Bool() {
			return append(dst, tagTrue)
		}
		return append(dst, tagFalse)
	case bson.TypeDocument:
		return appendFields(append(dst, tagObject), v.Doc(), coll)
	case bson.TypeArray:
		dst = append(dst, tagArray)
		for it := v.Doc().Iter(); it.Next(); {
			dst = appendValue(dst, it.Value, coll)
		}
		return append(dst, end)
	}
	return appendRare(dst, v)
}

func appendRare(dst []byte, v bson.Value) []byte {
	switch v.Type {
	case bson.TypeBinary:
		subtype, content := v.Binary()
		dst = appendLength(append(dst, tagBinary), len(content))
		return append(append(dst, subtype), content...)
	case bson.TypeTimestamp:
		return binary.BigEndian.AppendUint64(append(dst, tagTimestamp), v.Timestamp())
	case bson.TypeRegex:
		pattern, options := v.Regex()
		return appendText(appendText(append(dst, tagRegex), pattern), options)
	case bson.TypeDBPointer:
		ns, id := v.DBPointer()
		dst = appendLength(append(dst, tagDBPointer), len(ns))
		return append(append(dst, ns...), id[:]...)
	case bson.TypeCode:
		return appendText(append(dst, tagCode), v.Str())
	case bson.TypeCodeScope:
		code, scope := v.CodeScope()
		return appendFields(appendText(append(dst, tagCodeScope), code), scope, nil)
	}
	tag, _ := classTags(v.Type)
	return append(dst, tag)
}

// appendFields writes what orders a document: of each field the class, the
// name, the value.
func appendFields(dst []byte, d bson.Doc, coll bson.Collator) []byte {
	for it := d.Iter(); it.Next(); {
		tag, _ := classTags(it.Value.Type)
		dst = appendText(append(dst, tag), it.Key)
		dst = appendValue(dst, it.Value, coll)
	}
	return append(dst, end)
}

func appendText(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 && strings.IndexByte(s, escape) < 0 {
		return append(append(dst, s...), end)
	}
	for i := range len(s) {
		switch c := s[i]; c {
		case 0:
			dst = append(dst, escape, escapedZero)
		case escape:
			dst = append(dst, escape, escapedOne)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, end)
}

func appendCollated(dst []byte, s string, coll bson.Collator) []byte {
	start := len(dst)
	dst = coll.AppendKey(dst, s)
	escapes := 0
	for _, c := range dst[start:] {
		if c <= escape {
			escapes++
		}
	}
	n := len(dst)
	for range escapes {
		dst = append(dst, 0)
	}
	// From the back, so that no byte is overwritten before it moved.
	for from, to := n-1, len(dst)-1; from < to; from-- {
		if c := dst[from]; c <= escape {
			dst[to-1], dst[to] = escape, c+1
			to -= 2
		} else {
			dst[to] = c
			to--
		}
	}
	return append(dst, end)
}

func appendLength(dst []byte, n int) []byte {
	if n < longLength {
		return append(dst, byte(n))
	}
	size := bytesOf(uint64(n))
	return appendBigEndian(append(dst, longLength+byte(size-1)), uint64(n), size)
}

// appendBigEndian appends the lower size bytes of u, 1 to 8.
func appendBigEndian(dst []byte, u uint64, size int) []byte {
	dst = binary.BigEndian.AppendUint64(dst, u<<(64-8*size))
	return dst[:len(dst)-8+size]
}
