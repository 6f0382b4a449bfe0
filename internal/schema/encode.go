package schema

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

// appendKey encodes one value for each part as another key.
func (ix *Index) appendKey(dst []Key, values []bson.Value) []Key {
	if ix.room.over() {
		return dst
	}
	dst = slices.Grow(dst, 1)
	dst = dst[:len(dst)+1]
	k := &dst[len(dst)-1]
	k.Bytes, k.TypeBits = k.Bytes[:0], k.TypeBits[:0]
	for i, v := range values {
		coll := ix.Collator
		if ix.keyParts[i].Path == WildcardPathName {
			coll = nil
		}
		k.Bytes = keystring.Append(k.Bytes, v, ix.keyParts[i].Descending, coll)
		k.TypeBits = keystring.AppendTypeBits(k.TypeBits, v)
	}
	k.TypeBits = keystring.TrimTypeBits(k.TypeBits)
	ix.room.made(len(k.Bytes) + len(k.TypeBits) + keyBytes)
	return dst
}

// hashBits are type bits by which a hash is read as a long, whatever its size.
var hashBits = keystring.AppendTypeBits(nil, bson.Int64(0))

// AppendTypeBits appends type bits that restore the values of a document's only key, where
// the index is ordinary or hashed and no part has an array.
func (ix *Index) AppendTypeBits(dst []byte, doc bson.Doc) []byte {
	for i := range ix.Parts {
		if ix.Parts[i].Plugin == pluginHashed {
			dst = append(dst, hashBits...)
			continue
		}
		v := ix.Parts[i].Value(doc)
		if v.IsMissing() {
			v = bson.Null
		}
		dst = keystring.AppendTypeBits(dst, v)
	}
	return dst
}

// HasArray reports whether a document has an array at or above a field of the index.
func (ix *Index) HasArray(doc bson.Doc) bool {
	for i := range ix.Parts {
		if ix.Parts[i].Value(doc).Type == bson.TypeArray {
			return true
		}
	}
	return false
}

// sortKeys orders keys and drops duplicates; dropped keys keep their buffers in
// the spare capacity.
func sortKeys(keys []Key) []Key {
	slices.SortStableFunc(keys, func(a, b Key) int { return bytes.Compare(a.Bytes, b.Bytes) })
	n := 0
	for i := range keys {
		if i > 0 && bytes.Equal(keys[i].Bytes, keys[n-1].Bytes) {
			continue
		}
		keys[n], keys[i] = keys[i], keys[n]
		n++
	}
	return keys[:n]
}

// Bound is the key string of values in the order of the index's parts, of which there
// may be fewer: the beginning of the keys that start with those values.
func (ix *Index) Bound(values bson.Doc) []byte {
	var key []byte
	i := 0
	for v := range values.Values() {
		if i == len(ix.Parts) {
			break
		}
		key = keystring.Append(key, v, ix.Parts[i].Descending, ix.Collator)
		i++
	}
	return key
}
