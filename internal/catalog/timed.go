package catalog

import (
	"context"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The decision of a transaction over shards says when it commits. Where the coordinator's own part
// commits with it, that is the time of their unit in the log, which is known when all is encoded:
// so it is written over then, in the batch and in the encoding, before either is in the log.

// timedWrite is a timestamp in the value of a write of a unit.
type timedWrite struct {
	write  int // the number of the write
	before int // how many bytes before the end of its value it begins
}

// timestampBytes is the size of a timestamp.
const timestampBytes = 8

// InsertTimed is Insert for a document whose last field, in so many documents, each the last field
// of the one around it, is a timestamp: it becomes the time of the unit in the log. One document
// of a unit has that. Errors: those of Insert.
func (u *Unit) InsertTimed(ctx context.Context, c *Collection, doc bson.Doc, depth int) error {
	if err := u.Insert(ctx, c, doc); err != nil {
		return err
	}
	u.e.timed = &timedWrite{u.stored, timestampBytes + depth}
	return nil
}

// Timed reports whether the effect has its own time in the log in a document.
func (e *Effect) Timed() bool { return e.timed != nil }

// SetTime says when the effect is in the log, before it is there; payload is its encoding. An
// effect that is not Timed stays as it is.
func (e *Effect) SetTime(payload []byte, at uint64) {
	if e.timed == nil {
		return
	}
	v := e.u.Values()[e.timed.write]
	from := int(v.From+v.Len) - e.timed.before
	r := storage.EncodingReader{Rest: payload[effectHeader:]}
	encoded := r.Sized()
	invariant.Check(!r.Bad && len(encoded) == len(e.u.Batch()), "catalog: an effect's encoding has its batch")
	for _, batch := range [][]byte{e.u.Batch(), encoded} {
		binary.LittleEndian.PutUint64(batch[from:], at)
	}
	sign(payload)
}
