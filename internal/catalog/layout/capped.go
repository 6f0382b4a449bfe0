package layout

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Capped lays documents in the order of insertion: the record key is a sequence
// number, eight bytes big-endian.
type Capped struct{ settled }

// FoundByID implements Layout.
func (Capped) FoundByID() Lookup { return ByScan }

// Append implements Layout.
func (Capped) Append(dst Key, p Place) Key { return AppendSequence(dst, p.Sequence) }

// Identity implements Layout.
func (Capped) Identity(k Key) []byte { return k }

// ID implements Layout.
func (Capped) ID(Key) ([]byte, bool) { return nil, false }

// InOrder implements Layout.
func (Capped) InOrder() bool { return true }

// Stored implements Layout.
func (Capped) Stored() bson.Doc { return nil }

// Sections implements Layout: there are none, as documents beyond the bounds
// are removed one by one.
func (Capped) Sections() Sections { return nil }

const sequenceBytes = 8

// AppendSequence appends the record key of a sequence number.
func AppendSequence(dst Key, n int64) Key {
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// Sequence returns the sequence number of a record key of a capped collection;
// 0 for a damaged key.
func Sequence(k Key) int64 {
	if len(k) != sequenceBytes {
		return 0
	}
	return int64(binary.BigEndian.Uint64(k))
}
