package server

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
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

// keepHeap holds the collector to collectorPercent until ctx ends, unless who
// started the process said something else.
func keepHeap(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
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
