package storage

import "encoding/binary"

// EncodingReader reads the parts of an encoding one by one. Once a part is missing, it
// and all that follow are zero, and Bad is set.
type EncodingReader struct {
	Rest []byte
	Bad  bool
}

// Uvarint reads a number.
func (r *EncodingReader) Uvarint() uint64 {
	n, k := binary.Uvarint(r.Rest)
	return n * r.cut(k)
}

// Varint reads a signed number.
func (r *EncodingReader) Varint() int64 {
	n, k := binary.Varint(r.Rest)
	return n * int64(r.cut(k))
}

// cut removes the k bytes of a number; it returns 1, or 0 if there is none.
func (r *EncodingReader) cut(k int) uint64 {
	if k <= 0 {
		r.Rest, r.Bad = nil, true
		return 0
	}
	r.Rest = r.Rest[k:]
	return 1
}

// Bytes reads n bytes, which it does not copy.
func (r *EncodingReader) Bytes(n uint64) []byte {
	if n > uint64(len(r.Rest)) {
		r.Rest, r.Bad = nil, true
		return nil
	}
	b := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return b
}

// Sized reads bytes behind their length.
func (r *EncodingReader) Sized() []byte { return r.Bytes(r.Uvarint()) }

// AppendSized appends bytes behind their length.
func AppendSized(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
