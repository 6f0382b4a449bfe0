package layout

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Key is a record key: the key of a document in its collection's keyspace.
// Packages above the catalog treat it as opaque.
type Key []byte

// Layout defines the record keys of documents. Immutable.
type Layout interface {
	// FoundByID returns how the record key is found by _id.
	FoundByID() Lookup
	// Append appends the record key of a document that is stored now.
	Append(dst Key, p Place) Key
	// Identity returns the part of a record key that a document keeps for its life,
	// and by which it is locked (invariant identity). It shares the key's bytes.
	Identity(k Key) []byte
	// Prefix returns how many bytes of a record key precede its identity, from the bytes
	// that begin with them: the record key, or the value of an entry of the index on _id.
	// Of layouts that are found ByEntry or ByValue.
	Prefix(b []byte) int
	// Stays reports whether a document keeps its record key when it becomes another one.
	// If it does not, it moves with the update.
	Stays(old, doc bson.Doc) bool
	// Chunk returns the records in which are exactly the documents in a range of a shard
	// key; ok is false if the layout does not know them.
	Chunk(k *schema.ShardKey, r schema.ShardRange) (Chunk, bool)
	// Serves reports whether the records are the entries of an index: each record key is
	// the key string of the document's one key, then the key string of its _id, behind
	// First. Such an index costs nothing.
	Serves(ix *schema.Index) bool
	// Misplaced reports whether a document that is stored under a record key belongs under
	// another one.
	Misplaced(k Key, p Place) bool
	// ID returns the key string of _id in a record key, empty if the key is
	// damaged; has is false if the record keys of the layout do not contain it.
	ID(k Key) (id []byte, has bool)
	// InOrder says that documents must become visible in the order of their record
	// keys, so that one writer at a time may add some.
	InOrder() bool
	// Sections returns the parts of the keyspace that are dropped as a whole; nil
	// for none.
	Sections() Sections
	// Stored returns what a collection's descriptor stores of the layout; nil where
	// the layout follows from the collection's options.
	Stored() bson.Doc
}

// settled is the part of a layout in which a record key never changes with its document,
// has no Prefix, and tells nothing of shard keys or their indexes.
type settled struct{}

// Prefix implements Layout.
func (settled) Prefix([]byte) int { return 0 }

// Stays implements Layout.
func (settled) Stays(_, _ bson.Doc) bool { return true }

// Chunk implements Layout.
func (settled) Chunk(*schema.ShardKey, schema.ShardRange) (Chunk, bool) { return Chunk{}, false }

// Serves implements Layout.
func (settled) Serves(*schema.Index) bool { return false }

// Misplaced implements Layout.
func (settled) Misplaced(Key, Place) bool { return false }

// Lookup is how a record key is found by _id.
type Lookup int

const (
	// ByRecord: it is the key string of _id, so the records are the index on _id.
	ByRecord Lookup = iota
	// ByEntry: it is the Prefix in the entry of the index on _id, and then the key
	// string of _id.
	ByEntry
	// ByScan: the index on _id, if there is one, is like any other.
	ByScan
	// ByValue: it is mostly what Append makes of a Place without a document; where that
	// finds nothing, as ByEntry.
	ByValue
	// ByEither: as ByEntry where the index on _id has an entry, else as ByRecord.
	ByEither
)

// Place has what record keys are made from. No layout needs all of it.
type Place struct {
	// Doc is the document; nil for one of which only the _id is known, where the layout is
	// found ByValue. IDValue is that then.
	Doc     bson.Doc
	IDValue bson.Value
	// ID is the key string of the document's _id, in the order of the collection.
	ID []byte
	// Low is the low water: a new document is above it.
	Low LowWater
	// Sequence is the document's number in the order of insertion.
	Sequence int64
}

// Sections are the parts of a keyspace in which documents are counted, and which
// are dropped as a whole once everything in them is due. A section has a number, which
// is in the record keys of the section, eight bytes big-endian: see Key.Section.
type Sections interface {
	// In returns the section of a record key.
	In(k Key) uint64
	// Spans returns the sections from one mark up to a higher one.
	Spans(from, to LowWater) []Span
	// Ranges returns the records of a span, in order, as ranges that contain nothing else.
	Ranges(s Span) []KeyRange
	// Seen appends the record key of a document that was seen in a section, given its _id
	// and the key string of that; ok is false if that does not tell the record key.
	Seen(dst Key, n uint64, idValue bson.Value, id []byte) (k Key, ok bool)
	// Of returns the section to which a document belongs by its current content.
	Of(doc bson.Doc) uint64
	// Third returns what a document adds to the third sum of its section, after the
	// counts of documents and bytes. Where Marks, that is 1 for a document that
	// stays in the section though it belongs to a later one, and the sum only says
	// whether there may be any; else it is exact.
	Third(doc bson.Doc, in uint64) int64
	Marks() bool
	// Serve reports whether the sections are in the order of an index's rule.
	Serve(ix *schema.Index) bool
	// Instants says that everything in a section is due at the same instant, so
	// that no section is ever due in part.
	Instants() bool
	// WholeUntil returns the last date of the last section that ends at or before a
	// date.
	WholeUntil(date int64) int64
	// Due returns the mark below which are exactly the sections that are wholly due
	// by a rule that they Serve, at an instant in milliseconds since 1970
	// (invariant section-due).
	Due(r *schema.Rule, now int64) LowWater
	// Before returns the mark above all sections whose dates are all at or before a
	// date.
	Before(date int64) LowWater
}

// SectionBytes is the length of a section's number in a record key.
const SectionBytes = 8

// AppendSection appends the number of a section, with which its record keys
// begin.
func AppendSection(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// Section returns the section of a record key, in a layout with sections; 0 for
// a damaged key.
func (k Key) Section() uint64 {
	if len(k) > slotHead && k[0] == firstSlots {
		k = k[slotHead:]
	}
	if len(k) < SectionBytes {
		return 0
	}
	return binary.BigEndian.Uint64(k)
}

// Windowed is a layout whose sections are windows: Window or Slots.
type Windowed interface {
	Layout
	Sections
}

// LoadWindowed reads what the Stored of a Windowed layout has written, with a parser of
// specifications; nil for anything else.
func LoadWindowed(d bson.Doc, load func(bson.Doc) (*schema.Index, error)) Windowed {
	w := LoadWindow(d, load)
	pattern := d.Lookup(slotsField)
	switch {
	case w == nil:
		return nil
	case pattern.IsMissing():
		return w
	case pattern.Type != bson.TypeDocument:
		return nil
	}
	k, err := schema.ParseShardKey(pattern.Doc())
	if err != nil || !k.HashedFirst() {
		return nil
	}
	return NewSlots(w, k)
}
