package readahead

import (
	"bytes"
	"context"
)

const (
	// MaxRows and MaxBytes bound a batch. The more documents are read in one pass in the
	// order of their records, the nearer to each other they lie.
	MaxRows  = 1 << 17
	MaxBytes = 16 << 20
	// leastRows is the initial capacity, in rows.
	leastRows = 101
	// batchGrowth is the factor by which memory for rows grows, up to their bounds:
	// copying rows costs as much as reading them.
	batchGrowth = 4
)

// Scan is a scan of an index whose entries are read ahead.
type Scan interface {
	// Read adds entries to b until it has n, or size bytes of them. Where the scan ends
	// before that, Read sets b.Tail, too.
	Read(ctx context.Context, b *Batch, n, size int) error
}

// Batch is a run of entries of an index, in memory and in their order.
type Batch struct {
	rows    []row
	entries []byte // keys, records and type bits of rows, concatenated

	// Tail is the units of work from the last entry to the end of the scan; 0 where
	// that was not reached.
	Tail uint32
	// Rising says that records are in rising order.
	Rising bool
}

// row is one entry of a batch. It is small because it may move from one processor's
// cache to another's.
type row struct {
	record, bits, end uint32 // ends of the key, the record and the type bits in entries
	works             uint32 // units of work of the scan to find it
}

// Len is the number of entries.
func (b *Batch) Len() int { return len(b.rows) }

// Has reports whether the batch has n entries, or size bytes of them.
func (b *Batch) Has(n, size int) bool { return len(b.rows) >= n || len(b.entries) >= size }

// Entry returns entry i, valid until the next Clear.
func (b *Batch) Entry(i int) (key, record, bits []byte) {
	r, at := &b.rows[i], uint32(0)
	if i > 0 {
		at = b.rows[i-1].end
	}
	return b.entries[at:r.record:r.record], b.entries[r.record:r.bits:r.bits], b.entries[r.bits:r.end:r.end]
}

// Record returns the record of entry i, valid until the next Clear.
func (b *Batch) Record(i int) []byte {
	r := &b.rows[i]
	return b.entries[r.record:r.bits:r.bits]
}

// Works is the units of work that the scan took to find entry i; behind the last one,
// to find the end. Who delivers the entries counts them down.
func (b *Batch) Works(i int) *uint32 {
	if i < len(b.rows) {
		return &b.rows[i].works
	}
	return &b.Tail
}

// Clear forgets all entries, and keeps their memory.
func (b *Batch) Clear() {
	b.rows, b.entries, b.Tail, b.Rising = b.rows[:0], b.entries[:0], 0, true
}

// Add keeps an entry and the units of work it took to find it.
func (b *Batch) Add(key, record, bits []byte, works uint32) {
	n := len(b.rows)
	b.Rising = b.Rising && (n == 0 || bytes.Compare(record, b.Record(n-1)) > 0)
	if n == cap(b.rows) {
		b.rows = append(make([]row, 0, max(n+1, min(batchGrowth*n, MaxRows), leastRows)), b.rows...)
	}
	at, size := len(b.entries), len(key)+len(record)+len(bits)
	if at+size > cap(b.entries) {
		b.entries = append(make([]byte, 0, max(at+size, min(batchGrowth*(at+size), MaxBytes))), b.entries...)
	}
	b.entries = append(append(append(b.entries, key...), record...), bits...)
	at += len(key)
	b.rows = append(b.rows, row{
		record: uint32(at), bits: uint32(at + len(record)), end: uint32(len(b.entries)), works: works,
	})
}
