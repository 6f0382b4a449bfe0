package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// counterSums is the number of sums in one counter.
const counterSums = 2

// Counter is a vector of durable sums, such as a collection's number of
// documents and their bytes: exact after every commit and every crash, since
// each unit merges its deltas. In memory the sums are atomics.
type Counter struct {
	id  Ident
	key []byte // the store's key
	sum [counterSums]atomic.Int64
}

type counterDelta struct {
	c  *Counter // nil in a unit that was decoded and is not bound
	id Ident
	d  [counterSums]int64
}

// Load returns a committed sum.
func (c *Counter) Load(i int) int64 { return c.sum[i].Load() }

func (c *Counter) add(d [counterSums]int64) {
	for i := range d {
		if d[i] != 0 {
			c.sum[i].Add(d[i])
		}
	}
}

// OpenCounter reads the counter that belongs to the keyspace id. Open it once,
// before any unit adds to it.
func (e *Engine) OpenCounter(id Ident) (*Counter, error) {
	d, err := readSums(e, id)
	if err != nil {
		return nil, err
	}
	c := &Counter{id: id, key: appendKey(nil, IdentCounters, AppendIdent(nil, id))}
	c.add(d)
	return c, nil
}

// ReadCounter returns the two sums of the counter of id, as r has them.
func ReadCounter(r Reader, id Ident) (first, second int64, err error) {
	d, err := readSums(r, id)
	return d[0], d[1], err
}

func readSums(r Reader, id Ident) (d [counterSums]int64, err error) {
	v, closer, err := r.Get(IdentCounters, AppendIdent(nil, id))
	if errors.Is(err, ErrNotFound) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	defer closer.Close()
	return decodeSums(v)
}

// DropCounter removes the durable sums of c.
func (u *Unit) DropCounter(c *Counter) error {
	if u.over != nil {
		return u.over.remove(c.key)
	}
	return u.batch.Delete(c.key, nil)
}

func (u *Unit) mergeCounters() error {
	for _, c := range u.counters {
		if c.d == [counterSums]int64{} {
			continue
		}
		u.key = appendSums(u.key[:0], c.d[:])
		if err := u.batch.Merge(c.c.key, u.key, nil); err != nil {
			return err
		}
	}
	return nil
}

// maxSums bounds the totals that one merged value holds.
const maxSums = 4

// AddSums adds to the totals under key, when the unit commits; the key need
// not exist, and is not read. Needs no lock. Sums reads them.
// REQUIRES: len(d) <= 4. It is the same at each call for a key.
func (u *Unit) AddSums(id Ident, key []byte, d []int64) error {
	if err := invariant.Require(len(d) <= maxSums, "storage: a merged value has at most maxSums totals"); err != nil {
		return err
	}
	u.key = appendKey(u.key[:0], id, key)
	var b [1 + maxSums*binary.MaxVarintLen64]byte
	return u.merge(u.key, appendSums(b[:0], d))
}

// Sums reads len(d) totals from a value that AddSums made.
func Sums(value []byte, d []int64) error {
	var all [maxSums]int64
	n, err := parseSums(value, &all)
	if err == nil && n != len(d) {
		err = fmt.Errorf("%w: value has %d totals, not %d", ErrCorruption, n, len(d))
	}
	copy(d, all[:])
	return err
}

func appendSums(dst []byte, d []int64) []byte {
	b := append(dst, mergeSum)
	for _, v := range d {
		b = binary.AppendVarint(b, v)
	}
	return b
}

func parseSums(b []byte, d *[maxSums]int64) (n int, err error) {
	if len(b) == 0 || b[0] != mergeSum {
		return 0, fmt.Errorf("%w: value is not a counter: %x", ErrCorruption, b)
	}
	for b = b[1:]; len(b) > 0; n++ {
		v, k := binary.Varint(b)
		if k <= 0 || n == maxSums {
			return 0, fmt.Errorf("%w: counter is too short, or too long", ErrCorruption)
		}
		d[n], b = v, b[k:]
	}
	return n, nil
}

func decodeSums(b []byte) (d [counterSums]int64, err error) {
	err = Sums(b, d[:])
	return d, err
}

// Bits returns the bits that OrBits has stored in a value.
func Bits(value []byte) []byte {
	if len(value) == 0 || value[0] != mergeOr {
		return nil
	}
	return value[1:]
}

// The first byte of a merged value tells how values of that key merge.
const (
	mergeSum byte = 's' // varints, added one by one
	mergeOr  byte = 'o' // bytes, or-ed
)

// mergerName is stored by Pebble; a store opens only with the merger that wrote it.
const mergerName = "mayfly.1"

var merger = &pebble.Merger{
	Name: mergerName,
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		return &valueMerger{value: append([]byte(nil), value...)}, nil
	},
}

// valueMerger folds operands; both kinds commute, so order does not matter.
type valueMerger struct{ value []byte }

func (m *valueMerger) MergeNewer(value []byte) error { return m.merge(value) }
func (m *valueMerger) MergeOlder(value []byte) error { return m.merge(value) }

func (m *valueMerger) merge(v []byte) error {
	if len(v) == 0 || len(m.value) == 0 || v[0] != m.value[0] {
		return fmt.Errorf("%w: merge of operands of two kinds", ErrCorruption)
	}
	switch v[0] {
	case mergeOr:
		for len(m.value) < len(v) {
			m.value = append(m.value, 0)
		}
		for i := 1; i < len(v); i++ {
			m.value[i] |= v[i]
		}
		return nil
	case mergeSum:
		var a, b [maxSums]int64
		n, err := parseSums(m.value, &a)
		if err != nil {
			return err
		}
		k, err := parseSums(v, &b)
		if err != nil {
			return err
		}
		if n != k {
			return fmt.Errorf("%w: merge of counters of %d and %d totals", ErrCorruption, n, k)
		}
		for i := range a {
			a[i] += b[i]
		}
		m.value = appendSums(nil, a[:n])
		return nil
	}
	return fmt.Errorf("%w: unknown merge operand %q", ErrCorruption, v[0])
}

func (m *valueMerger) Finish(bool) ([]byte, io.Closer, error) { return m.value, nil, nil }
