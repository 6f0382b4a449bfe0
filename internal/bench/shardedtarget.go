package bench

import (
	"fmt"
	"runtime"
	"text/tabwriter"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/shard"
)

// The row shardedTarget is what a router does with the chunks of one collection, in this
// process: it reads all of them, targets finds and inserts, and takes in the chunks that a
// move has changed.

// targetShards is over how many shards the chunks are spread.
const targetShards = 100

// shardedTargets measures the row.
func (b *bench) shardedTargets() error {
	n := int(b.o.ShardedDocuments)
	key, chunks, gen, err := manyChunks(n)
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	m, err := shard.NewMap("bench.documents", key, gen, chunks)
	if err != nil {
		return err
	}
	read := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)

	find, err := repeated(b.o.Duration, func(i int) error {
		f, err := match.Parse(new(bson.Builder).Int64("_id", int64(i)).Finish(), nil)
		if err == nil && len(m.Target(&plan.Query{Filter: f}).Shards) != 1 {
			err = errWrong
		}
		return err
	})
	if err != nil {
		return err
	}
	insert, err := repeated(b.o.Duration, func(i int) error {
		_, err := m.TargetInsert(new(bson.Builder).Int64("_id", int64(i)).Finish())
		return err
	})
	if err != nil {
		return err
	}
	refresh, err := repeated(b.o.Duration, func(i int) error {
		at, err := key.Append(nil, new(bson.Builder).Int64("_id", int64(i)*1_000_003).Finish())
		if err != nil {
			return err
		}
		c, to := m.Find(at), "shard0"
		if c.Shard == to {
			to = "shard1"
		}
		change, err := m.Move(c.Range, to, 9, 5, bson.NewObjectID)
		if err == nil {
			m, err = m.With(change.Put)
		}
		return err
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d chunks\tread, ms\tMB of memory\tµs: target of a find\tof an insert\trefresh after a move\t\n\t%d\t%.1f\t%s\t%s\t%s\t\n", n,
		read.Milliseconds(), float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), micros(find), micros(insert), micros(refresh))
	runtime.KeepAlive(chunks)
	runtime.KeepAlive(m)
	return w.Flush()
}

// manyChunks are n chunks of a hashed key.
func manyChunks(n int) (*shard.Key, []shard.Chunk, shard.Generation, error) {
	gen := shard.Generation{Epoch: bson.NewObjectID(), Timestamp: 1 << 32}
	key, err := shard.ParseKey(new(bson.Builder).String("_id", "hashed").Finish())
	if err != nil {
		return nil, nil, gen, err
	}
	chunks := make([]shard.Chunk, 0, n)
	at := key.Min()
	for i, end := range append(key.HashPoints(nil, n), key.Max()) {
		owner := "shard" + bson.Index(i%targetShards)
		chunks = append(chunks, shard.Chunk{ID: bson.NewObjectID(), Range: shard.Range{Min: at, Max: end}, Shard: owner, Version: gen.At(1<<32 + uint64(i)), History: []shard.Placement{{ValidAfter: 1, Shard: owner}}})
		at = end
	}
	return key, chunks, gen, nil
}

// repeated runs do for a while, and returns the processor time of one call.
func repeated(d time.Duration, do func(i int) error) (time.Duration, error) {
	used, err := ownCPU()
	if err != nil {
		return 0, err
	}
	n := 0
	for began := time.Now(); time.Since(began) < d; {
		for range 100 {
			if err := do(n); err != nil {
				return 0, err
			}
			n++
		}
	}
	now, err := ownCPU()
	return (now - used) / time.Duration(n), err
}
