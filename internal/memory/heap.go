package memory

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

const (
	// ceilingShare is the part of what the process may take that is kept free: it is
	// for what is allocated while a collection is under way.
	ceilingShare = 8
	// garbageShare is the part of it that the heap has to have grown by since its last
	// collection to be collected again.
	garbageShare = 16
)

// heap is the process's heap, as those see it who are about to make it grow.
// The zero value has no ceiling.
//
// The limit of Go's runtime is soft: a collection runs beside those who allocate,
// and on busy processors they are far beyond the limit before it ends. So who
// takes much memory waits for a collection where the heap has come to its ceiling.
type heap struct {
	ceiling int64 // bytes of objects; 0 for none
	garbage int64 // bytes that it may grow by since its last collection in any case

	collecting sync.Mutex // held while a collection runs

	mu     sync.Mutex // guards sample
	sample [2]metrics.Sample
}

// bound gives the heap of a process that may take limit bytes a ceiling.
func (h *heap) bound(limit int64) {
	h.ceiling = limit - limit/ceilingShare
	h.garbage = limit / garbageShare
	h.sample[0].Name = "/memory/classes/heap/objects:bytes"
	h.sample[1].Name = "/gc/heap/live:bytes"
}

// settle waits for a collection where n bytes more are too many for the heap as
// it is.
func (h *heap) settle(n int64) {
	if h.ceiling == 0 || h.fits(n) {
		return
	}
	h.collecting.Lock()
	defer h.collecting.Unlock()
	if !h.fits(n) { // else somebody else's collection was enough
		runtime.GC()
	}
}

// fits says whether n bytes more are below the ceiling, or a collection would
// bring little.
func (h *heap) fits(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	metrics.Read(h.sample[:])
	objects, live := int64(h.sample[0].Value.Uint64()), int64(h.sample[1].Value.Uint64())
	return objects+n <= h.ceiling || objects-live <= h.garbage
}

// Bound tells the budget how many bytes the whole process may take. From then on
// who takes memory of the budget, and who calls Settle, waits for a collection
// where the heap comes near to them. It must be called before the budget is used.
func (b *Budget) Bound(limit int64) { b.heap.bound(limit) }

// Settle is for who is about to allocate n bytes that are in the budget already,
// again and again: it waits for a collection where the heap has no room for them.
// b may be nil.
func (b *Budget) Settle(n int) {
	if b != nil {
		b.heap.settle(int64(n))
	}
}

// Settle is Budget.Settle for the holder of an account.
func (a *Account) Settle(n int) {
	if a != nil && a.pool != nil {
		a.pool.heap.settle(int64(n))
	}
}
