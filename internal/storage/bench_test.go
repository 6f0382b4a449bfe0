package storage

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// The raw rows do with Pebble alone what catalog's benchmarks of the same name
// do with documents: a record of 300 bytes under a key of 13, two index
// entries of 22 bytes.

func openDisk(b *testing.B) *Engine {
	b.Helper()
	e, err := Open(Options{Dir: b.TempDir(), CacheBytes: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	return e
}

var benchDoc = make([]byte, 300)

func rawKey(dst []byte, id byte, n uint64, size int) []byte {
	dst = append(dst, id)
	dst = binary.BigEndian.AppendUint64(dst, n)
	for len(dst) < size {
		dst = append(dst, 0)
	}
	return dst
}

func rawInsert(batch *pebble.Batch, n uint64, buf []byte) {
	batch.Set(rawKey(buf[:0], 20, n, 14), benchDoc, nil)
	batch.Set(rawKey(buf[:0], 21, n*0x9e3779b97f4a7c15, 23), []byte{13}, nil)
	batch.Set(rawKey(buf[:0], 22, n, 23), []byte{13}, nil)
}

func BenchmarkRawInsert(b *testing.B) {
	e := openDisk(b)
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for n := range uint64(b.N) {
		batch := e.db.NewBatch()
		rawInsert(batch, n, buf)
		if err := batch.Commit(pebble.Sync); err != nil { // our log: written through, not synced
			b.Fatal(err)
		}
		batch.Close()
	}
}

func BenchmarkRawInsertBatch(b *testing.B) {
	e := openDisk(b)
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for at := uint64(0); at < uint64(b.N); at += 1000 {
		batch := e.db.NewBatch()
		for n := at; n < at+1000; n++ {
			rawInsert(batch, n, buf)
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			b.Fatal(err)
		}
		batch.Close()
	}
}

func rawFill(b *testing.B, e *Engine, docs uint64) {
	buf := make([]byte, 0, 64)
	for at := uint64(0); at < docs; at += 1000 {
		batch := e.db.NewBatch()
		for n := at; n < at+1000; n++ {
			rawInsert(batch, n, buf)
		}
		batch.Commit(pebble.Sync)
		batch.Close()
	}
	e.Flush()
	b.ResetTimer()
}

func BenchmarkRawGet(b *testing.B) {
	e := openDisk(b)
	rawFill(b, e, 100000)
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for n := range uint64(b.N) {
		_, closer, err := e.db.Get(rawKey(buf[:0], 20, n*7919%100000, 14))
		if err != nil {
			b.Fatal(err)
		}
		closer.Close()
	}
}

func BenchmarkRawScan(b *testing.B) {
	e := openDisk(b)
	rawFill(b, e, 100000)
	b.ReportAllocs()
	for n := 0; n < b.N; {
		it, err := e.db.NewIter(&pebble.IterOptions{LowerBound: []byte{20}, UpperBound: []byte{21}})
		if err != nil {
			b.Fatal(err)
		}
		for ok := it.First(); ok && n < b.N; ok = it.Next() {
			it.Value()
			n++
		}
		it.Close()
	}
}

func BenchmarkRawDeleteBatch(b *testing.B) {
	e := openDisk(b)
	rawFill(b, e, uint64(b.N)/1000*1000+1000)
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for at := uint64(0); at < uint64(b.N); at += 1000 {
		batch := e.db.NewBatch()
		for n := at; n < at+1000; n++ {
			k := rawKey(buf[:0], 20, n, 14)
			if _, closer, err := e.db.Get(k); err == nil {
				closer.Close()
			}
			batch.DeleteSized(k, 300, nil)
			batch.DeleteSized(rawKey(buf[:0], 21, n*0x9e3779b97f4a7c15, 23), 1, nil)
			batch.DeleteSized(rawKey(buf[:0], 22, n, 23), 1, nil)
		}
		if err := batch.Commit(pebble.Sync); err != nil {
			b.Fatal(err)
		}
		batch.Close()
	}
}

// BenchmarkCommit is a unit with one record, by durability and writers.
func BenchmarkCommit(b *testing.B) {
	for _, d := range []Durability{Buffered, Journaled} {
		for _, writers := range []int{1, 16} {
			b.Run([]string{"buffered", "journaled"}[d]+map[int]string{1: "/1", 16: "/16"}[writers], func(b *testing.B) {
				e := openDisk(b)
				b.ReportAllocs()
				b.SetParallelism(max(1, writers/2))
				var next = make(chan uint64, 1)
				next <- 0
				run := func(more func() bool) {
					buf := make([]byte, 0, 64)
					for more() {
						n := <-next
						next <- n + 1
						u := e.Begin()
						u.Lock(context.Background(), LockRecord, 20, rawKey(buf[:0], 0, n, 13))
						u.Set(20, rawKey(buf[:0], 0, n, 13), benchDoc)
						if err := u.Commit(context.Background(), d); err != nil {
							b.Error(err)
						}
					}
				}
				if writers == 1 {
					run(b.Loop)
					return
				}
				b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
			})
		}
	}
}
