package shard

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Bound and Range are the bounds of chunks and zones.
type (
	Bound = schema.ShardBound
	Range = schema.ShardRange
)

// Key is a shard key pattern, prepared for targeting. It is immutable.
type Key struct {
	*schema.ShardKey
	index *plan.Index // the key in the planner's form, see asIndex
}

// ParseKey reads a shard key pattern. Errors: 2 for an invalid one, 13103 for
// too many fields. (src/mongo/s/shard_key_pattern.cpp)
func ParseKey(pattern bson.Doc) (*Key, error) {
	k, err := schema.ParseShardKey(pattern)
	if err != nil {
		return nil, err
	}
	return NewKey(k), nil
}

// NewKey returns the Key of a parsed pattern.
func NewKey(k *schema.ShardKey) *Key {
	key := &Key{ShardKey: k}
	key.index = key.asIndex()
	return key
}

// Same reports whether two patterns are equal.
func (k *Key) Same(other *Key) bool { return bson.CompareDocs(k.Pattern(), other.Pattern(), nil) == 0 }

// AllowsUnique reports whether a unique index is unique over all shards: it starts
// with the names of the key's fields, or with _id.
func (k *Key) AllowsUnique(index bson.Doc) bool {
	if name, _ := index.First(); name == "_id" {
		return true
	}
	it := index.Iter()
	for i := range k.Parts {
		if !it.Next() || it.Key != k.Parts[i].Path {
			return false
		}
	}
	return true
}

// prefixBound reads a bound that may name the first fields only; the others are
// filled.
func (k *Key) prefixBound(doc bson.Doc, fill bson.Value) (Bound, bool) {
	return k.ParseBound(k.extend(doc, fill))
}

// extend adds the fields of the key that doc does not have.
func (k *Key) extend(doc bson.Doc, fill bson.Value) bson.Doc {
	b := new(bson.Builder).Fields(doc)
	for _, p := range k.Parts[min(doc.Len(), len(k.Parts)):] {
		b.Value(p.Path, fill)
	}
	return b.Finish()
}

// boundAt returns the bound whose hashed field is hash, with prefix for the fields
// before it and MinKey for those after it.
func (k *Key) boundAt(prefix []bson.Value, hash int64) Bound {
	var b Bound
	for i := range k.Parts {
		switch {
		case i < k.Hashed:
			b.Add(prefix[i])
		case i == k.Hashed:
			b.Add(bson.Int64(hash))
		default:
			b.Add(bson.MinKey)
		}
	}
	b.TypeBits = keystring.TrimTypeBits(b.TypeBits)
	return b
}
