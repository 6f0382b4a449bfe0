package storage

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// The layouts that docs/rfcs/0024-hashed-layout.md compares for a sharded collection that
// expires, without anything above the engine: records of 300 bytes, each due half an hour
// after it came, of which each minute's due ones are removed as ranges; then what is left of
// one of 64 chunks is read.
//
//	go test -run '^$' -bench BenchmarkSlots -benchtime 1x ./internal/storage -args -windows.docs=400000

// slotLayout is one way to lay such records out: slot ‖ window ‖ rest of the hash ‖ _id.
// Without bits there are no slots, and entries of an index on the hash instead.
type slotLayout struct{ bits int }

// slots are how many there are.
func (l slotLayout) slots() uint64 { return 1 << l.bits }

// hash spreads numbers, as the hash of a shard key does.
func (slotLayout) hash(id uint64) uint64 { return id * 0x9e3779b97f4a7c15 }

// record appends the record key of a document.
func (l slotLayout) record(dst []byte, id, window uint64) []byte {
	if l.bits == 0 {
		return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, window), id)
	}
	h := l.hash(id)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h>>(64-l.bits)))
	dst = binary.BigEndian.AppendUint64(dst, window)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, h<<l.bits), id)
}

func (l slotLayout) insert(u *Unit, id, window uint64) {
	record := l.record(nil, id, window)
	value := make([]byte, len(windowValue)) // half of it does not compress
	for r, at := rand.New(rand.NewPCG(id, 0)), 0; at < len(value)/2; at += 8 {
		binary.LittleEndian.PutUint64(value[at:], r.Uint64())
	}
	u.Set(windowRecords, record, value)
	u.Set(windowIDs, be(id), record[:10])
	u.AddSums(IdentWindows, be(window), []int64{1, int64(len(value))})
	if l.bits == 0 {
		u.Set(windowKeys, append(be(l.hash(id)), record...), []byte{16})
	}
}

// expire removes all windows below one.
func (l slotLayout) expire(u *Unit, below uint64) {
	u.DeleteRange(IdentWindows, nil, be(below))
	if l.bits == 0 {
		u.DeleteRange(windowRecords, nil, be(below))
		return
	}
	for s := range l.slots() {
		at := binary.BigEndian.AppendUint16(nil, uint16(s))
		u.DeleteRange(windowRecords, at, binary.BigEndian.AppendUint64(at[:2:2], below))
	}
}

// chunk reads what is left in the first of 64 chunks, and returns how many there are.
func (l slotLayout) chunk(b *testing.B, e *Engine, below uint64) (n int) {
	end := be(1 << 58)
	id := windowKeys
	if l.bits > 0 {
		end, id = binary.BigEndian.AppendUint16(nil, uint16(l.slots()/64)), windowRecords
	}
	it, err := e.NewIter(id, nil, end)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if l.bits == 0 {
			record := it.Key()[8:]
			if binary.BigEndian.Uint64(record) < below || !present(e, windowRecords, record) {
				continue
			}
		} else if v, err := it.Value(); err != nil || len(v) == 0 {
			b.Fatal(err)
		}
		n++
	}
	return n
}

// sweep removes the dead entries of the index on the hash.
func (slotLayout) sweep(b *testing.B, e *Engine, below uint64) {
	it, err := e.NewIter(windowKeys, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	u := e.Begin()
	for ok := it.First(); ok; ok = it.Next() {
		if binary.BigEndian.Uint64(it.Key()[8:]) < below {
			u.Delete(windowKeys, it.Key(), 1)
		}
		if u.Count() == 8192 {
			commit(b, u)
			u = e.Begin()
		}
	}
	commit(b, u)
}

// BenchmarkSlots reports processor time per document and bytes that flushes and compactions
// wrote per byte of documents, for a life of two hours of which one half hour is left.
func BenchmarkSlots(b *testing.B) {
	const minutes, kept, perMinute = 120, 30, 60_000 / windowSpan
	for _, bits := range []int{0, 6, 8, 10} {
		b.Run(fmt.Sprintf("bits=%d", bits), func(b *testing.B) {
			e, err := Open(Options{Dir: b.TempDir(), CacheBytes: 64 << 20, MemtableBytes: 8 << 20})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			l, n := slotLayout{bits}, *windowDocs
			life, expiry := processorTime(), time.Duration(0)
			id, below := 0, uint64(0)
			for m := range minutes {
				for ; id < (m+1)*n/minutes; id += 100 {
					u := e.Begin()
					for i := range 100 {
						l.insert(u, uint64(id+i), uint64(m*perMinute+(id+i)%perMinute))
					}
					commit(b, u)
				}
				if m >= kept {
					begun := processorTime()
					below = uint64((m - kept + 1) * perMinute)
					u := e.Begin()
					l.expire(u, below)
					commit(b, u)
					expiry += processorTime() - begun
				}
			}
			if err := e.Flush(); err != nil {
				b.Fatal(err)
			}
			now := e.Metrics()
			b.ReportMetric(float64((processorTime()-life).Nanoseconds())/1000/float64(n), "cpu-µs/doc")
			b.ReportMetric(float64(expiry.Nanoseconds())/1000/float64(minutes-kept), "cpu-µs/pass")
			b.ReportMetric(float64(now.BytesFlushed+now.BytesCompacted)/float64(n*len(windowValue)), "written/byte")
			b.ReportMetric(float64(now.TableBytes)/float64(n*len(windowValue)*kept/minutes), "disk/left")
			used := processorTime()
			if bits == 0 {
				l.sweep(b, e, below)
			}
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(n), "sweep-cpu-µs/doc")
			used = processorTime()
			found := l.chunk(b, e, below)
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/float64(found), "chunk-cpu-µs/doc")
			used = processorTime()
			const finds = 20_000
			for i := range finds {
				if at := n - 1 - i*(n/minutes*kept/2)/finds; !l.find(e, uint64(at)) {
					b.Fatal("a document is not found")
				}
			}
			b.ReportMetric(float64((processorTime()-used).Nanoseconds())/1000/finds, "find-cpu-µs")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// find reads a document by _id.
func (l slotLayout) find(e *Engine, id uint64) bool {
	v, closer, err := e.Get(windowIDs, be(id))
	if err != nil {
		return false
	}
	window := binary.BigEndian.Uint64(v[:8])
	if l.bits > 0 {
		window = binary.BigEndian.Uint64(v[2:10])
	}
	closer.Close()
	return present(e, windowRecords, l.record(nil, id, window))
}
