package storage

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// minOrdered is the least number of writes for which a batch is sorted.
	minOrdered = 8
	// batchHeader is the length of a batch's header, which precedes its writes.
	batchHeader = 12
)

// batchWrite is one write in a batch's bytes.
type batchWrite struct {
	prefix   uint64 // the first bytes of the key
	key      []byte
	from, to int // its bytes
	n        int // it was the n-th, from 0 on
}

// ordering is memory for order.
type ordering struct {
	writes []batchWrite
	sorted []byte
	// was are the original numbers of the writes, in their new order; empty if the
	// order is unchanged.
	was []int
}

// order sorts the writes of a batch by their keys, those of one key in the
// order in which they were made. That does not change what the batch does; but
// adjacent keys are inserted into the memtable faster one after the other, and
// a document's record and index entries are not adjacent. Batches with range
// deletions are left alone.
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
		switch kind {
		case pebble.InternalKeyKindSet, pebble.InternalKeyKindDelete, pebble.InternalKeyKindDeleteSized, pebble.InternalKeyKindMerge:
		default:
			return nil
		}
		o.writes = append(o.writes, batchWrite{prefix: keyPrefix(key), key: key, from: from, to: len(data) - len(r), n: len(o.writes)})
	}
	compare := func(a, b batchWrite) int {
		if c := cmp.Compare(a.prefix, b.prefix); c != 0 {
			return c
		}
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.from, b.from)
	}
	if slices.IsSortedFunc(o.writes, compare) {
		return nil
	}
	slices.SortFunc(o.writes, compare)
	o.sorted = o.sorted[:0]
	for _, w := range o.writes {
		o.sorted = append(o.sorted, data[w.from:w.to]...)
		o.was = append(o.was, w.n)
	}
	clear(o.writes)
	copy(data[batchHeader:], o.sorted)
	return b.SetRepr(data)
}

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
