package storage

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// The layouts that docs/rfcs/0008-expiry-windows.md compares, without anything
// above the engine: records of 300 bytes with an _id, a secondary index and a
// TTL index.
//
//	go test -run '^$' -bench BenchmarkWindows -benchtime 1x ./internal/storage -args -windows.docs=1000000

// layout is one way to lay out an expiring collection.
type layout interface {
	insert(u *Unit, d *windowDoc)
	touch(u *Unit, d *windowDoc, due uint64)
	get(b *testing.B, e *Engine, id uint64) bool
	byKey(b *testing.B, e *Engine, k uint64) int
	expire(b *testing.B, e *Engine, docs []windowDoc)
	sweep(b *testing.B, e *Engine)
}

type windowDoc struct{ id, k, due, at uint64 }

const (
	windowRecords Ident = FirstIdent + iota
	windowIDs
	windowKeys
	windowDue
	windowLocal // and two more for each window
)

func be(parts ...uint64) []byte {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, p)
	}
	return b
}

var windowValue = make([]byte, 300)

// single has the records by _id, and removes documents one by one.
type single struct{}

func (single) insert(u *Unit, d *windowDoc) {
	u.Set(windowRecords, be(d.id), windowValue)
	u.Set(windowKeys, be(d.k, d.id), []byte{8})
	u.Set(windowDue, be(d.due, d.id), []byte{8})
}

func (single) touch(u *Unit, d *windowDoc, due uint64) {
	u.Set(windowRecords, be(d.id), windowValue)
	u.Delete(windowDue, be(d.due, d.id), 1)
	u.Set(windowDue, be(due, d.id), []byte{8})
	d.due = due
}

func (single) get(b *testing.B, e *Engine, id uint64) bool { return present(e, windowRecords, be(id)) }

func (single) byKey(b *testing.B, e *Engine, k uint64) int { return firstOf(b, e, windowKeys, k) }

func (single) expire(b *testing.B, e *Engine, docs []windowDoc) {
	for len(docs) > 0 {
		u := e.Begin()
		for _, d := range docs[:min(1000, len(docs))] {
			if !present(e, windowRecords, be(d.id)) {
				b.Fatal("a document is gone")
			}
			u.Delete(windowRecords, be(d.id), len(windowValue))
			u.Delete(windowKeys, be(d.k, d.id), 1)
			u.Delete(windowDue, be(d.due, d.id), 1)
		}
		commit(b, u)
		docs = docs[min(1000, len(docs)):]
	}
}

func (single) sweep(*testing.B, *Engine) {}

// clustered is layout A: the record key begins with the window.
type clustered struct{ low uint64 }

func (*clustered) insert(u *Unit, d *windowDoc) {
	d.at = d.due / windowSpan
	u.Set(windowRecords, be(d.at, d.id), windowValue)
	u.Set(windowIDs, be(d.id), be(d.at))
	u.Set(windowKeys, be(d.k, d.at, d.id), []byte{16})
	u.Set(windowDue, be(d.due, d.at, d.id), []byte{16})
	u.AddSums(IdentWindows, be(d.at), []int64{1, int64(len(windowValue)), 0})
}

func (*clustered) touch(u *Unit, d *windowDoc, due uint64) {
	u.Set(windowRecords, be(d.at, d.id), windowValue)
	u.Delete(windowDue, be(d.due, d.at, d.id), 1)
	u.Set(windowDue, be(due, d.at, d.id), []byte{16})
	if d.due/windowSpan == d.at && due/windowSpan > d.at {
		u.AddSums(IdentWindows, be(d.at), []int64{0, 0, 1})
	}
	d.due = due
}

func (*clustered) get(b *testing.B, e *Engine, id uint64) bool {
	v, c, err := e.Get(windowIDs, be(id))
	if err != nil {
		return false
	}
	w := binary.BigEndian.Uint64(v)
	c.Close()
	return present(e, windowRecords, be(w, id))
}

