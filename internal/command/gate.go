package command

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/waits"
)

// Gate lets writes pass, or blocks them while someone has locked it (fsync with lock:
// true). The zero Gate is open.
type Gate struct {
	mu    sync.Mutex
	locks int64
	// passing are the writes that have passed and not left, by the side that was in use
	// when they passed. Drain changes it.
	passing [2]int64
	side    uint8
	opened  chan struct{} // closed when the last lock is released; nil while there is none
	emptied chan struct{} // closed when one of passing drops to 0; nil without waiters
}

// Pass is a write that has passed a gate. The zero Pass is none.
type Pass struct {
	g    *Gate
	side uint8
}

// Enter waits until the gate is open. Leave of the Pass must follow.
func (g *Gate) Enter(ctx context.Context) (Pass, error) { return g.enter(ctx, false) }

// EnterWithin is Enter for who holds what a write inside may be waiting for, a statement
// of a transaction: as long as Lock waits for writes inside, it passes.
func (g *Gate) EnterWithin(ctx context.Context) (Pass, error) { return g.enter(ctx, true) }

func (g *Gate) enter(ctx context.Context, within bool) (Pass, error) {
	for {
		g.mu.Lock()
		if g.locks == 0 || within && g.passing != [2]int64{} {
			p := Pass{g, g.side}
			g.passing[p.side]++
			g.mu.Unlock()
			return p, nil
		}
		opened := g.opened
		g.mu.Unlock()
		if err := awaitOpened(ctx, opened); err != nil {
			return Pass{}, err
		}
	}
}

func awaitOpened(ctx context.Context, opened <-chan struct{}) error {
	w := waits.Of(ctx)
	w.Begin(waits.Lock)
	defer w.End(waits.Lock)
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave ends a write. Of the zero Pass it does nothing.
func (p Pass) Leave() {
	if p.g == nil {
		return
	}
	p.g.mu.Lock()
	defer p.g.mu.Unlock()
	if p.g.passing[p.side]--; p.g.passing[p.side] == 0 && p.g.emptied != nil {
		close(p.g.emptied)
		p.g.emptied = nil
	}
}

// awaitLocked waits, without mu, until a side is empty. Errors: the cause of ctx's end.
// REQUIRES: mu held.
func (g *Gate) awaitLocked(ctx context.Context) error {
	invariant.Held(&g.mu, "command: mu of the gate is held")
	if g.emptied == nil {
		g.emptied = make(chan struct{})
	}
	emptied := g.emptied
	g.mu.Unlock()
	defer g.mu.Lock()
	w := waits.Of(ctx)
	w.Begin(waits.Lock)
	defer w.End(waits.Lock)
	select {
	case <-emptied:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lock closes the gate, waits for the writes that have passed, and returns how
// many locks there are now.
func (g *Gate) Lock(ctx context.Context) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.locks++
	n := g.locks
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	for g.passing != [2]int64{} {
		if err := g.awaitLocked(ctx); err != nil {
			_, _ = g.unlockLocked()
			return 0, err
		}
	}
	return n, nil
}

// Drain waits for the writes that have passed before it was called, and not for later ones
// but for those that pass while it waits for what an earlier Drain has given up on. There
// is one Drain at a time. Errors: the cause of ctx's end.
func (g *Gate) Drain(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range 2 { // of the other side are those that an earlier Drain has given up on
		for g.passing[1-g.side] != 0 {
			if err := g.awaitLocked(ctx); err != nil {
				return err
			}
		}
		g.side = 1 - g.side
	}
	return nil
}

// Unlock releases one lock and returns how many are left.
func (g *Gate) Unlock() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unlockLocked()
}

func (g *Gate) unlockLocked() (int64, error) {
	if g.locks == 0 {
		return 0, mongoerr.New(mongoerr.IllegalOperation, "fsyncUnlock called when not locked")
	}
	if g.locks--; g.locks == 0 {
		close(g.opened)
		g.opened = nil
	}
	return g.locks, nil
}

// Locks returns how many locks there are.
func (g *Gate) Locks() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.locks
}
