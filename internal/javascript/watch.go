package javascript

import (
	"context"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// callTimeout is how long one call may take (internalQueryJavaScriptFnTimeoutMillis).
	callTimeout = 60 * time.Second
	// watchInterval is how often a running call is checked.
	watchInterval = 10 * time.Millisecond
	// minGrowth and maxGrowth bound by how much the heap may grow while a call runs,
	// in bytes.
	minGrowth, maxGrowth = 100 << 20, 512 << 20
)

var (
	errInterrupted = mongoerr.New(mongoerr.Interrupted, "JavaScript execution interrupted")
	errOutOfMemory = mongoerr.New(mongoerr.JSInterpreterFailure, "Out of memory")
)

// watch stops the calls of a scope at their limits of time and memory. Two things wake
// it: the end of the context, and a timer that runs while calls run.
type watch struct {
	scope *scope
	// stopped says that the runtime was interrupted.
	stopped atomic.Bool

	mu struct {
		sync.Mutex
		ctx     context.Context // whose end is waited for
		release func() bool
		turn    uint64   // of the context
		heap    heapSize // when this turn began
		others  int64    // of the budget, held by others then
		account memory.Account
		holding memory.Holding // while a call runs long
		held    int64
		running bool
		started time.Time
		timer   *time.Timer
		ticking bool
		cause   error // why the runtime was stopped; it is not reused
	}
}

// sleep waits within a call, not beyond the end of its context.
func (w *watch) sleep(d time.Duration) {
	w.mu.Lock()
	ctx := w.mu.ctx
	w.mu.Unlock()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// begin watches a call.
func (w *watch) begin(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.running, w.mu.started = true, time.Now()
	if w.mu.ctx != ctx {
		w.follow(ctx)
	}
	if ctx.Err() != nil {
		w.stop(context.Cause(ctx))
	}
	if w.mu.ticking {
		return
	}
	w.mu.ticking = true
	if w.mu.timer == nil {
		w.mu.timer = time.AfterFunc(watchInterval, w.tick)
	} else {
		w.mu.timer.Reset(watchInterval)
	}
}

// end ends the watch of a call, and returns why the runtime was stopped.
func (w *watch) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.running = false
	w.giveBack()
	return w.mu.cause
}

// callMemory is the memory that a long call takes from the budget, in bytes, in addition
// to the growth of the heap.
const callMemory = 4 << 20

// takeMemory takes the estimated memory of the call from the budget. goja does not report
// it, so it is the call's share of the heap's growth since its turn began that others
// have not taken, times three, as a value may double before the next tick.
//
// REQUIRES: w.mu is held.
func (w *watch) takeMemory(heap heapSize) error {
	invariant.Held(&w.mu, "javascript: the lock of the watch is held")
	e := w.scope.engine
	if e.options.Budget == nil {
		return nil
	}
	if w.mu.held == 0 {
		w.mu.account.Open(e.options.Budget)
		w.mu.holding = w.mu.account.Hold(nil)
		e.long.Add(1)
	}
	// What is live is known at the end of a collection; until then garbage may come
	// to as much as was live.
	then := w.mu.heap
	grown := max(heap.live-then.live, heap.objects-then.objects-then.live) - (e.others() - w.mu.others)
	n := callMemory + 3*max(grown, 0)/max(e.long.Load(), 1)
	if err := w.mu.holding.Set(int(n)); err != nil {
		w.mu.held = max(w.mu.held, 1)
		return err
	}
	taken := max(w.mu.account.Taken(), 1)
	e.held.Add(taken - w.mu.held)
	w.mu.held = taken
	return nil
}

// giveBack releases the memory of the call. REQUIRES: w.mu is held.
func (w *watch) giveBack() {
	invariant.Held(&w.mu, "javascript: the lock of the watch is held")
	if w.mu.held > 0 {
		e := w.scope.engine
		w.mu.account.Close()
		e.long.Add(-1)
		e.held.Add(-w.mu.held)
		w.mu.held = 0
	}
}

// others returns the part of the budget that is not held by calls.
func (e *Engine) others() int64 {
	if e.options.Budget == nil {
		return 0
	}
	st := e.options.Budget.Stats()
	return st.Operations.Held + st.Requests.Held - e.held.Load()
}

// follow waits for the end of another context.
//
// REQUIRES: w.mu is held.
func (w *watch) follow(ctx context.Context) {
	invariant.Held(&w.mu, "javascript: the lock of the watch is held")
	if w.mu.release != nil {
		w.mu.release()
	}
	w.mu.turn++
	w.mu.ctx, w.mu.heap, w.mu.others = ctx, readHeap(), w.scope.engine.others()
	turn := w.mu.turn
	w.mu.release = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.mu.turn == turn && w.mu.running {
			w.stop(context.Cause(ctx))
		}
	})
}

// stop interrupts the runtime.
//
// REQUIRES: w.mu is held.
func (w *watch) stop(cause error) {
	invariant.Held(&w.mu, "javascript: the lock of the watch is held")
	if w.mu.cause == nil {
		w.mu.cause = cause
		w.stopped.Store(true)
		w.scope.vm.Interrupt(cause)
	}
}

// tick checks the running call, and reschedules itself while there is one.
func (w *watch) tick() {
	heap := readHeap()
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mu.running {
		w.mu.ticking = false
		return
	}
	w.bound(heap)
	if time.Since(w.mu.started) > callTimeout {
		w.stop(errInterrupted)
	}
	w.mu.timer.Reset(watchInterval)
}

// checkHeap is a check by the call itself after many allocations, without waiting for a tick.
func (w *watch) checkHeap() {
	heap := readHeap()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.running {
		w.bound(heap)
	}
}

// bound stops the call if the heap has grown too much, or the budget has no memory left.
// REQUIRES: w.mu is held.
func (w *watch) bound(heap heapSize) {
	invariant.Held(&w.mu, "javascript: the lock of the watch is held")
	if w.scope.engine.tooMuch(w.mu.heap, heap) {
		w.stop(errOutOfMemory)
	}
	if err := w.takeMemory(heap); err != nil {
		w.stop(err)
	}
}

// heapSize is the size of the process's heap in bytes.
type heapSize struct {
	objects int64 // live objects, and garbage that is not collected yet
	live    int64 // at the end of the last collection
}

func readHeap() heapSize {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return heapSize{int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64())}
}

// tooMuch reports whether the heap has grown too much since then: what is live by a
// third of what was free. A function may allocate faster than collections end, so
// there is a bound for all objects too, above what garbage comes to (as much as
// was live), and below half of what was free.
func (e *Engine) tooMuch(then, now heapSize) bool {
	free := e.options.Memory - then.objects
	limit := min(max(free/3, minGrowth), maxGrowth)
	all := min(limit+then.live, max(limit, free/2))
	return now.live-then.live > limit || now.objects-then.objects > all
}
