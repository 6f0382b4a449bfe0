package layout

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Key is a record key: the key of a document in its collection's keyspace.
// Packages above the catalog take it as opaque.
type Key []byte

// Layout says where documents lie. Immutable.
type Layout interface {
	// FoundByID says how the record key follows from _id.
	FoundByID() Lookup
	// Append appends the record key of a document that is stored now.
	Append(dst Key, p Place) Key
	// Identity is the part of a record key that a document keeps for its life, and
	// is locked by (invariant identity). It shares the key's bytes.
	Identity(k Key) []byte
	// ID is the key string of _id in a record key, empty where the key is damaged;
	// has is false where the record keys of the layout have none.
	ID(k Key) (id []byte, has bool)
	// InOrder says that documents must become visible in the order of their record
	// keys, so that one writer at a time may add some.
	InOrder() bool
	// Sections are the parts of the keyspace that go as a whole; nil for none.
	Sections() Sections
	// Stored is what a collection's descriptor says of the layout, so that it
	// can be read again; nil where the collection's options say all.
	Stored() bson.Doc
}

// Lookup is how a record key follows from _id.
type Lookup int

const (
	// ByRecord: it is the key string of _id, so the records are the index on _id.
	ByRecord Lookup = iota
	// ByEntry: it is the Prefix in the entry of the index on _id, and then the key
	// string of _id.
	ByEntry
	// ByScan: the index on _id is as every other, where there is one.
	ByScan
	// ByEither: as ByEntry where the index on _id has an entry, else as ByRecord.
	ByEither
)

// Place is what a record key follows from. No layout needs all of it.
type Place struct {
	Doc bson.Doc
	// ID is the key string of the document's _id, in the order of the collection.
	ID []byte
	// Low is what is gone: a new document lies above it.
	Low LowWater
	// Sequence is the document's number in the order of insertion.
	Sequence int64
}

// Sections are the parts of a keyspace in which documents are counted, and which
// go as a whole once all that is in them is due. A section has a number; the
// record keys of a section begin with it, eight bytes big-endian.
type Sections interface {
	// In is the section of a record key.
	In(k Key) uint64
	// Spans are the sections from one mark up to a higher one, as ranges of the
	// keyspace in which there is nothing else.
	Spans(from, to LowWater) []Span
	// Of is the section that a document belongs to by what it is now.
	Of(doc bson.Doc) uint64
	// Third is what a document adds to the third sum of the section in which it
	// lies, beside one document and its bytes. Where Marks, that is 1 for a document
	// that stays there though it belongs to a later one, and the sum only tells
	// whether there may be such; else it is exact.
	Third(doc bson.Doc, in uint64) int64
	Marks() bool
	// Serve says whether an index judges documents as the sections do.
	Serve(ix *schema.Index) bool
	// Instants says that all in a section is due at one instant, so that none is
	// ever due in part.
	Instants() bool
	// WholeUntil is the last date of the last section that ends at a date or before.
	WholeUntil(date int64) int64
	// Due is above all sections, and below all others, that are wholly due by a
	// rule that they Serve, at an instant in milliseconds since 1970 (invariant
	// section-due).
	Due(r *schema.Rule, now int64) LowWater
	// Before is above all sections whose dates are all at or before one.
	Before(date int64) LowWater
}

// SectionBytes is the length of a section's number in a record key.
const SectionBytes = 8

// AppendSection appends the number of a section, as record keys begin with it.
func AppendSection(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// Section is the section of a record key, in a layout with sections; 0 for a key
// that is damaged.
func (k Key) Section() uint64 {
	if len(k) < SectionBytes {
		return 0
	}
	return binary.BigEndian.Uint64(k)
}
