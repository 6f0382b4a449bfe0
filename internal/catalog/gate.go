package catalog

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/waits"
)

// gate is a readers-writer lock whose readers stop waiting when their operation
// ends. A waiting writer keeps new readers out; when it leaves, all waiting readers
// enter before the next writer. The zero gate is open.
//
// A reader that may stay for long, a prepared transaction, pins the gate: a writer that
// waits for it lets others in from time to time.
type gate struct {
	// inside counts the readers inside, and is gateClosed less while a writer is
	// inside or waits for the readers to leave.
	inside  atomic.Int64
	mu      sync.Mutex    // guards the rest
	writer  bool          // one is inside or waits for the readers
	left    chan struct{} // closed when that writer leaves; nil if no other one waits
	waiting int64         // readers that wait
	opened  chan struct{}
	emptied chan struct{}
	pinned  atomic.Int64  // readers inside that have pinned it
	loose   chan struct{} // closed when there are none any more; nil if nobody waits for that
}

// pinPatience is how long a writer keeps new readers out while it waits for pinned ones, and
// pinPause how long it then lets them in again.
const (
	pinPatience = time.Second
	pinPause    = time.Second
)

const gateClosed = math.MaxInt64 / 2

// TryRLock enters as a reader, unless a writer is inside or waits.
func (g *gate) TryRLock() bool {
	for n := g.inside.Load(); n >= 0; n = g.inside.Load() {
		if g.inside.CompareAndSwap(n, n+1) {
			return true
		}
	}
	return false
}

// RLock enters as a reader. Errors: the cause of ctx's end, where it ends first.
func (g *gate) RLock(ctx context.Context) error {
	if g.TryRLock() {
		return nil
	}
	g.mu.Lock()
	if g.TryRLock() { // Unlock opens the gate while it holds mu
		g.mu.Unlock()
		return nil
	}
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	g.waiting++
	opened := g.opened
	g.mu.Unlock()
	w := waits.Of(ctx)
	w.Begin(waits.Lock)
	defer w.End(waits.Lock)
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	if g.opened == opened {
		g.waiting--
		g.mu.Unlock()
	} else { // admitted by Unlock
		g.mu.Unlock()
		g.RUnlock()
	}
	return context.Cause(ctx)
}

// RUnlock ends what RLock or TryRLock has begun.
func (g *gate) RUnlock() {
	if g.inside.Add(-1) != -gateClosed {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.emptied)
}

// Lock is LockWithin without an end.
func (g *gate) Lock() { _ = g.LockWithin(context.Background()) }

// LockWithin keeps new readers out, and waits for those that are inside to leave. While one of
// them has pinned the gate, others are let in again from time to time. Errors: the cause of
// ctx's end, where it ends first; the gate is open then.
func (g *gate) LockWithin(ctx context.Context) error {
	if err := g.takeWriter(ctx); err != nil {
		return err
	}
	w := waits.Of(ctx)
	w.Begin(waits.Lock)
	defer w.End(waits.Lock)
	for {
		g.mu.Lock()
		if g.inside.Add(-gateClosed) == -gateClosed {
			g.mu.Unlock()
			return nil
		}
		emptied := make(chan struct{})
		g.emptied = emptied
		g.mu.Unlock()
		if g.awaitEmptied(ctx, emptied) {
			return nil
		}
		if g.pause(ctx); ctx.Err() != nil {
			g.mu.Lock()
			g.leaveLocked()
			g.mu.Unlock()
			return context.Cause(ctx)
		}
	}
}

// takeWriter waits until no other writer is inside or waits for readers. Errors: the cause of
// ctx's end.
func (g *gate) takeWriter(ctx context.Context) error {
	for {
		g.mu.Lock()
		if !g.writer {
			g.writer = true
			g.mu.Unlock()
			return nil
		}
		if g.left == nil {
			g.left = make(chan struct{})
		}
		left := g.left
		g.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// leaveLocked lets the next writer come.
func (g *gate) leaveLocked() {
	g.writer = false
	if g.left != nil {
		close(g.left)
		g.left = nil
	}
}

// awaitEmptied waits until all readers have left. False: one that has pinned the gate has not
// for pinPatience, or ctx has ended, and the gate is open again.
func (g *gate) awaitEmptied(ctx context.Context, emptied chan struct{}) bool {
	patience := time.NewTimer(pinPatience)
	defer patience.Stop()
	for {
		select {
		case <-emptied:
			return true
		case <-patience.C:
		case <-ctx.Done():
			if g.reopen() {
				return false
			}
			// All have left just now. The last one closes emptied, which it finds in the gate:
			// another writer may not have put its own there before.
			<-emptied
			return true
		}
		if g.Pinned() && g.reopen() {
			return false
		}
		patience.Reset(pinPatience)
	}
}

// reopen lets readers in again that a writer has kept out, unless all others have left.
func (g *gate) reopen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := g.inside.Load(); n != -gateClosed; n = g.inside.Load() {
		if g.inside.CompareAndSwap(n, n+gateClosed+g.waiting) {
			g.letInLocked()
			return true
		}
	}
	return false
}

// pause waits until nobody has pinned the gate, for pinPause, or until ctx ends.
func (g *gate) pause(ctx context.Context) {
	g.mu.Lock()
	if !g.Pinned() {
		g.mu.Unlock()
		return
	}
	if g.loose == nil {
		g.loose = make(chan struct{})
	}
	loose := g.loose
	g.mu.Unlock()
	timer := time.NewTimer(pinPause)
	defer timer.Stop()
	select {
	case <-loose:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// letInLocked wakes the readers that wait, whom inside counts already.
func (g *gate) letInLocked() {
	g.waiting = 0
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// Pin says that a reader inside may stay for long; Unpin is called before it leaves.
func (g *gate) Pin() {
	g.checkInside()
	g.pinned.Add(1)
}

// Unpin ends what Pin has begun.
func (g *gate) Unpin() {
	if g.pinned.Add(-1) > 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.loose != nil {
		close(g.loose)
		g.loose = nil
	}
}

// Pinned reports whether a reader may stay inside for long.
func (g *gate) Pinned() bool { return g.pinned.Load() > 0 }

// TryLock is Lock if no unit is inside and none waits; else it returns false.
func (g *gate) TryLock() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writer || !g.inside.CompareAndSwap(0, -gateClosed) {
		return false
	}
	g.writer = true
	return true
}

// Unlock ends what Lock or TryLock has begun.
func (g *gate) Unlock() {
	g.mu.Lock()
	g.inside.Add(gateClosed + g.waiting)
	g.letInLocked()
	g.leaveLocked()
	g.mu.Unlock()
}

// requireClosed returns an error if no writer is inside.
func (g *gate) requireClosed() error {
	return invariant.Require(g.inside.Load() == -gateClosed, "catalog: the collection's gate is closed")
}

// checkInside returns an error if neither a reader nor a writer is inside.
func (g *gate) checkInside() {
	invariant.Check(g.inside.Load() != 0, "catalog: the caller is inside the collection's gate")
}
