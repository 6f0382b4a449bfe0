package expire

import (
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Stats are the counters since start.
type Stats struct {
	Deleted           atomic.Int64 // documents
	Passes, SubPasses atomic.Int64
	InvalidIndexSkips atomic.Int64
	PriorityIncreases atomic.Int64 // metrics.ttl.collSubpassesIncreasedPriority

	batches, docs, bytes, refetches atomic.Int64
	micros                          atomic.Int64
}

func (s *Stats) batch(b Batch) {
	s.batches.Add(b.Batches)
	s.docs.Add(b.Docs)
	s.bytes.Add(b.Bytes)
	s.refetches.Add(b.Refetched)
	s.micros.Add(int64(b.Time / time.Microsecond))
}

// TTL writes metrics.ttl of serverStatus. Expired documents that a write with
// the same unique key has removed count as deleted, too.
func (m *Monitor) TTL() bson.Doc {
	s := &m.Stats
	var b bson.Builder
	b.Int64("collSubpassesIncreasedPriority", s.PriorityIncreases.Load())
	b.Int64("deletedDocuments", s.Deleted.Load()+m.o.Catalog.Evicted()).Int64("invalidTTLIndexSkips", s.InvalidIndexSkips.Load())
	b.Int64("passes", s.Passes.Load()).Int64("subPasses", s.SubPasses.Load())
	return b.Finish()
}

// BatchedDeletes writes the section batchedDeletes of serverStatus.
func (s *Stats) BatchedDeletes() bson.Doc {
	var b bson.Builder
	b.Int64("batches", s.batches.Load()).Int64("docs", s.docs.Load()).Int64("stagedSizeBytes", s.bytes.Load())
	b.Int64("timeInBatchMillis", s.micros.Load()/1000).Int64("refetchesDueToYield", s.refetches.Load())
	return b.Finish()
}
