package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// minOrdered is the least number of writes that are sorted.
	minOrdered = 8
	// batchHeader is the length of a batch's header, which precedes its writes.
	batchHeader = 12
)

// batchWrite is one write in a batch's bytes.
type batchWrite struct {
	rank     uint64 // sorts like the key, as far as it goes
	from, to uint32 // its bytes
	key, end uint32 // those of its key
	n        uint32 // it was the n-th, from 0 on
	barrier  bool   // it deletes a range
}

// ordering is memory for order.
type ordering struct {
	writes []batchWrite
	sorted []byte
	spaces []keyspaceWrites
	// was are the original numbers of the writes, in their new order; empty if the
	// order is unchanged.
	was []int
}

// keyspaceWrites is what the writes to one keyspace have in common.
type keyspaceWrites struct {
	ident  Ident
	prefix []byte // of all keys
}

// order sorts the writes of a batch by their keys, those of one key in the
// order in which they were made. That does not change what the batch does; but
// adjacent keys are inserted into the memtable faster one after the other, and
// a document's record and index entries are not adjacent. No write passes a
// deletion of a range.
func order(b *pebble.Batch, o *ordering) error {
	o.was = o.was[:0]
	if b.Count() < minOrdered {
		return nil
	}
	data := b.Repr()
	o.writes = o.writes[:0]
	for r := b.Reader(); len(r) > 0; {
		from := len(data) - len(r)
		kind, key, _, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		w := batchWrite{from: uint32(from), to: uint32(len(data) - len(r)), n: uint32(len(o.writes))}
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindMerge:
			w.key = w.from + 1 + uint32(uvarintLen(len(key)))
			w.end = w.key + uint32(len(key))
		case pebble.InternalKeyKindRangeDelete:
			w.barrier = true
		default:
			return nil
		}
		o.writes = append(o.writes, w)
	}
	changed := false
	for rest := o.writes; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(w batchWrite) bool { return w.barrier })
		if n < 0 {
			n = len(rest)
		}
		changed = n >= minOrdered && o.sort(data, rest[:n]) || changed
		rest = rest[min(n+1, len(rest)):]
	}
	if !changed {
		return nil
	}
	first := 0 // that is not where it was
	for first < len(o.writes) && o.writes[first].n == uint32(first) {
		first++
	}
	from := batchHeader
	if first > 0 {
		from = int(o.writes[first-1].to)
	}
	o.sorted = slices.Grow(o.sorted[:0], len(data)-from)
	o.was = slices.Grow(o.was, len(o.writes))
	for i, w := range o.writes {
		if o.was = append(o.was, int(w.n)); i >= first {
			o.sorted = append(o.sorted, data[w.from:w.to]...)
		}
	}
	copy(data[from:], o.sorted)
	return b.SetRepr(data)
}

// sort sorts writes of points, and reports whether their order has changed.
func (o *ordering) sort(data []byte, writes []batchWrite) (changed bool) {
	o.rank(data, writes)
	compare := func(a, b batchWrite) int {
		if c := cmp.Compare(a.rank, b.rank); c != 0 {
			return c
		}
		if c := bytes.Compare(data[a.key:a.end], data[b.key:b.end]); c != 0 {
			return c
		}
		return cmp.Compare(a.from, b.from)
	}
	if slices.IsSortedFunc(writes, compare) {
		return false
	}
	slices.SortFunc(writes, compare)
	return true
}

// maxRanked bounds the keyspaces that are told apart by the first byte of a rank.
const maxRanked = 64

// rank gives each write a number that sorts like its key: which keyspace it is in, and
// the first bytes in which the keys of that differ. Keys of one keyspace often have
// many in common.
func (o *ordering) rank(data []byte, writes []batchWrite) {
	defer func() { clear(o.spaces) }()
	o.spaces = o.spaces[:0]
	at := 0
	find := func(id Ident) bool {
		for range o.spaces {
			if o.spaces[at].ident == id {
				return true
			}
			at = (at + 1) % len(o.spaces)
		}
		return false
	}
	for _, w := range writes {
		key := data[w.key:w.end]
		id, _, _ := cutIdent(key)
		if find(id) {
			p := &o.spaces[at].prefix
			*p = (*p)[:commonPrefix(*p, key)]
			continue
		}
		if at = 0; len(o.spaces) == maxRanked {
			o.spaces = o.spaces[:0]
			break
		}
		o.spaces = append(o.spaces, keyspaceWrites{id, key})
	}
	slices.SortFunc(o.spaces, func(a, b keyspaceWrites) int { return cmp.Compare(a.ident, b.ident) })
	at = 0
	for i := range writes {
		w := &writes[i]
		key := data[w.key:w.end]
		if id, _, _ := cutIdent(key); find(id) {
			w.rank = uint64(at)<<56 | keyPrefix(key[len(o.spaces[at].prefix):])>>8
		} else {
			w.rank = keyPrefix(key)
		}
	}
}

// commonPrefix is the length of the prefix that two keys have in common.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// uvarintLen is the length of n as an unsigned varint.
func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// keyPrefix returns the first eight bytes of a key as a number that sorts like
// it.
func keyPrefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var b [8]byte
	copy(b[:], key)
	return binary.BigEndian.Uint64(b[:])
}
