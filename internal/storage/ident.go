package storage

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// Ident is the number of a keyspace: one collection's records, one index.
type Ident uint64

// The reserved idents. From FirstIdent on, NewIdent gives them out; those from
// FirstOwnIdent on are of keyspaces that a member of a replicated group has for
// itself.
const (
	IdentMeta     Ident = 0 // the engine's own keys
	IdentCounters Ident = 1 // merged counters, by the varint of an ident
	IdentCatalog  Ident = 2 // collections: descriptor documents
	IdentMultikey Ident = 3 // multikey bits, by the varint of an index's ident
	IdentParams   Ident = 4 // the server's durable parameters and feature state
	IdentRaft     Ident = 5 // hard state and log of the replicated group
	IdentWindows  Ident = 6 // windows of expiry, by the varint of a collection's ident
	IdentSessions Ident = 7 // what sessions have executed, for statements that are sent again
	IdentPrepared Ident = 8 // transactions that are prepared, and not decided yet
	FirstIdent    Ident = 16
	FirstOwnIdent Ident = 1 << 40
)

// IdentRange is a range of idents with a separate allocator.
type IdentRange uint8

// The ranges.
const (
	CommonIdents IdentRange = iota // the same on all members of a replicated group
	OwnIdents                      // of this member alone
	identRanges
)

// firstIdents are the first of each range, and keysNextIdent where the next free
// one is.
var (
	firstIdents   = [identRanges]Ident{FirstIdent, FirstOwnIdent}
	keysNextIdent = [identRanges][]byte{appendKey(nil, IdentMeta, []byte("next-ident")), appendKey(nil, IdentMeta, []byte("next-own-ident"))}
)

// idents are the next free idents.
type idents struct {
	sync.Mutex
	next [identRanges]Ident
}

// take notes the idents that a unit has taken, once it is visible: 0 for none.
func (i *idents) take(next [identRanges]Ident) {
	if next == ([identRanges]Ident{}) {
		return
	}
	i.Lock()
	defer i.Unlock()
	for r, n := range next {
		i.next[r] = max(i.next[r], n)
	}
}

// NewIdent returns a number that no keyspace has or ever had. It is taken when the unit
// commits; where the unit aborts, the number is free again. The caller makes sure that
// only one open unit takes numbers at a time.
func (u *Unit) NewIdent(r IdentRange) Ident {
	if u.next[r] == 0 {
		u.e.idents.Lock()
		u.next[r] = u.e.idents.next[r]
		u.e.idents.Unlock()
	}
	id := u.next[r]
	u.next[r]++
	return id
}

// setIdents stores the next free idents where the unit has taken some.
func (u *Unit) setIdents() error {
	for r, n := range u.next {
		if n == 0 {
			continue
		}
		if err := u.batch.Set(keysNextIdent[r], binary.BigEndian.AppendUint64(nil, uint64(n)), nil); err != nil {
			return err
		}
	}
	return nil
}

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

// cutIdent reads the varint of an ident at the beginning of b.
func cutIdent(b []byte) (id Ident, rest []byte, ok bool) {
	if len(b) == 0 {
		return 0, nil, false
	}
	if b[0] < identSmall {
		return Ident(b[0]), b[1:], true
	}
	n := int(b[0]-identSmall) + 2
	if len(b) < n || b[1] == 0 || n == 2 && b[1] < identSmall {
		return 0, nil, false
	}
	for _, c := range b[1:n] {
		id = id<<8 | Ident(c)
	}
	return id, b[n:], true
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

// splitKey splits the store's key, or a separator between two keys, which may be
// incomplete: what is missing of its ident is 0.
func splitKey(b []byte) (id Ident, rest []byte) {
	switch {
	case len(b) == 0:
		return 0, nil
	case b[0] < identSmall:
		return Ident(b[0]), b[1:]
	}
	n := int(b[0]-identSmall) + 2
	for i := 1; i < n; i++ {
		if id <<= 8; i < len(b) {
			id |= Ident(b[i])
		}
	}
	return id, b[min(n, len(b)):]
}

// ParseNextIdent reads the key of IdentMeta that says which number NewIdent hands out
// next; ok is false for its other keys.
func ParseNextIdent(key, value []byte) (r IdentRange, next Ident, ok bool) {
	for i, k := range keysNextIdent {
		if string(key) == string(k[1:]) && len(value) == 8 {
			return IdentRange(i), Ident(binary.BigEndian.Uint64(value)), true
		}
	}
	return 0, 0, false
}

// SkipIdents makes NewIdent hand out only numbers from next on, once the unit commits.
func (u *Unit) SkipIdents(r IdentRange, next Ident) { u.next[r] = max(u.next[r], next) }
