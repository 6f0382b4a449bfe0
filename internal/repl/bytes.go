package repl

import "encoding/binary"

// appendBytes appends the length of v in a varint, and v.
func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// cutBytes reads the format of appendBytes; v aliases b.
func cutBytes(b []byte) (v, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)-k) {
		return nil, b, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}
