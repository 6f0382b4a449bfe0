package layout

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Slots lays the documents of a sharded collection that expires: by the first bits of the
// hash in the shard key, and within those in windows. The record key is
//
//	firstSlots ‖ number of fields in the shard key ‖ slot ‖ window ‖ place ‖ key string of _id
//
// where the window is as in Window, and the place as in ByKey. So what is due is a range in
// each slot, and a chunk is the range of some whole slots and, in each window, a part of the
// slots at its two ends (docs/rfcs/0024-hashed-layout.md).
//
// A document stays in its window when its instant changes, as in Window; one whose shard key
// changes gets another record key.
type Slots struct {
	*Window
	key *schema.ShardKey
}

const (
	// firstSlots is the first byte of the record keys of a Slots layout, and of no other:
	// see Key.OfID.
	firstSlots = 0xfd
	slotBits   = 6
	slotCount  = 1 << slotBits
	// slotHead is what precedes the window in a record key, in bytes, and slotWindow what
	// precedes the place.
	slotHead   = 3
	slotWindow = slotHead + SectionBytes
)

// slotStarts are the components of the lowest hashes of all slots but the first.
var slotStarts = func() (all [slotCount - 1][]byte) {
	for i := range all {
		lowest := int64(uint64(i+1)<<(64-slotBits) ^ 1<<63)
		all[i] = keystring.Append(nil, bson.Int64(lowest), false, nil)
	}
	return all
}()

// slotOf returns the slot of a place in the key space, or of the bound of a chunk.
func slotOf(place []byte) byte {
	return byte(sort.Search(len(slotStarts), func(i int) bool { return bytes.Compare(slotStarts[i], place) > 0 }))
}

// NewSlots returns the layout for windows and a shard key. REQUIRES: the first field of the key is hashed.
func NewSlots(w *Window, k *schema.ShardKey) *Slots {
	invariant.Check(k.HashedFirst(), "layout: the first field of the shard key is hashed")
	return &Slots{w, k}
}

// FoundByID implements Layout.
func (*Slots) FoundByID() Lookup { return ByEntry }

// Append implements Layout. An array, which no document has in a field of the key, is laid
// by its value.
func (l *Slots) Append(dst Key, p Place) Key {
	return l.append(dst, p.Low.Lift(l.Of(p.Doc)), p.ID, func(i int) bson.Value { return l.key.Parts[i].Value(p.Doc) })
}

// append appends a record key, given its window, the key string of _id, and the values of
// the fields of the shard key.
func (l *Slots) append(dst Key, window uint64, id []byte, value func(i int) bson.Value) Key {
	n := len(dst)
	dst = append(dst, firstSlots, byte(len(l.key.Parts)), 0)
	dst = AppendSection(dst, window)
	for i := range l.key.Parts {
		dst = l.key.AppendPart(dst, i, value(i))
	}
	dst[n+slotHead-1] = slotOf(dst[n+slotWindow:])
	return append(dst, id...)
}

// Seen implements Sections: where the hash is that of _id, the record key follows.
func (l *Slots) Seen(dst Key, n uint64, idValue bson.Value, id []byte) (Key, bool) {
	if len(l.key.Parts) > 1 || l.key.Parts[0].Path != "_id" {
		return dst, false
	}
	return l.append(dst, n, id, func(int) bson.Value { return idValue }), true
}

// Prefix implements Layout.
func (*Slots) Prefix(b []byte) int {
	if len(b) == 0 || b[0] != firstSlots {
		return 0
	}
	return windowPrefix(b)
}

// windowPrefix returns how many bytes of a record key precede the key string of _id, in a
// layout with windows, from bytes that begin with those; 0 for damaged ones.
func windowPrefix(b []byte) int {
	if len(b) == 0 || b[0] != firstSlots {
		return min(len(b), SectionBytes)
	}
	at := slotWindow
	if len(b) < at {
		return 0
	}
	for range b[1] {
		n := keystring.Skip(b[at:], false)
		if n <= 0 || at+n > len(b) {
			return 0
		}
		at += n
	}
	return at
}

// Identity implements Layout.
func (l *Slots) Identity(k Key) []byte { return k[l.Prefix(k):] }

// ID implements Layout.
func (l *Slots) ID(k Key) ([]byte, bool) { return l.Identity(k), true }

// Stays reports whether a document keeps its record key when it becomes another one.
func (l *Slots) Stays(old, doc bson.Doc) bool { return samePlace(l.key, old, doc) }

// Misplaced implements Layout: of the window nothing is said.
func (l *Slots) Misplaced(k Key, p Place) bool {
	want := l.Append(nil, p)
	return len(k) < slotWindow || !bytes.Equal(k[:slotHead], want[:slotHead]) || !bytes.Equal(k[slotWindow:], want[slotWindow:])
}

