package schema

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Sharding is what a shard knows about a sharded collection: a part of its catalog entry.
// It is immutable. (docs/rfcs/0023-cluster.md, "What a shard knows")
type Sharding struct {
	Key    *ShardKey
	Unique bool
	// Version is the shard's version of the collection: the highest version of its chunks
	// when the config servers last sent it; 0|0 if it owns nothing.
	Version ShardVersion
	// Shard is the name of the shard itself.
	Shard string
	// Hidden are ranges that are stored here but not owned.
	Hidden []HiddenRange
	// Blocked is the range that is about to move away, nil for none.
	Blocked *BlockedRange
}

// HiddenRange is a range whose documents no reader sees: an operation of the cluster is
// moving it here, or has moved it away.
type HiddenRange struct {
	ShardRange
	Operation int64 // number of the operation
	Receiving bool
}

// BlockedRange is a range in which writes and, if Reads is set, reads wait for the end of
// an operation.
type BlockedRange struct {
	ShardRange
	Operation int64
	Reads     bool
}

// Hides reports whether a document is in a hidden range.
func (s *Sharding) Hides(doc bson.Doc) bool {
	if s == nil || len(s.Hidden) == 0 {
		return false
	}
	var room [64]byte
	at, err := s.Key.Append(room[:0], doc)
	if err != nil {
		return false // an array, which sharded collections reject
	}
	return slices.ContainsFunc(s.Hidden, func(h HiddenRange) bool { return h.Holds(at) })
}

// Shown reports whether a document has a shard key that is in no hidden range. One with an
// array has none, and is neither hidden nor shown.
func (s *Sharding) Shown(doc bson.Doc) bool {
	if s == nil {
		return true
	}
	var room [64]byte
	at, err := s.Key.Append(room[:0], doc)
	return err == nil && !slices.ContainsFunc(s.Hidden, func(h HiddenRange) bool { return h.Holds(at) })
}

// Moves reports whether a range of the collection is hidden or blocked. Then the server
// removes nothing on its own.
func (s *Sharding) Moves() bool { return s != nil && (len(s.Hidden) > 0 || s.Blocked != nil) }

// Shows reports whether readers under both entries see the same documents.
func (s *Sharding) Shows(t *Sharding) bool {
	if s == t {
		return true
	}
	if s == nil || t == nil || s.Version != t.Version || (s.Blocked != nil && s.Blocked.Reads) != (t.Blocked != nil && t.Blocked.Reads) {
		return false
	}
	return slices.EqualFunc(s.Hidden, t.Hidden, func(a, b HiddenRange) bool { return a.Same(b.ShardRange) })
}

// Holds reports whether a position in the key space (ShardKey.Append) is in the range.
func (r ShardRange) Holds(at []byte) bool {
	return bytes.Compare(r.Min.Key, at) <= 0 && bytes.Compare(at, r.Max.Key) < 0
}

// Doc returns the stored form:
//
//	{key, unique, epoch: ObjectId, timestamp, lastmod: Timestamp, shard,
//	 hidden?: [{min, max, operation: long, receiving: bool}],
//	 blocked?: {min, max, operation: long, reads: bool}}
func (s *Sharding) Doc() bson.Doc {
	var b bson.Builder
	b.Doc("key", s.Key.Pattern()).Bool("unique", s.Unique).ObjectID("epoch", s.Version.Epoch)
	b.Timestamp("timestamp", s.Version.Timestamp).Timestamp("lastmod", s.Version.Lastmod()).String("shard", s.Shard)
	if len(s.Hidden) > 0 {
		b.OpenArray("hidden")
		for i, h := range s.Hidden {
			b.OpenDoc(bson.Index(i)).Doc("min", s.Key.Doc(h.Min)).Doc("max", s.Key.Doc(h.Max))
			b.Int64("operation", h.Operation).Bool("receiving", h.Receiving).Close()
		}
		b.Close()
	}
	if h := s.Blocked; h != nil {
		b.OpenDoc("blocked").Doc("min", s.Key.Doc(h.Min)).Doc("max", s.Key.Doc(h.Max))
		b.Int64("operation", h.Operation).Bool("reads", h.Reads).Close()
	}
	return b.Finish()
}

