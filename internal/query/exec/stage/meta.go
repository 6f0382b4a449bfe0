package stage

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Meta is what the plan knows about a document apart from its fields: what
// {$meta: name} reads. Immutable, and free of the store's bytes.
type Meta struct {
	// Distance and Point are those of a search by distance: how far the nearest
	// geometry of the document is, as clients see it, and that geometry.
	Distance float64
	Point    bson.Value
	// Score is that of a text search, where Scored.
	Score  float64
	Scored bool
	// Key is that of the index entry that led to the row, of a row that a sort
	// has held back from a reader of keys.
	Key bson.Doc
}

// Value is what {$meta: name} reads, or Missing; m may be nil.
func (m *Meta) Value(name string) bson.Value {
	switch {
	case m == nil:
	case m.Scored:
		if name == "textScore" {
			return bson.Double(m.Score)
		}
	case name == "geoNearDistance":
		return bson.Double(m.Distance)
	case name == "geoNearPoint":
		return m.Point
	}
	return bson.Value{}
}

// In a sort a row's metadata is stored after its record: it counts in the sort's
// memory, and is spilled with the row.

// tagSize is the length of a tag, in bytes, at the end of it.
const tagSize = 4

// Tag returns record with m behind it. m may be nil.
func (m *Meta) Tag(record []byte) []byte {
	var b bson.Builder
	if m != nil {
		b.Double("distance", m.Distance).Value("point", m.Point)
		if m.Scored {
			b.Double("score", m.Score)
		}
		if m.Key != nil {
			b.Doc("key", m.Key)
		}
	}
	d := b.Finish()
	out := append(make([]byte, 0, len(record)+len(d)+tagSize), record...)
	return binary.BigEndian.AppendUint32(append(out, d...), uint32(len(d)))
}

// Untag splits what Tag has returned.
func Untag(tagged []byte) ([]byte, *Meta) {
	end := len(tagged) - tagSize
	at := end - int(binary.BigEndian.Uint32(tagged[end:]))
	d := bson.Doc(tagged[at:end])
	record := tagged[:at:at]
	if d.IsEmpty() {
		return record, nil
	}
	score := d.Lookup("score")
	m := &Meta{Distance: bson.ToDouble(d.Lookup("distance")), Point: d.Lookup("point").Clone(), Scored: !score.IsMissing()}
	if m.Scored {
		m.Score = bson.ToDouble(score)
	}
	if key := d.Lookup("key"); !key.IsMissing() {
		m.Key = key.Doc().Clone()
	}
	return record, m
}