// Sections implements Layout.
func (l *Slots) Sections() Sections { return l }

// Ranges implements Sections: one in each slot.
func (l *Slots) Ranges(s Span) []KeyRange {
	all := make([]KeyRange, slotCount)
	for slot := range byte(slotCount) {
		head := l.head(slot)
		all[slot] = KeyRange{AppendSection(head, s.From), AppendSection(head, s.To)}
	}
	return all
}

// head returns what the record keys of a slot begin with.
func (l *Slots) head(slot byte) Key {
	return append(make(Key, 0, slotHead), firstSlots, byte(len(l.key.Parts)), slot)
}

// Chunk implements Layout.
func (l *Slots) Chunk(k *schema.ShardKey, r schema.ShardRange) (Chunk, bool) {
	if bson.CompareDocs(l.key.Pattern(), k.Pattern(), nil) != 0 {
		return Chunk{}, false
	}
	c := Chunk{slots: true, first: slotOf(r.Min.Key), last: slotOf(r.Max.Key)}
	c.From = l.head(c.first)
	if bytes.Compare(r.Min.Key, l.lowest(c.first)) > 0 {
		c.min = r.Min.Key
	}
	switch c.To = l.head(c.last); {
	case bytes.Compare(r.Max.Key, l.lowest(c.last)) <= 0: // nothing of that slot
	case bytes.Equal(r.Max.Key, k.Max().Key):
		c.To = l.head(c.last + 1)
	default:
		c.To, c.max = l.head(c.last+1), r.Max.Key
	}
	return c, true
}

// lowest returns a place at or below all those in a slot.
func (l *Slots) lowest(slot byte) []byte {
	if slot == 0 {
		return l.key.Min().Key
	}
	place := slices.Clone(slotStarts[slot-1])
	for range l.key.Parts[1:] {
		place = keystring.Append(place, bson.MinKey, false, nil)
	}
	return place
}

// Stored implements Layout: that of the windows, and key: the pattern of the shard key.
func (l *Slots) Stored() bson.Doc {
	var b bson.Builder
	return b.Fields(l.Window.Stored()).Doc(slotsField, l.key.Pattern()).Finish()
}

// slotsField has the shard key in the stored form of a Slots.
const slotsField = "key"

// Chunk is the records in which are exactly the documents in a range of a shard key.
type Chunk struct {
	// KeyRange has all of them, and others where the chunk has a part of a slot.
	KeyRange
	// In the slots first and last only what is at min or above, and below max, is in the
	// chunk; nil for no such bound.
	slots       bool
	first, last byte
	min, max    []byte
}

// Has reports whether the chunk has a record of its KeyRange. If not, to is where the next
// one that it has may be.
func (c *Chunk) Has(k Key) (to Key, has bool) {
	if !c.slots {
		return nil, true
	}
	if len(k) < slotWindow {
		return append(bytes.Clone(k), 0), false // damaged
	}
	slot, place := k[slotHead-1], k[slotWindow:]
	low := []byte(nil)
	if slot == c.first {
		low = c.min
	}
	if bytes.Compare(place, low) < 0 {
		return append(bytes.Clone(k[:slotWindow]), low...), false
	}
	if c.max == nil || slot != c.last || bytes.Compare(place, c.max) < 0 {
		return nil, true
	}
	window := binary.BigEndian.Uint64(k[slotHead:])
	if window == noWindow {
		return append(bytes.Clone(k[:slotHead-1]), slot+1), false
	}
	return append(AppendSection(bytes.Clone(k[:slotHead]), window+1), low...), false
}

// Together reports whether the chunk has all records that may ever be between two of its own,
// of which b comes later.
func (c *Chunk) Together(a, b Key) bool {
	if !c.slots || c.min == nil && c.max == nil {
		return true
	}
	if len(a) < slotWindow || len(b) < slotWindow {
		return false
	}
	if bytes.Equal(a[:slotWindow], b[:slotWindow]) {
		return true
	}
	ends := func(slot byte) bool { return c.min != nil && slot == c.first || c.max != nil && slot == c.last }
	return !ends(a[slotHead-1]) && !ends(b[slotHead-1])
}

// Whole returns the longest range in which the chunk has all records; ok is false if there
// is none.
func (c *Chunk) Whole() (r KeyRange, ok bool) {
	r = c.KeyRange
	if c.min != nil {
		r.From = append(bytes.Clone(r.From[:slotHead-1]), c.first+1)
	}
	if c.max != nil {
		r.To = append(bytes.Clone(r.To[:slotHead-1]), c.last)
	}
	return r, bytes.Compare(r.From, r.To) < 0
}
