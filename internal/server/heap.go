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
	// heapFree is how much a heap of any size may grow, at the most twofold, before
	// the garbage collector runs.
	heapFree = 256 << 20
	// heapShare is the part of a large heap that it may grow beyond that. Nearly all
	// of a large heap is the cache of blocks, which costs the collector little: by Go's
	// own rule it would have to be collected only once the process takes twice the
	// cache, and everything that a request allocates would be memory that is in no
	// processor's cache.
	heapShare = 16
	// heapInterval is how often the size of the heap is looked at.
	heapInterval = time.Second
	// heapStep is by how many parts of a hundred the rule has to differ to be changed:
	// a change stops the process for some microseconds.
	heapStep = 5
	// heapPercent is Go's own rule.
	heapPercent = 100
)

// collectorPercent is by how many parts of a hundred a heap with so many live
// bytes grows until it is collected.
func collectorPercent(live uint64) int {
	if live <= heapFree {
		return heapPercent
	}
	return int(heapPercent * (heapFree + (live-heapFree)/heapShare) / live)
}

// fixedMemory is what the process takes besides the cache and the budget of
// operations, in bytes: memtables, what connections hold without asking, stacks,
// the program itself.
const fixedMemory = 128 << 20

// operationMemory is the budget that the options ask for.
func operationMemory(o *config.Options) *memory.Budget {
	limit := o.Process.OperationMemory()
	if limit == 0 {
		limit = memory.DefaultBudget(memory.Machine())
	}
	return memory.NewBudget(limit)
}

// appendStatus writes serverStatus().mayfly: what MongoDB's own sections have no
// place for.
func (s *Server) appendStatus(b *bson.Builder, m *repl.Member) {
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

// memoryLimit is what the process is to take at the most, in bytes: the
// collector works harder before the heap grows beyond it.
func (s *Server) memoryLimit() int64 {
	cache := s.Options.Storage.CacheBytes()
	if cache == 0 {
		cache = storage.DefaultCacheBytes()
	}
	return cache + s.memory.Stats().Limit + fixedMemory
}

// keepHeap holds the collector to collectorPercent and to limit until ctx ends,
// unless who started the process said something else.
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
