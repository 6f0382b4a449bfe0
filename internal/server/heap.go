package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// heapFree is how much a heap of any size may grow, but at most by a factor of two,
	// before the garbage collector runs.
	heapFree = 256 << 20
	// heapShare is the share of a large heap by which it may grow beyond that. Nearly
	// all of a large heap is the block cache, which costs the collector little. By Go's
	// own rule it would be collected only once the process takes twice the cache, and
	// everything that a request allocates would be outside of the processors' caches.
	heapShare = 16
	// heapInterval is the interval of checks of the heap's size.
	heapInterval = time.Second
	// heapStep is the least change of the percentage that is applied: a change stops
	// the process for some microseconds.
	heapStep = 5
	// heapPercent is Go's default.
	heapPercent = 100
)

// collectorPercent returns GOGC for a heap with that many live bytes.
func collectorPercent(live uint64) int {
	if live <= heapFree {
		return heapPercent
	}
	return int(heapPercent * (heapFree + (live-heapFree)/heapShare) / live)
}

// fixedMemory is the memory of the process besides the cache and the budget of
// operations, in bytes: memtables, unaccounted memory of connections, stacks, the
// program itself.
const fixedMemory = 128 << 20

// operationMemory returns the budget of the options.
func operationMemory(o *config.Options) *memory.Budget {
	limit := o.Process.OperationMemory()
	if limit == 0 {
		limit = memory.DefaultBudget(memory.Machine())
	}
	return memory.NewBudget(limit)
}

// appendStatus writes serverStatus().mayfly, for which MongoDB has no section. m and trend are
// nil where there are none.
func (s *Server) appendStatus(b *bson.Builder, m *repl.Member, trend *diskTrend) {
	b.String("version", config.Version)
	if trend != nil {
		trend.appendStatus(b)
	}
	s.appendCertificates(b)
	if m != nil {
		b.OpenDoc("keptStates")
		m.KeptStates().AppendStatus(b)
		b.Close()
	}
	b.Int64("invariantsBroken", invariant.Broken())
	st := s.memory.Stats()
	b.OpenDoc("operationMemory").Int64("limitBytes", st.Limit).Int64("processLimitBytes", s.memoryLimit())
	appendPool(b, "operations", st.Operations)
	appendPool(b, "requests", st.Requests)
	b.Close()
}

func appendPool(b *bson.Builder, name string, p memory.PoolStats) {
	b.OpenDoc(name).Int64("heldBytes", p.Held).Int64("peakBytes", p.Peak).Int64("waiting", p.Waiting).
		Int64("waits", p.Waits).Int64("refused", p.Refused).Close()
}

// memoryLimit is the soft limit of the process's memory, in bytes: the collector works
// harder before the heap exceeds it.
func (s *Server) memoryLimit() int64 {
	cache := s.Options.Storage.CacheBytes()
	if cache == 0 {
		cache = storage.DefaultCacheBytes()
	}
	return cache + s.memory.Stats().Limit + fixedMemory
}

// keepHeap is keepHeap of the server's process, unless that is another program's.
func (s *Server) keepHeap(ctx context.Context) {
	if !s.Guest {
		keepHeap(ctx, s.memoryLimit())
	}
}

// keepHeap applies collectorPercent and limit to the collector until ctx ends, unless
// the environment sets GOGC or GOMEMLIMIT.
func keepHeap(ctx context.Context, limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
	}
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return
	}
	defer debug.SetGCPercent(heapPercent)
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(heapInterval)
	defer tick.Stop()
	now := heapPercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(sample)
		if p := collectorPercent(sample[0].Value.Uint64()); p <= now-heapStep || p >= now+heapStep {
			debug.SetGCPercent(p)
			now = p
		}
	}
}
