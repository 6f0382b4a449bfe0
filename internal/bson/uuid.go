package bson

import "crypto/rand"

// UUID is the content of a binary value of subtype 4.
type UUID [16]byte

// NewUUID makes a random one (version 4, RFC 9562).
func NewUUID() (u UUID) {
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return u
}

// String is the form with hyphens.
func (u UUID) String() string { return string(appendUUID(nil, u[:])) }

// appendUUID prints sixteen bytes as 8-4-4-4-12 hexadecimal digits.
func appendUUID(dst, b []byte) []byte {
	dst = appendHex(dst, b[:4])
	for _, part := range [][]byte{b[4:6], b[6:8], b[8:10], b[10:16]} {
		dst = appendHex(append(dst, '-'), part)
	}
	return dst
}
