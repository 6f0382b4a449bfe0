package schema

import (
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxShardFields is how many fields a shard key has at most: as many as its
// index.
const maxShardFields = 32

// ShardKey is a shard key pattern, such as {country: 1, user: "hashed"}, and says
// where a document lies by it. Immutable.
type ShardKey struct {
	Parts  []Part
	Hashed int // which part is hashed, or -1

	pattern         bson.Doc
	stored          string // the pattern's bytes
	lowest, highest ShardBound
}

// ParseShardKey reads a shard key pattern. Errors: 2 for whatever is none, 13103 for
// too many fields. (src/mongo/s/shard_key_pattern.cpp)
func ParseShardKey(pattern bson.Doc) (*ShardKey, error) {
	k := &ShardKey{pattern: pattern.Clone(), Hashed: -1}
	if pattern.IsEmpty() {
		return nil, mongoerr.New(mongoerr.BadValue, "Shard key is empty")
	}
	seen := map[string]bool{}
	for name, v := range k.pattern.All() {
		if err := checkShardPath(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, mongoerr.New(mongoerr.BadValue, "Field %s appears multiple times in the shard key %s", name, pattern)
		}
		seen[name] = true
		part := NewPart(name)
		isHashed := v.Type == bson.TypeString && v.Str() == "hashed"
		if isHashed && k.Hashed < 0 {
			k.Hashed, part.Plugin = len(k.Parts), "hashed"
		} else if !v.IsNumber() || bson.ClampToInt64(v) != 1 {
			return nil, mongoerr.New(mongoerr.BadValue,
				"Shard key %s can contain at most one 'hashed' field, and/or multiple numerical fields set to a value of 1. Failed to parse field %s", pattern, name)
		}
		k.Parts = append(k.Parts, part)
	}
	if len(k.Parts) > maxShardFields {
		return nil, mongoerr.New(mongoerr.Code(13103), "too many compound keys")
	}
	k.stored = string(k.pattern)
	k.lowest, k.highest = k.ends()
	return k, nil
}

func checkShardPath(path string) error {
	if path == "" {
		return mongoerr.New(mongoerr.BadValue, "Field names in the shard key may not be empty")
	}
	for i, part := range strings.Split(path, ".") {
		if part == "" {
			return mongoerr.New(mongoerr.BadValue, "Field %s contains empty parts", path)
		}
		dbRef := i > 0 && (part == "$db" || part == "$id" || part == "$ref")
		if part[0] == '$' && !dbRef {
			return mongoerr.New(mongoerr.BadValue, "Field %s contains parts that start with '$'", path)
		}
	}
	return nil
}

// Pattern returns the pattern as written.
func (k *ShardKey) Pattern() bson.Doc { return k.pattern }

// Stored is the bytes of the pattern.
func (k *ShardKey) Stored() string { return k.stored }

// KeyOfDocument writes what identifies a document of a collection with a shard key, whose
// pattern is given: the fields of the key that it has, in their order, then _id unless it is
// one of them. An array above a field hides it.
func KeyOfDocument(b *bson.Builder, pattern, doc bson.Doc) *bson.Builder {
	id := false
	for path := range pattern.All() {
		id = id || path == "_id"
		v := doc.Lookup(path)
		if strings.Contains(path, ".") {
			part := NewPart(path)
			v = part.Value(doc)
		}
		if !v.IsMissing() {
			b.Value(path, v)
		}
	}
	if !id {
		b.Value("_id", doc.Lookup("_id"))
	}
	return b
}

// String returns the pattern as messages show it.
func (k *ShardKey) String() string { return k.pattern.String() }

// IsHashed reports whether one of the fields is hashed.
func (k *ShardKey) IsHashed() bool { return k.Hashed >= 0 }

// HashedFirst reports whether the first field is the hashed one.
func (k *ShardKey) HashedFirst() bool { return k.Hashed == 0 }

// Fields returns the paths of the key, in order.
func (k *ShardKey) Fields() []string {
	out := make([]string, len(k.Parts))
	for i, p := range k.Parts {
		out[i] = p.Path
	}
	return out
}

// Has reports whether path is a field of the key.
func (k *ShardKey) Has(path string) bool {
	for i := range k.Parts {
		if k.Parts[i].Path == path {
			return true
		}
	}
	return false
}

// Append appends where doc lies in the key space: bytes whose order is that of
// ShardBound.Key. A missing field counts as null. Error 61 for an array at or above
// a field of the key.
func (k *ShardKey) Append(dst []byte, doc bson.Doc) ([]byte, error) {
	for i := range k.Parts {
		v := k.Parts[i].Value(doc)
		if v.Type == bson.TypeArray {
			return dst, mongoerr.New(mongoerr.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
		}
		dst = k.AppendPart(dst, i, v)
	}
	return dst, nil
}

// AppendPart appends the component of one field's value in a document.
func (k *ShardKey) AppendPart(dst []byte, i int, v bson.Value) []byte {
	if v.IsMissing() {
		v = bson.Null
	}
	if i == k.Hashed {
		return appendHash(dst, HashOf(v, nil))
	}
	return keystring.Append(dst, v, false, nil)
}

// appendHash appends the component of a hash. The hash is kept in dst while it
// is encoded, so that targeting a statement allocates nothing.
func appendHash(dst []byte, hash int64) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(hash))
	dst = keystring.Append(dst, bson.Value{Type: bson.TypeInt64, Data: dst[n : n+8]}, false, nil)
	return dst[:n+copy(dst[n:], dst[n+8:])]
}

// Values returns the fields of the key as doc has them, missing ones as null:
// the shard key part of a document key. Error 61 as Append.
func (k *ShardKey) Values(doc bson.Doc) (bson.Doc, error) {
	var b bson.Builder
	for i := range k.Parts {
		v := k.Parts[i].Value(doc)
		switch v.Type {
		case bson.TypeArray:
			return nil, mongoerr.New(mongoerr.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
		case bson.Missing:
			v = bson.Null
		}
		b.Value(k.Parts[i].Path, v)
	}
	return b.Finish(), nil
}

// PrefixOf reports whether a pattern starts with the fields of the key, with the
// same names and values.
func (k *ShardKey) PrefixOf(pattern bson.Doc) bool {
	it := pattern.Iter()
	for name, v := range k.Pattern().All() {
		if !it.Next() || it.Key != name || !bson.Equal(it.Value, v) {
			return false
		}
	}
	return true
}

// Serves reports whether an index can be the one that the shard key requires: it
// starts with the key, has every document once (multikey: it has arrays), and
// orders strings by the simple collation. reason says, in the words of
// shardCollection, why an index that starts with the key does not serve.
func (k *ShardKey) Serves(ix *Index, multikey bool) (ok bool, reason string) {
	switch {
	case !k.PrefixOf(ix.Key):
		return false, ""
	case ix.Sparse:
		return false, "Index key is sparse."
	case ix.PartialFilter != nil:
		return false, "Index key is partial."
	case ix.Collator != nil:
		return false, "Index has a non-simple collation."
	case multikey:
		return false, "Index key is multikey."
	case ix.Hidden:
		return false, "Index is hidden."
	}
	return true, ""
}
