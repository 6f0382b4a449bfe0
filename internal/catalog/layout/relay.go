package layout

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Relay is the layout of a collection that changes, in use, from the order of _id to
// windows of expiry, or back. It has two halves: record keys of one are key strings
// of _id, those of the other are as in Window or Slots. The first byte of a record key says
// to which half it belongs (Key.OfID), so both are in one keyspace, and index
// entries need only the record key.
//
// A new document goes to one half. Documents leave the other half, and none is
// added there (docs/rfcs/0019-layouts.md).
type Relay struct {
	Windowed
	// Back says that documents leave the windows, for the order of _id.
	Back bool
}

// ByIDSection represents the half by _id among the sections: its documents are
// counted together. It is not a window, and above all that are ever due.
const ByIDSection = 0xfe << 56

// OfID reports whether a record key of a Relay belongs to the half by _id. Key strings
// of _id and numbers of windows never begin with the same byte: tags are from 08 to
// f8 (keystring/tag.go), windows by date begin with 7f, 80 or ff, by last writes
// with 00, 80 or ff, record keys in slots with fd, and those of a ByKey layout with fe. The
// only tag among those is that of regular expressions, which cannot be an _id.
func (k Key) OfID() bool {
	if len(k) == 0 {
		return false
	}
	switch k[0] {
	case 0x00, firstDate, lastDate, firstSlots, firstKey, 0xff:
		return false
	}
	return true
}

// The first bytes of windows by date, and the only ones of windows between the
// first key string of an _id and the last.
const (
	firstDate = 0x7f
	lastDate  = 0x80
)

// Half is the ranges of record keys, in order, of one half: by _id, or the
// windows.
type Half []KeyRange

// KeyRange is the record keys from one up to, but not including, another; nil
// for no upper bound.
type KeyRange struct{ From, To Key }

// The halves of a Relay.
var (
	HalfByID    = Half{{Key{0x01}, Key{firstDate}}, {Key{lastDate + 1}, Key{firstSlots}}}
	HalfWindows = Half{{nil, Key{0x01}}, {Key{firstDate}, Key{lastDate + 1}}, {Key{firstSlots}, Key{firstSlots + 1}}, {Key{0xff}, nil}}
)

// Leaves reports whether a document is in the half that documents leave.
func (l *Relay) Leaves(k Key) bool { return k.OfID() != l.Back }

// Left returns the half that documents leave.
func (l *Relay) Left() Half {
	if l.Back {
		return HalfWindows
	}
	return HalfByID
}

// FoundByID implements Layout.
func (*Relay) FoundByID() Lookup { return ByEither }

// Append implements Layout.
func (l *Relay) Append(dst Key, p Place) Key {
	if l.Back {
		return append(dst, p.ID...)
	}
	return l.Windowed.Append(dst, p)
}

// Identity implements Layout.
func (*Relay) Identity(k Key) []byte { return k.IDInRelay() }

// IDInRelay returns the key string of _id in a record key of either half.
func (k Key) IDInRelay() []byte {
	if k.OfID() || len(k) < SectionBytes {
		return k
	}
	return k[windowPrefix(k):]
}

// SplitInRelay splits the value of an entry of the index on _id in two: the part of the
// record key that precedes the key string of _id, empty if the entry is damaged, and the rest.
func SplitInRelay(value []byte) (prefix, rest []byte) {
	n := windowPrefix(value)
	if n < SectionBytes {
		return nil, nil
	}
	return value[:n:n], value[n:]
}

// Stays implements Layout, for a document that is in the half to which others go.
func (l *Relay) Stays(old, doc bson.Doc) bool { return l.Back || l.Windowed.Stays(old, doc) }

// Chunk implements Layout: its documents are in both halves.
func (*Relay) Chunk(*schema.ShardKey, schema.ShardRange) (Chunk, bool) { return Chunk{}, false }

// Misplaced implements Layout.
func (l *Relay) Misplaced(k Key, p Place) bool { return !k.OfID() && l.Windowed.Misplaced(k, p) }

// ID implements Layout.
func (*Relay) ID(k Key) ([]byte, bool) { return k.IDInRelay(), true }

// The directions of a Relay in its stored form.
const (
	relayField     = "relayout"
	relayToWindows = "windows"
	relayToID      = "id"
)

// Stored implements Layout: that of the windows, and relayout: where documents
// go.
func (l *Relay) Stored() bson.Doc {
	to := relayToWindows
	if l.Back {
		to = relayToID
	}
	var b bson.Builder
	return b.Fields(l.Windowed.Stored()).String(relayField, to).Finish()
}

// Relaying turns a loaded layout into a Relay, where its stored form says so; ok
// is false if the stored form is not known.
func Relaying(w Windowed, stored bson.Doc) (l Layout, ok bool) {
	switch v := stored.Lookup(relayField); {
	case v.IsMissing():
		return w, true
	case v.Type != bson.TypeString:
		return nil, false
	case v.Str() == relayToWindows:
		return &Relay{Windowed: w}, true
	case v.Str() == relayToID:
		return &Relay{Windowed: w, Back: true}, true
	}
	return nil, false
}

// Sections implements Layout.
func (l *Relay) Sections() Sections { return l }

// In implements Sections.
func (*Relay) In(k Key) uint64 {
	if k.OfID() {
		return ByIDSection
	}
	return k.Section()
}

// Third implements Sections: 0 in the half by _id.
func (l *Relay) Third(doc bson.Doc, in uint64) int64 {
	if in == ByIDSection {
		return 0
	}
	return l.Windowed.Third(doc, in)
}

// Spans implements Sections: without the half by _id.
func (*Relay) Spans(from, to LowWater) (s []Span) {
	const byte0 = 56 // bits after the first byte of a section
	for _, span := range from.Spans(to) {
		for _, of := range [...]Span{{0, 1 << byte0}, {firstDate << byte0, (lastDate + 1) << byte0}} {
			if cut := (Span{max(span.From, of.From), min(span.To, of.To)}); cut.From < cut.To {
				s = append(s, cut)
			}
		}
	}
	return s
}

// Gone are the ranges of a collection's records that have been removed: an
// index entry with such a record key is dead.
type Gone struct {
	Low LowWater
	// ByID is, in a Relay, the mark below which the records of the half by _id have
	// been removed; "" in any other layout.
	ByID string
}

// NoneByID is the mark of a Relay below which there are no records by _id.
const NoneByID = "\x01"

// AllByID is above all records by _id.
const AllByID = "\xff"

// Dead says of the record key in an index entry whether its document was
// removed with its section, or with a part of the half by _id.
func (g Gone) Dead(k Key) bool {
	if g.ByID != "" && k.OfID() {
		return string(k) < g.ByID
	}
	return g.Low.Dead(k)
}
