package schema

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

// ShardBound is one end of a chunk or of a zone. Key is the key string of its
// fields, which orders it among bounds and documents; TypeBits restore the exact
// values. A hashed field holds hashes (longs), not values. The Key of MaxKey in every field is
// not that key string but what follows all that begin with it: a document may have these
// values, and is in the range that ends there.
type ShardBound struct {
	Key      []byte
	TypeBits []byte
}

// Compare orders two bounds of one key.
func (b ShardBound) Compare(c ShardBound) int { return bytes.Compare(b.Key, c.Key) }

// ShardRange is the range of keys from Min up to, but not including, Max.
type ShardRange struct{ Min, Max ShardBound }

// Contains reports whether s lies within r.
func (r ShardRange) Contains(s ShardRange) bool {
	return r.Min.Compare(s.Min) <= 0 && s.Max.Compare(r.Max) <= 0
}

// Overlaps reports whether r and s have keys in common.
func (r ShardRange) Overlaps(s ShardRange) bool {
	return r.Min.Compare(s.Max) < 0 && s.Min.Compare(r.Max) < 0
}

// Without returns the parts of r, in order, that are not in s.
func (r ShardRange) Without(s ShardRange) (rest []ShardRange) {
	if !r.Overlaps(s) {
		return []ShardRange{r}
	}
	if r.Min.Compare(s.Min) < 0 {
		rest = append(rest, ShardRange{r.Min, s.Min})
	}
	if s.Max.Compare(r.Max) < 0 {
		rest = append(rest, ShardRange{s.Max, r.Max})
	}
	return rest
}

// Same reports whether both are the same range.
func (r ShardRange) Same(s ShardRange) bool {
	return r.Min.Compare(s.Min) == 0 && r.Max.Compare(s.Max) == 0
}

// Min returns the lowest bound: MinKey in every field.
func (k *ShardKey) Min() ShardBound { return k.lowest }

// Max returns the highest bound, MaxKey in every field, which is above all documents.
func (k *ShardKey) Max() ShardBound { return k.highest }

// Whole returns the whole key space.
func (k *ShardKey) Whole() ShardRange { return ShardRange{k.lowest, k.highest} }

func (k *ShardKey) ends() (lowest, highest ShardBound) {
	for range k.Parts {
		lowest.Key = keystring.Append(lowest.Key, bson.MinKey, false, nil)
		highest.Key = keystring.Append(highest.Key, bson.MaxKey, false, nil)
	}
	highest.Key = keystring.Successor(highest.Key)
	return lowest, highest
}

// bound ends a bound to which the values of all fields were added.
func (k *ShardKey) bound(b ShardBound) ShardBound {
	if bytes.Equal(keystring.Successor(b.Key), k.highest.Key) {
		return k.highest
	}
	b.TypeBits = keystring.TrimTypeBits(b.TypeBits)
	return b
}

// ParseBound reads a bound: the fields of the key, in its order, and nothing
// else. ok is false for anything else: arrays, regular expressions, a hashed
// field that is neither a long nor MinKey nor MaxKey.
func (k *ShardKey) ParseBound(doc bson.Doc) (b ShardBound, ok bool) {
	it := doc.Iter()
	for i := range k.Parts {
		if !it.Next() || it.Key != k.Parts[i].Path || !k.boundable(i, it.Value) {
			return ShardBound{}, false
		}
		b.Add(it.Value)
	}
	return k.bound(b), !it.Next()
}

// boundable reports whether v is allowed in a bound for field i. (Manual, "Shard
// Keys"; the hashed field of a bound is a NumberLong, MinKey or MaxKey.)
func (k *ShardKey) boundable(i int, v bson.Value) bool {
	switch v.Type {
	case bson.TypeMinKey, bson.TypeMaxKey, bson.TypeInt64:
		return true
	case bson.TypeArray, bson.TypeRegex, bson.TypeUndefined:
		return false
	}
	return i != k.Hashed && !HasOperator(v)
}

// Add appends the value of the next field; the caller trims the type bits when all are added.
func (b *ShardBound) Add(v bson.Value) {
	b.Key = keystring.Append(b.Key, v, false, nil)
	b.TypeBits = keystring.AppendTypeBits(b.TypeBits, v)
}

// BoundOf returns the bound at which a document's shard key begins; the highest for MaxKey in
// every field, at which no range begins.
func (k *ShardKey) BoundOf(doc bson.Doc) (ShardBound, error) {
	values, err := k.Values(doc)
	if err != nil {
		return ShardBound{}, err
	}
	var b ShardBound
	i := 0
	for it := values.Iter(); it.Next(); i++ {
		if i == k.Hashed {
			b.Add(bson.Int64(HashOf(it.Value, nil)))
		} else {
			b.Add(it.Value)
		}
	}
	return k.bound(b), nil
}

// Doc writes a bound as config.chunks and config.tags hold it.
func (k *ShardKey) Doc(b ShardBound) bson.Doc {
	var doc bson.Builder
	for i, v := range k.BoundValues(b) {
		doc.Value(k.Parts[i].Path, v)
	}
	return doc.Finish()
}

// BoundValues are the values of a bound's fields, in their order: hashes of a hashed
// one.
func (k *ShardKey) BoundValues(b ShardBound) []bson.Value {
	if bytes.Equal(b.Key, k.highest.Key) {
		return slices.Repeat([]bson.Value{bson.MaxKey}, len(k.Parts))
	}
	vs, _, err := keystring.Decode(b.Key, b.TypeBits, make([]bool, len(k.Parts)))
	if err != nil {
		panic("shard: a bound that this key did not make") // bounds come only from ParseBound
	}
	return vs
}

// RangeText prints a range as messages do: [{ x: 1 }, { x: 2 }).
func (k *ShardKey) RangeText(r ShardRange) string {
	return "[" + k.Doc(r.Min).String() + ", " + k.Doc(r.Max).String() + ")"
}

// HasOperator reports whether v is a document with a field that begins with $, which no
// bound may have.
func HasOperator(v bson.Value) bool {
	if v.Type != bson.TypeDocument {
		return false
	}
	for name := range v.Doc().All() {
		if name != "" && name[0] == '$' {
			return true
		}
	}
	return false
}