func (*clustered) byKey(b *testing.B, e *Engine, k uint64) int { return firstOf(b, e, windowKeys, k) }

func (l *clustered) expire(b *testing.B, e *Engine, docs []windowDoc) {
	var high uint64
	u := e.Begin()
	for i := range docs {
		d := &docs[i]
		high = max(high, d.due/windowSpan+1)
		if d.due/windowSpan == d.at {
			continue
		}
		to := d.due / windowSpan // it has stayed: it moves, once
		u.Delete(windowRecords, be(d.at, d.id), len(windowValue))
		u.Set(windowRecords, be(to, d.id), windowValue)
		u.Set(windowIDs, be(d.id), be(to))
		u.Delete(windowKeys, be(d.k, d.at, d.id), 1)
		u.Set(windowKeys, be(d.k, to, d.id), []byte{16})
		u.Delete(windowDue, be(d.due, d.at, d.id), 1)
		u.Set(windowDue, be(d.due, to, d.id), []byte{16})
		d.at = to
		if u.Count() > 1000 {
			commit(b, u)
			u = e.Begin()
		}
	}
	u.DeleteRange(windowRecords, nil, be(high))
	u.DeleteRange(IdentWindows, nil, be(high))
	commit(b, u)
	l.low = high
}

func (l *clustered) sweep(b *testing.B, e *Engine) {
	for _, id := range []Ident{windowKeys, windowDue} {
		it, err := e.NewIter(id, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		u := e.Begin()
		for ok := it.First(); ok; ok = it.Next() {
			if binary.BigEndian.Uint64(it.Key()[8:]) < l.low {
				u.Delete(id, it.Key(), 1)
			}
			if u.Count() == 8192 {
				commit(b, u)
				u = e.Begin()
			}
		}
		commit(b, u)
		it.Close()
	}
	u := e.Begin()
	it, err := e.NewIter(windowIDs, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		if v, _ := it.Value(); binary.BigEndian.Uint64(v) < l.low {
			u.Delete(windowIDs, it.Key(), 8)
		}
	}
	it.Close()
	commit(b, u)
}

// local is layout B: a few windows, each with keyspaces of its own for records
// and indexes. Nothing is left when one is dropped, and every read asks all.
type local struct{ windows uint64 }

func (l *local) of(due uint64) uint64 { return due * l.windows / windowEnd }

func (l *local) spaces(w uint64) (records, keys, due Ident) {
	base := windowLocal + Ident(3*w)
	return base, base + 1, base + 2
}

func (l *local) insert(u *Unit, d *windowDoc) {
	d.at = l.of(d.due)
	r, k, due := l.spaces(d.at)
	u.Set(r, be(d.id), windowValue)
	u.Set(k, be(d.k, d.id), []byte{8})
	u.Set(due, be(d.due, d.id), []byte{8})
	u.AddSums(IdentWindows, be(d.at), []int64{1, int64(len(windowValue))})
}

// touch moves the document at once: its window goes without being looked at.
func (l *local) touch(u *Unit, d *windowDoc, due uint64) {
	r, k, old := l.spaces(d.at)
	u.Delete(old, be(d.due, d.id), 1)
	if to := l.of(due); to != d.at {
		u.Delete(r, be(d.id), len(windowValue))
		u.Delete(k, be(d.k, d.id), 1)
		d.due = due
		l.insert(u, d)
		return
	}
	u.Set(r, be(d.id), windowValue)
	u.Set(old, be(due, d.id), []byte{8})
	d.due = due
}

func (l *local) get(b *testing.B, e *Engine, id uint64) bool {
	for w := range l.windows {
		if r, _, _ := l.spaces(w); present(e, r, be(id)) {
			return true
		}
	}
	return false
}

func (l *local) byKey(b *testing.B, e *Engine, k uint64) (n int) {
	for w := range l.windows {
		_, ks, _ := l.spaces(w)
		n += firstOf(b, e, ks, k)
	}
	return n
}

func (l *local) expire(b *testing.B, e *Engine, docs []windowDoc) {
	u := e.Begin()
	for w := range l.windows {
		r, _, _ := l.spaces(w)
		for id := r; id < r+3; id++ {
			u.DeleteRange(id, nil, nil)
		}
	}
	commit(b, u)
}

func (l *local) sweep(*testing.B, *Engine) {}

func present(e *Engine, id Ident, key []byte) bool {
	_, c, err := e.Get(id, key)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// firstOf reads the first entry at or behind a key.
func firstOf(b *testing.B, e *Engine, id Ident, k uint64) int {
	it, err := e.NewIter(id, be(k), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	if it.First() {
		return 1
	}
	return 0
}

func commit(b *testing.B, u *Unit) {
	if err := u.Commit(b.Context(), Buffered); err != nil {
		b.Fatal(err)
	}
}

const (
	windowSpan = 10_000
	windowEnd  = 3_600_000 // the last due, in milliseconds from 0
	// windowSettle is the time for compactions before the reads.
	windowSettle = 5 * time.Second
)

// BenchmarkWindows takes each layout through three lives: documents that are
// due in the order they come in (log), sessions that are touched twice
// (touched), and documents that bring their own time (ttl).
func BenchmarkWindows(b *testing.B) {
	layouts := []struct {
		name string
		make func() layout
	}{
		{"single", func() layout { return single{} }},
		{"A", func() layout { return &clustered{} }},
		{"B8", func() layout { return &local{8} }},
		{"B64", func() layout { return &local{64} }},
	}
	for _, shape := range []string{"log", "touched", "ttl"} {
		for _, l := range layouts {
			b.Run(fmt.Sprintf("%s/%s", shape, l.name), func(b *testing.B) { life(b, shape, l.make()) })
		}
	}
}

// life reports the cost of each part of the documents' lives, per document or
// read; of all of them b has nothing to repeat.
func life(b *testing.B, shape string, l layout) {
	e, err := Open(Options{Dir: b.TempDir(), CacheBytes: 256 << 20, MemtableBytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	n := *windowDocs
	docs := make([]windowDoc, n)
	for i := range docs {
		docs[i] = windowDoc{id: uint64(i), k: rand.Uint64(), due: uint64(i) * (windowEnd / 2) / uint64(n)}
		if shape == "ttl" {
			docs[i].due = rand.Uint64N(windowEnd)
		}
	}
	part := func(name string, n int, f func()) {
		begun, used := time.Now(), processorTime()
		f()
		b.ReportMetric(float64(time.Since(begun).Nanoseconds())/1000/float64(n), name+"-µs")
		b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(n), name+"-cpu-µs")
	}
	batches := func(f func(u *Unit, d *windowDoc)) {
		for at := 0; at < n; at += 1000 {
			u := e.Begin()
			for i := at; i < min(at+1000, n); i++ {
				f(u, &docs[i])
			}
			commit(b, u)
		}
	}
	part("insert", n, func() { batches(l.insert) })
	if shape == "touched" {
		for range 2 {
			part("touch", n, func() { batches(func(u *Unit, d *windowDoc) { l.touch(u, d, d.due+windowEnd/4) }) })
		}
	}
	time.Sleep(windowSettle) // the reads' processor time shall not be that of compactions
	const reads = 20000
	part("get", reads, func() {
		for range reads {
			if !l.get(b, e, rand.Uint64N(uint64(n))) {
				b.Fatal("a document is not found")
			}
		}
	})
	part("byKey", reads, func() {
		for range reads {
			l.byKey(b, e, rand.Uint64())
		}
	})
	part("expire", n, func() { l.expire(b, e, docs) })
	part("sweep", n, func() { l.sweep(b, e) })
	b.ReportMetric(0, "ns/op")
}

var windowDocs = flag.Int("windows.docs", 100_000, "how many documents BenchmarkWindows has")

// processorTime is that of the process.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
