package exec

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// What a row knows besides its document lies behind its record where a sort holds
// it back: it counts in the sort's memory, and goes to the disk with the row.

// tagSize is the length of a tag, in bytes, at the end of it.
const tagSize = 4

// tag is record with m behind it. m may be nil.
func (m *Meta) tag(record []byte) []byte {
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

// untag takes a record and what lies behind it apart.
func untag(tagged []byte) ([]byte, *Meta) {
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
