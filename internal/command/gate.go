package command

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Gate lets writes pass, or blocks them while someone has locked it (fsync with lock:
// true). The zero Gate is open.
type Gate struct {
	mu      sync.Mutex
	locks   int64
	passing int64         // writes that have passed and not left
	opened  chan struct{} // closed when the last lock is released; nil while there is none
	drained chan struct{} // closed when passing drops to 0; nil without waiters
}

// Enter waits until the gate is open; every Enter that returns nil is followed
// by a Leave.
func (g *Gate) Enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		if g.locks == 0 {
			g.passing++
			g.mu.Unlock()
			return nil
		}
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Leave ends a write.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passing--; g.passing == 0 && g.drained != nil {
		close(g.drained)
		g.drained = nil
	}
}

// Lock closes the gate, waits for the writes that have passed, and returns how
// many locks there are now.
func (g *Gate) Lock(ctx context.Context) (int64, error) {
	g.mu.Lock()
	g.locks++
	n := g.locks
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	if g.passing == 0 {
		g.mu.Unlock()
		return n, nil
	}
	if g.drained == nil {
		g.drained = make(chan struct{})
	}
	drained := g.drained
	g.mu.Unlock()
	select {
	case <-drained:
		return n, nil
	case <-ctx.Done():
		_, _ = g.Unlock()
		return 0, context.Cause(ctx)
	}
}

// Unlock releases one lock and returns how many are left.
func (g *Gate) Unlock() (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
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
