package layout

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Hashed lays the documents of a sharded collection in the order of a shard key whose
// first field is hashed: the record key is firstHashed, then the place of the document in
// the key space (schema.ShardKey.Append), then the key string of _id. So a chunk is one
// range of records (docs/rfcs/0024-hashed-layout.md).
//
// A document whose shard key changes gets another record key.
type Hashed struct{ key *schema.ShardKey }

// firstHashed is the first byte of the record keys of a Hashed layout, and of no other:
// see Key.OfID.
const firstHashed = 0xfe

// Hashable reports whether documents can lie by a shard key.
func Hashable(k *schema.ShardKey) bool { return k.HashedFirst() }

// NewHashed returns the layout for a shard key. REQUIRES: Hashable.
func NewHashed(k *schema.ShardKey) *Hashed {
	invariant.Check(Hashable(k), "layout: the first field of the shard key is hashed")
	return &Hashed{k}
}

// FoundByID implements Layout: where the hash is that of _id, it tells the record key.
func (l *Hashed) FoundByID() Lookup {
	if len(l.key.Parts) == 1 && l.key.Parts[0].Path == "_id" {
		return ByValue
	}
	return ByEntry
}

// Append implements Layout. An array, which no document has in a field of the key, is laid
// by its value.
func (l *Hashed) Append(dst Key, p Place) Key {
	dst = append(dst, firstHashed)
	if p.Doc == nil {
		return append(l.key.AppendPart(dst, 0, p.IDValue), p.ID...)
	}
	for i := range l.key.Parts {
		dst = l.key.AppendPart(dst, i, l.key.Parts[i].Value(p.Doc))
	}
	return append(dst, p.ID...)
}

// Prefix implements Layout.
func (l *Hashed) Prefix(b []byte) int {
	if len(b) == 0 {
		return 0
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
func (l *Hashed) Identity(k Key) []byte { return k[l.Prefix(k):] }

// ID implements Layout.
func (l *Hashed) ID(k Key) ([]byte, bool) { return l.Identity(k), true }

// Stays reports whether a document keeps its record key when it becomes another one.
func (l *Hashed) Stays(old, doc bson.Doc) bool { return samePlace(l.key, old, doc) }

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
func (l *Hashed) Chunk(k *schema.ShardKey, r schema.ShardRange) (Chunk, bool) {
	if bson.CompareDocs(l.key.Pattern(), k.Pattern(), nil) != 0 {
		return Chunk{}, false
	}
	from, to := append(Key{firstHashed}, r.Min.Key...), append(Key{firstHashed}, r.Max.Key...)
	return Chunk{KeyRange: KeyRange{from, to}}, true
}

// First is the byte that record keys have before the entry of an index that the records
// serve.
const First = firstHashed

// Serves implements Layout: the index is on exactly the fields of the shard key, has each
// document, and orders values by their bytes.
func (l *Hashed) Serves(ix *schema.Index) bool {
	shown := *ix
	shown.Hidden = false // from plans alone
	ok, _ := l.key.Serves(&shown, false)
	return ok && len(ix.Parts) == len(l.key.Parts) && !ix.Unique && !ix.PrepareUnique
}

// Misplaced implements Layout.
func (l *Hashed) Misplaced(k Key, p Place) bool { return !bytes.Equal(l.Append(nil, p), k) }

// InOrder implements Layout.
func (*Hashed) InOrder() bool { return false }

// Sections implements Layout: there are none.
func (*Hashed) Sections() Sections { return nil }

// Stored implements Layout: {key: the pattern of the shard key}.
func (l *Hashed) Stored() bson.Doc { return new(bson.Builder).Doc("key", l.key.Pattern()).Finish() }

// LoadHashed reads what Stored has written; nil for anything else.
func LoadHashed(d bson.Doc) *Hashed {
	pattern := d.Lookup("key")
	if pattern.Type != bson.TypeDocument || d.Len() != 1 {
		return nil
	}
	k, err := schema.ParseShardKey(pattern.Doc())
	if err != nil || !Hashable(k) {
		return nil
	}
	return &Hashed{k}
}
