package layout

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// ByKey lays the documents of a sharded collection in the order of its shard key: the record
// key is firstKey, then the place of the document in the key space (schema.ShardKey.Append),
// then the key string of _id. So a chunk is one range of records
// (docs/rfcs/0024-hashed-layout.md).
//
// A document with an array in a field of the key, which no sharded collection takes, but one
// that was sharded does, has no place: it is set apart, behind all others, under firstKey ‖
// apart ‖ key string of _id. Where the first field is hashed it is laid by the array's value.
//
// A document whose shard key changes gets another record key.
type ByKey struct{ key *schema.ShardKey }

const (
	// firstKey is the first byte of the record keys of a ByKey layout, and of no other: see
	// Key.OfID.
	firstKey = 0xfe
	// apart is above the first byte of all key strings, and of the highest bound.
	apart = 0xff
)

// Placeable reports whether documents can lie by a shard key: no path of it names an element
// of an array by its number. (There a document with an array may have one key, and an index
// would not be marked multikey.)
func Placeable(k *schema.ShardKey) bool {
	return k.HashedFirst() || !slices.ContainsFunc(k.Parts, func(p schema.Part) bool {
		return slices.ContainsFunc(p.Components, bson.AllDigits)
	})
}

// NewByKey returns the layout for a shard key. REQUIRES: Placeable.
func NewByKey(k *schema.ShardKey) *ByKey {
	invariant.Check(Placeable(k), "layout: documents can lie by the shard key")
	return &ByKey{k}
}

// SetsApart reports whether documents with an array in a field of the key have no place.
func (l *ByKey) SetsApart() bool { return !l.key.HashedFirst() }

// Apart reports whether a record key of a ByKey layout is that of a document that is set apart.
func (k Key) Apart() bool { return len(k) > 1 && k[0] == firstKey && k[1] == apart }

// PlacesEnd is above all record keys without their firstKey, but those that are set apart.
var PlacesEnd = []byte{apart}

// FoundByID implements Layout: where the hash is that of _id, it tells the record key.
func (l *ByKey) FoundByID() Lookup {
	if l.key.HashedFirst() && len(l.key.Parts) == 1 && l.key.Parts[0].Path == "_id" {
		return ByValue
	}
	return ByEntry
}

// Append implements Layout.
func (l *ByKey) Append(dst Key, p Place) Key {
	n := len(dst)
	dst = append(dst, firstKey)
	if p.Doc == nil {
		return append(l.key.AppendPart(dst, 0, p.IDValue), p.ID...)
	}
	for i := range l.key.Parts {
		v := l.key.Parts[i].Value(p.Doc)
		if v.Type == bson.TypeArray && l.SetsApart() {
			dst = append(dst[:n], firstKey, apart)
			break
		}
		dst = l.key.AppendPart(dst, i, v)
	}
	return append(dst, p.ID...)
}

// Prefix implements Layout.
func (l *ByKey) Prefix(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if Key(b).Apart() {
		return 2
	}
	at := 1
	for range l.key.Parts {
		n := keystring.Skip(b[at:], false)
		if n <= 0 || at+n > len(b) {
			return 0 // damaged
		}
		at += n
	}
	return at
}

// Identity implements Layout.
func (l *ByKey) Identity(k Key) []byte { return k[l.Prefix(k):] }

// ID implements Layout.
func (l *ByKey) ID(k Key) ([]byte, bool) { return l.Identity(k), true }

// Stays reports whether a document keeps its record key when it becomes another one.
func (l *ByKey) Stays(old, doc bson.Doc) bool {
	if l.SetsApart() && (l.hasArray(old) || l.hasArray(doc)) {
		return l.hasArray(old) && l.hasArray(doc)
	}
	return samePlace(l.key, old, doc)
}

// hasArray reports whether a document has an array at or above a field of the key.
func (l *ByKey) hasArray(doc bson.Doc) bool {
	for i := range l.key.Parts {
		if l.key.Parts[i].Value(doc).Type == bson.TypeArray {
			return true
		}
	}
	return false
}

// samePlace reports whether two documents have the same place in the space of a shard key.
func samePlace(k *schema.ShardKey, old, doc bson.Doc) bool {
	for i := range k.Parts {
		x, y := k.Parts[i].Value(old), k.Parts[i].Value(doc)
		if x.Type == y.Type && bytes.Equal(x.Data, y.Data) {
			continue
		}
		var was, is [64]byte
		if !bytes.Equal(k.AppendPart(was[:0], i, x), k.AppendPart(is[:0], i, y)) {
			return false
		}
	}
	return true
}

// Chunk implements Layout: a range of the key by which documents lie is one of records.
func (l *ByKey) Chunk(k *schema.ShardKey, r schema.ShardRange) (Chunk, bool) {
	if bson.CompareDocs(l.key.Pattern(), k.Pattern(), nil) != 0 {
		return Chunk{}, false
	}
	from, to := append(Key{firstKey}, r.Min.Key...), append(Key{firstKey}, r.Max.Key...)
	return Chunk{KeyRange: KeyRange{from, to}}, true
}

// First is the byte that record keys have before the entry of an index that the records
// serve.
const First = firstKey

// Serves implements Layout: the index is on exactly the fields of the shard key, has each
// document, and orders values by their bytes. One that is hashed cannot be unique.
func (l *ByKey) Serves(ix *schema.Index) bool {
	shown := *ix
	shown.Hidden = false // from plans alone
	ok, _ := l.key.Serves(&shown, false)
	return ok && len(ix.Parts) == len(l.key.Parts) && !(l.key.IsHashed() && (ix.Unique || ix.PrepareUnique))
}

// Misplaced implements Layout.
func (l *ByKey) Misplaced(k Key, p Place) bool { return !bytes.Equal(l.Append(nil, p), k) }

// InOrder implements Layout.
func (*ByKey) InOrder() bool { return false }

// Sections implements Layout: there are none.
func (*ByKey) Sections() Sections { return nil }

// Stored implements Layout: {key: the pattern of the shard key}.
func (l *ByKey) Stored() bson.Doc { return new(bson.Builder).Doc("key", l.key.Pattern()).Finish() }

// LoadByKey reads what Stored has written; nil for anything else.
func LoadByKey(d bson.Doc) *ByKey {
	pattern := d.Lookup("key")
	if pattern.Type != bson.TypeDocument || d.Len() != 1 {
		return nil
	}
	k, err := schema.ParseShardKey(pattern.Doc())
	if err != nil || !Placeable(k) {
		return nil
	}
	return &ByKey{k}
}
