package memory

import (
	"runtime"
	"runtime/metrics"
	"sync"
)

const (
	// ceilingShare is the share of the process's memory that is kept free, for what
	// is allocated during a garbage collection.
	ceilingShare = 8
	// garbageShare is the share of it by which the heap must have grown since its last
	// collection to be collected again.
	garbageShare = 16
)

// heap bounds the growth of the process's heap. The zero value has no ceiling.
//
// The limit of Go's runtime is soft: a collection runs concurrently with
// goroutines that allocate, and on busy processors they are far beyond the limit
// before it ends. So operations that take much memory wait for a collection once
// the heap has reached its ceiling.
type heap struct {
	ceiling int64 // bytes of objects; 0 for no ceiling
	garbage int64 // bytes by which it may always grow since its last collection

	collecting sync.Mutex // held while a collection runs

	mu     sync.Mutex // guards sample
	sample [2]metrics.Sample
}

// bound sets the ceiling of the heap for a process that may use limit bytes.
func (h *heap) bound(limit int64) {
	h.ceiling = limit - limit/ceilingShare
	h.garbage = limit / garbageShare
	h.sample[0].Name = "/memory/classes/heap/objects:bytes"
	h.sample[1].Name = "/gc/heap/live:bytes"
}

// settle waits for a collection where the heap has no room for n more bytes.
func (h *heap) settle(n int64) {
	if h.ceiling == 0 || h.fits(n) {
		return
	}
	h.collecting.Lock()
	defer h.collecting.Unlock()
	if !h.fits(n) { // otherwise a collection by another goroutine was enough
		runtime.GC()
	}
}

// fits reports whether n more bytes stay below the ceiling, or a collection would
// free little.
func (h *heap) fits(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	metrics.Read(h.sample[:])
	objects, live := int64(h.sample[0].Value.Uint64()), int64(h.sample[1].Value.Uint64())
	return objects+n <= h.ceiling || objects-live <= h.garbage
}

// Bound sets how many bytes the whole process may use. From then on, taking
// memory from the budget, and Settle, wait for a collection where the heap comes
// close to that. It must be called before the budget is used.
func (b *Budget) Bound(limit int64) { b.heap.bound(limit) }

// Settle is called before n bytes are allocated that are in the budget already,
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