// LoadSharding reads the stored form. An error names the invalid field.
func LoadSharding(doc bson.Doc) (*Sharding, error) {
	bad := func(what string) error {
		return fmt.Errorf("the entry of a sharded collection has no valid %s: %s", what, doc)
	}
	key, epoch, timestamp, lastmod := doc.Lookup("key"), doc.Lookup("epoch"), doc.Lookup("timestamp"), doc.Lookup("lastmod")
	unique, shard := doc.Lookup("unique"), doc.Lookup("shard")
	if key.Type != bson.TypeDocument || unique.Type != bson.TypeBool || shard.Type != bson.TypeString {
		return nil, bad("key")
	}
	if epoch.Type != bson.TypeObjectID || timestamp.Type != bson.TypeTimestamp || lastmod.Type != bson.TypeTimestamp {
		return nil, bad("version")
	}
	k, err := ParseShardKey(key.Doc())
	if err != nil {
		return nil, err
	}
	generation := ShardGeneration{epoch.ObjectID(), timestamp.Timestamp()}
	s := &Sharding{Key: k, Unique: unique.Bool(), Version: generation.At(lastmod.Timestamp()), Shard: shard.Str()}
	if hidden := doc.Lookup("hidden"); hidden.Type == bson.TypeArray {
		for v := range hidden.Doc().Values() {
			r, operation, is, ok := k.loadRange(v, "receiving")
			if !ok {
				return nil, bad("hidden range")
			}
			s.Hidden = append(s.Hidden, HiddenRange{r, operation, is})
		}
	}
	if blocked := doc.Lookup("blocked"); !blocked.IsMissing() {
		r, operation, is, ok := k.loadRange(blocked, "reads")
		if !ok {
			return nil, bad("blocked range")
		}
		s.Blocked = &BlockedRange{r, operation, is}
	}
	return s, nil
}

// loadRange reads a range as Sharding.Doc writes one, with its flag.
func (k *ShardKey) loadRange(v bson.Value, flag string) (r ShardRange, operation int64, is, ok bool) {
	if v.Type != bson.TypeDocument {
		return r, 0, false, false
	}
	n, f := v.Doc().Lookup("operation"), v.Doc().Lookup(flag)
	r, ok = k.ParseRange(v.Doc())
	if !ok || n.Type != bson.TypeInt64 || f.Type != bson.TypeBool {
		return r, 0, false, false
	}
	return r, n.Int64(), f.Bool(), true
}

// ParseRange reads min and max of a document; ok is false if they are not a range.
func (k *ShardKey) ParseRange(doc bson.Doc) (r ShardRange, ok bool) {
	lo, hi := doc.Lookup("min"), doc.Lookup("max")
	if lo.Type != bson.TypeDocument || hi.Type != bson.TypeDocument {
		return r, false
	}
	var okLo, okHi bool
	r.Min, okLo = k.ParseBound(lo.Doc())
	r.Max, okHi = k.ParseBound(hi.Doc())
	return r, okLo && okHi && r.Min.Compare(r.Max) < 0
}

// KeyChange checks an update's change of a document's shard key, and reports whether its
// position changed. multi says that the statement may update many documents, retryable
// that it has a transaction number or is in a transaction. Errors: 61 for arrays, 72 for a
// change by a multi statement, 20 for one that is not retryable. (Manual, "Change a
// Document's Shard Key Value")
func (k *ShardKey) KeyChange(before, after bson.Doc, multi, retryable bool) (moved bool, err error) {
	var was, is bson.Doc
	if is, err = k.Values(after); err != nil {
		return false, err
	}
	if was, err = k.Values(before); err == nil && bson.CompareDocs(was, is, nil) == 0 {
		return false, nil
	}
	if multi {
		return false, mongoerr.New(mongoerr.InvalidOptions, "Multi-update operations are not allowed when updating the shard key field.")
	}
	if !retryable {
		return false, mongoerr.New(mongoerr.IllegalOperation,
			"Must run update to shard key field in a multi-statement transaction or with retryWrites: true.")
	}
	to, err := k.Append(nil, after)
	if err != nil {
		return false, err
	}
	from, err := k.Append(nil, before)
	return err != nil || !bytes.Equal(from, to), nil
}

// WouldChangeShard returns error 283, by which a shard tells the router that after an
// update the document belongs to another shard: the old one is to be deleted here, and the
// new one inserted there.
func WouldChangeShard(before, after bson.Doc) error {
	info := new(bson.Builder).Doc("preImage", before).Doc("postImage", after).Finish()
	return mongoerr.New(mongoerr.WouldChangeOwningShard, "the update would move the document to another shard").WithExtra(info)
}

// ShardRanges are ranges of one shard key, in order, without overlap.
type ShardRanges []ShardRange

// ParseRanges reads an array of {min, max}, in order. Errors: 2.
func (k *ShardKey) ParseRanges(v bson.Value) (ShardRanges, error) {
	var out ShardRanges
	if v.Type != bson.TypeArray {
		return nil, mongoerr.New(mongoerr.BadValue, "ranges must be an array: %s", v)
	}
	for e := range v.Doc().Values() {
		if e.Type != bson.TypeDocument {
			return nil, mongoerr.New(mongoerr.BadValue, "a range must be a document: %s", e)
		}
		r, ok := k.ParseRange(e.Doc())
		if !ok || len(out) > 0 && out[len(out)-1].Max.Compare(r.Min) > 0 {
			return nil, mongoerr.New(mongoerr.BadValue, "not ranges of %s in order: %s", k, e)
		}
		out = append(out, r)
	}
	return out, nil
}

// Hold reports whether a position in the key space is in one of the ranges.
func (r ShardRanges) Hold(at []byte) bool {
	i, found := slices.BinarySearchFunc(r, at, func(one ShardRange, at []byte) int { return bytes.Compare(one.Min.Key, at) })
	if !found {
		i--
	}
	return i >= 0 && r[i].Holds(at)
}
