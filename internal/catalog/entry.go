package catalog

import "encoding/binary"

// An index entry's key is key string ‖ record key. Its value is the length of
// the record key as a varint, and the type bits of the key string.

func appendEntryValue(dst []byte, recordKeyLen int, typeBits []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(recordKeyLen)), typeBits...)
}

// SplitEntry takes an index entry apart. The slices share the arguments' bytes;
// all are nil for an entry that is damaged.
func SplitEntry(key, value []byte) (keyString []byte, record RecordKey, typeBits []byte) {
	n, k := binary.Uvarint(value)
	if k <= 0 || n > uint64(len(key)) {
		return nil, nil, nil
	}
	at := len(key) - int(n)
	return key[:at:at], key[at:], value[k:]
}
