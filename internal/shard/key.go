package shard

import (
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxFields is how many fields a shard key has at most: as many as the index
// that it needs.
const maxFields = 32

// Key is a shard key pattern, such as {country: 1, user: "hashed"}. Immutable.
type Key struct {
	pattern bson.Doc
	parts   []schema.Part
	hashed  int // which part is hashed, or -1
	lowest  Bound
	highest Bound
	index   *plan.Index // the key as the planner sees it, see asIndex
}

// ParseKey reads a shard key pattern. Errors: 2 for whatever is none, 13103 for
// too many fields. (src/mongo/s/shard_key_pattern.cpp)
func ParseKey(pattern bson.Doc) (*Key, error) {
	k := &Key{pattern: pattern.Clone(), hashed: -1}
	if pattern.IsEmpty() {
		return nil, mongoerr.New(mongoerr.BadValue, "Shard key is empty")
	}
	seen := map[string]bool{}
	for name, v := range k.pattern.All() {
		if err := checkPath(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, mongoerr.New(mongoerr.BadValue, "Field %s appears multiple times in the shard key %s", name, pattern)
		}
		seen[name] = true
		part := schema.NewPart(name)
		isHashed := v.Type == bson.TypeString && v.Str() == "hashed"
		if isHashed && k.hashed < 0 {
			k.hashed, part.Plugin = len(k.parts), "hashed"
		} else if !v.IsNumber() || bson.ClampToInt64(v) != 1 {
			return nil, mongoerr.New(mongoerr.BadValue,
				"Shard key %s can contain at most one 'hashed' field, and/or multiple numerical fields set to a value of 1. Failed to parse field %s", pattern, name)
		}
		k.parts = append(k.parts, part)
	}
	if len(k.parts) > maxFields {
		return nil, mongoerr.New(mongoerr.Code(13103), "too many compound keys")
	}
	k.lowest, k.highest = k.ends()
	k.index = k.asIndex()
	return k, nil
}

func checkPath(path string) error {
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

// Pattern is the pattern as written.
func (k *Key) Pattern() bson.Doc { return k.pattern }

// String prints the pattern as messages do.
func (k *Key) String() string { return k.pattern.String() }

// IsHashed says whether one of the fields is hashed.
func (k *Key) IsHashed() bool { return k.hashed >= 0 }

// HashedFirst says whether the first field is the hashed one.
func (k *Key) HashedFirst() bool { return k.hashed == 0 }

// Fields are the paths of the key, in order.
func (k *Key) Fields() []string {
	out := make([]string, len(k.parts))
	for i, p := range k.parts {
		out[i] = p.Path
	}
	return out
}

// Has says whether path is a field of the key.
func (k *Key) Has(path string) bool {
	for i := range k.parts {
		if k.parts[i].Path == path {
			return true
		}
	}
	return false
}

// Append appends where doc lies in the key space: bytes whose order is that of
// Bound.Key. A missing field counts as null. Error 61 for an array at or above
// a field of the key.
func (k *Key) Append(dst []byte, doc bson.Doc) ([]byte, error) {
	for i := range k.parts {
		v := k.parts[i].Value(doc)
		if v.Type == bson.TypeArray {
			return dst, mongoerr.New(mongoerr.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
		}
		dst = k.appendPart(dst, i, v)
	}
	return dst, nil
}

// appendPart appends the component of one field's value in a document.
func (k *Key) appendPart(dst []byte, i int, v bson.Value) []byte {
	if v.IsMissing() {
		v = bson.Null
	}
	if i == k.hashed {
		return appendHash(dst, schema.HashOf(v, nil))
	}
	return keystring.Append(dst, v, false, nil)
}

// appendHash appends the component of a hash. The hash stands in dst while it is
// encoded, so that nothing is allocated on the way of every statement.
func appendHash(dst []byte, hash int64) []byte {
	n := len(dst)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(hash))
	dst = keystring.Append(dst, bson.Value{Type: bson.TypeInt64, Data: dst[n : n+8]}, false, nil)
	return dst[:n+copy(dst[n:], dst[n+8:])]
}

// Values are the fields of the key as doc has them, missing ones as null: the
// shard key part of a document key. Error 61 as Append.
func (k *Key) Values(doc bson.Doc) (bson.Doc, error) {
	var b bson.Builder
	for i := range k.parts {
		v := k.parts[i].Value(doc)
		switch v.Type {
		case bson.TypeArray:
			return nil, mongoerr.New(mongoerr.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
		case bson.Missing:
			v = bson.Null
		}
		b.Value(k.parts[i].Path, v)
	}
	return b.Finish(), nil
}

// Same says whether two patterns are one.
func (k *Key) Same(other *Key) bool { return bson.CompareDocs(k.pattern, other.pattern, nil) == 0 }

// prefixOf says whether a pattern starts with the fields of the key, the same
// in name and value.
func (k *Key) prefixOf(pattern bson.Doc) bool {
	it := pattern.Iter()
	for name, v := range k.pattern.All() {
		if !it.Next() || it.Key != name || !bson.Equal(it.Value, v) {
			return false
		}
	}
	return true
}

// Serves says whether an index can be the one that the shard key needs: it
// starts with the key, holds every document once (multikey: it holds arrays),
// and orders strings simply. reason says, in the words of shardCollection, why
// one that starts with the key does not.
func (k *Key) Serves(ix *schema.Index, multikey bool) (ok bool, reason string) {
	switch {
	case !k.prefixOf(ix.Key):
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

// AllowsUnique says whether a unique index is unique over all shards: it starts
// with the names of the key's fields, or with _id.
func (k *Key) AllowsUnique(index bson.Doc) bool {
	if name, _ := index.First(); name == "_id" {
		return true
	}
	it := index.Iter()
	for i := range k.parts {
		if !it.Next() || it.Key != k.parts[i].Path {
			return false
		}
	}
	return true
}
