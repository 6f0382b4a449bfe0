package storage

import (
	"encoding/binary"
	"fmt"
)

// Ident is the number of a keyspace: one collection's records, one index.
type Ident uint64

// The reserved idents. From FirstIdent on, NewIdent gives them out.
const (
	identMeta     Ident = 0 // the engine's own keys
	identCounters Ident = 1 // merged counters, by the varint of an ident
	IdentCatalog  Ident = 2 // collections: descriptor documents
	IdentMultikey Ident = 3 // multikey bits, by the varint of an index's ident
	IdentParams   Ident = 4 // the server's durable parameters and feature state
	IdentRaft     Ident = 5 // hard state and log of the replicated group
	IdentWindows  Ident = 6 // windows of expiry, by the varint of a collection's ident
	FirstIdent    Ident = 16
)

// identSmall is the first value that needs more than the one byte of its tag.
const identSmall = 0xf7

// AppendIdent appends the order-preserving varint of id: one byte below 0xf7,
// else 0xf7+n-1 and n bytes, the highest first.
func AppendIdent(dst []byte, id Ident) []byte {
	if id < identSmall {
		return append(dst, byte(id))
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	i := 0
	for b[i] == 0 {
		i++
	}
	dst = append(dst, identSmall+byte(7-i))
	return append(dst, b[i:]...)
}

// identLen is the length of id's varint.
func identLen(id Ident) int {
	if id < identSmall {
		return 1
	}
	n := 1
	for ; id > 0; id >>= 8 {
		n++
	}
	return n
}

// appendKey appends the store's key for key in the keyspace id.
func appendKey(dst []byte, id Ident, key []byte) []byte {
	return append(AppendIdent(dst, id), key...)
}

// rangeBounds appends the store's keys for [lower, upper) in the keyspace,
// where nil means its own end: the lower one is [:n], the upper one [n:].
func rangeBounds(dst []byte, id Ident, lower, upper []byte) (b []byte, n int) {
	dst = appendKey(dst, id, lower)
	n = len(dst)
	if upper == nil {
		return AppendIdent(dst, id+1), n
	}
	return appendKey(dst, id, upper), n
}

// ParseIdent reads the varint of an ident, which must be all of b.
func ParseIdent(b []byte) (Ident, error) {
	if len(b) == 1 && b[0] < identSmall {
		return Ident(b[0]), nil
	}
	if len(b) < 2 || b[0] < identSmall || len(b) != int(b[0]-identSmall)+2 {
		return 0, fmt.Errorf("%w: not an ident: %x", ErrCorruption, b)
	}
	id := Ident(0)
	for _, c := range b[1:] {
		id = id<<8 | Ident(c)
	}
	return id, nil
}
