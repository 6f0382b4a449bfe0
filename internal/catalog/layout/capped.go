package layout

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Capped lays documents in the order of insertion: the record key is a sequence
// number, eight bytes big-endian.
type Capped struct{}

// FoundByID is Layout's.
func (Capped) FoundByID() Lookup { return ByScan }

// Append is Layout's.
func (Capped) Append(dst Key, p Place) Key { return AppendSequence(dst, p.Sequence) }

// Identity is Layout's.
func (Capped) Identity(k Key) []byte { return k }

// ID is Layout's.
func (Capped) ID(Key) ([]byte, bool) { return nil, false }

// InOrder is Layout's.
func (Capped) InOrder() bool { return true }

// Stored is Layout's.
func (Capped) Stored() bson.Doc { return nil }

// Sections is Layout's: none, documents go one by one where there are too many.
func (Capped) Sections() Sections { return nil }

const sequenceBytes = 8

// AppendSequence appends the record key of a sequence number.
func AppendSequence(dst Key, n int64) Key {
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// Sequence is the number that a record key of a capped collection stands for; 0
// for a key that is damaged.
func Sequence(k Key) int64 {
	if len(k) != sequenceBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(k))
}
