package catalog

import (
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
)

// An index entry's key is key string ‖ record key. Its value is the length of
// the record key as a varint, and the type bits of the key string.

func appendEntryValue(dst []byte, recordKeyLen int, typeBits []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(recordKeyLen)), typeBits...)
}

// Split splits an entry of the index into its parts. The slices share the
// arguments' bytes, or dst, to which the record key and type bits may be appended; all are
// nil for a damaged entry.
func (ix *Index) Split(dst RecordKey, key, value []byte) (keyString []byte, record RecordKey, typeBits []byte) {
	switch {
	case ix.Records && ix.OnPlace != nil:
		return ix.splitRecord(dst, key, value)
	case ix.Records:
		return key, key, nil
	case ix.ByPrefix == nil:
		return splitEntry(key, value)
	}
	prefix := ix.ByPrefix.Prefix(value)
	if prefix == 0 {
		return nil, nil, nil
	}
	n := len(dst)
	dst = append(append(dst, value[:prefix]...), key...)
	return key, dst[n:], value[prefix:]
}

// splitRecord is Split for a record that is an entry of an index on a shard key.
func (ix *Index) splitRecord(dst RecordKey, key, value []byte) (keyString []byte, record RecordKey, typeBits []byte) {
	n := len(dst)
	dst = append(append(dst, layout.First), key...)
	record = dst[n:]
	at := ix.OnPlace.Prefix(record)
	if at == 0 {
		return nil, nil, nil
	}
	dst = ix.Form.AppendTypeBits(dst, value)
	return record[1:at:at], record[: len(key)+1 : len(key)+1], dst[n+len(key)+1:]
}

// appendEntry appends the entry of a document for one of its keys.
func (ix *Index) appendEntry(key, value []byte, k schema.Key, record RecordKey) (_, _ []byte) {
	if ix.ByPrefix != nil {
		return append(key, k.Bytes...), append(append(value, record[:ix.ByPrefix.Prefix(record)]...), k.TypeBits...)
	}
	return append(append(key, k.Bytes...), record...), appendEntryValue(value, len(record), k.TypeBits)
}

func splitEntry(key, value []byte) (keyString []byte, record RecordKey, typeBits []byte) {
	n, k := binary.Uvarint(value)
	if k <= 0 || n > uint64(len(key)) {
		return nil, nil, nil
	}
	at := len(key) - int(n)
	return key[:at:at], key[at:], value[k:]
}
