package shard

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Bound is one end of a chunk or of a zone. Key are the key string's bytes of
// its fields, which order it among bounds and documents; TypeBits give back the
// values exactly. A hashed field holds hashes (longs), not values.
type Bound struct {
	Key      []byte
	TypeBits []byte
}

// Compare orders two bounds of one key.
func (b Bound) Compare(c Bound) int { return bytes.Compare(b.Key, c.Key) }

// Range is the keys from Min up to, but not including, Max.
type Range struct{ Min, Max Bound }

// Contains says whether s lies within r.
func (r Range) Contains(s Range) bool { return r.Min.Compare(s.Min) <= 0 && s.Max.Compare(r.Max) <= 0 }

// Overlaps says whether r and s have keys in common.
func (r Range) Overlaps(s Range) bool { return r.Min.Compare(s.Max) < 0 && s.Min.Compare(r.Max) < 0 }

// Same says whether both are one range.
func (r Range) Same(s Range) bool { return r.Min.Compare(s.Min) == 0 && r.Max.Compare(s.Max) == 0 }

// Min is the lowest bound: MinKey in every field.
func (k *Key) Min() Bound { return k.lowest }

// Max is the highest bound: MaxKey in every field.
func (k *Key) Max() Bound { return k.highest }

// Whole is all of the key space.
func (k *Key) Whole() Range { return Range{k.lowest, k.highest} }

func (k *Key) ends() (lowest, highest Bound) {
	for range k.parts {
		lowest.Key = keystring.Append(lowest.Key, bson.MinKey, false, nil)
		highest.Key = keystring.Append(highest.Key, bson.MaxKey, false, nil)
	}
	return lowest, highest
}

// ParseBound reads a bound: the fields of the key, in its order, and nothing
// else. ok is false for anything else: arrays, regular expressions, a hashed
// field that is neither a long nor MinKey nor MaxKey.
func (k *Key) ParseBound(doc bson.Doc) (b Bound, ok bool) {
	it := doc.Iter()
	for i := range k.parts {
		if !it.Next() || it.Key != k.parts[i].Path || !k.boundable(i, it.Value) {
			return Bound{}, false
		}
		b.add(it.Value)
	}
	b.TypeBits = keystring.TrimTypeBits(b.TypeBits)
	return b, !it.Next()
}

// boundable says whether v may stand in a bound for field i. (Manual, "Shard
// Keys"; the hashed field of a bound is a NumberLong, MinKey or MaxKey.)
func (k *Key) boundable(i int, v bson.Value) bool {
	switch v.Type {
	case bson.TypeMinKey, bson.TypeMaxKey, bson.TypeInt64:
		return true
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return false
	}
	return i != k.hashed && !hasOperator(v)
}

func (b *Bound) add(v bson.Value) {
	b.Key = keystring.Append(b.Key, v, false, nil)
	b.TypeBits = keystring.AppendTypeBits(b.TypeBits, v)
}

// prefixBound reads a bound that may name the first fields only; the others are
// filled.
func (k *Key) prefixBound(doc bson.Doc, fill bson.Value) (Bound, bool) {
	return k.ParseBound(k.extend(doc, fill))
}

// extend adds the fields of the key that doc does not reach.
func (k *Key) extend(doc bson.Doc, fill bson.Value) bson.Doc {
	b := new(bson.Builder).Fields(doc)
	for _, p := range k.parts[min(doc.Len(), len(k.parts)):] {
		b.Value(p.Path, fill)
	}
	return b.Finish()
}

// boundAt is the bound whose hashed field is hash, with prefix for the fields
// before it and MinKey for those behind.
func (k *Key) boundAt(prefix []bson.Value, hash int64) Bound {
	var b Bound
	for i := range k.parts {
		switch {
		case i < k.hashed:
			b.add(prefix[i])
		case i == k.hashed:
			b.add(bson.Int64(hash))
		default:
			b.add(bson.MinKey)
		}
	}
	b.TypeBits = keystring.TrimTypeBits(b.TypeBits)
	return b
}

// BoundOf is the bound at which a document's shard key begins.
func (k *Key) BoundOf(doc bson.Doc) (Bound, error) {
	values, err := k.Values(doc)
	if err != nil {
		return Bound{}, err
	}
	var b Bound
	i := 0
	for it := values.Iter(); it.Next(); i++ {
		if i == k.hashed {
			b.add(bson.Int64(schema.HashOf(it.Value, nil)))
		} else {
			b.add(it.Value)
		}
	}
	b.TypeBits = keystring.TrimTypeBits(b.TypeBits)
	return b, nil
}

// Doc writes a bound as config.chunks and config.tags hold it.
func (k *Key) Doc(b Bound) bson.Doc {
	var doc bson.Builder
	for i, v := range k.values(b) {
		doc.Value(k.parts[i].Path, v)
	}
	return doc.Finish()
}

func (k *Key) values(b Bound) []bson.Value {
	vs, _, err := keystring.Decode(b.Key, b.TypeBits, make([]bool, len(k.parts)))
	if err != nil {
		panic("shard: a bound that this key did not make") // bounds come from ParseBound alone
	}
	return vs
}

// RangeText prints a range as messages do: [{ x: 1 }, { x: 2 }).
func (k *Key) RangeText(r Range) string {
	return "[" + k.Doc(r.Min).String() + ", " + k.Doc(r.Max).String() + ")"
}
