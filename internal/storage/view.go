package storage

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// maxIdleIters bounds the iterators that a view keeps for its next readers.
	maxIdleIters = 16
	// viewKept is how long at least a view without readers stays, and at most twice
	// that. It keeps data that Pebble could otherwise drop.
	viewKept = 10 * time.Millisecond
)

// view is one state of the store with its readers: snapshots that no commit
// separates share a view, and reuse its iterators, since creating an iterator
// costs more than what most reads do with it.
type view struct {
	e       *Engine
	s       *pebble.Snapshot
	commits uint64 // of the engine, before s was taken

	// Guarded by Engine.views.mu.
	refs    int
	used    bool // acquired since the timer last ran
	current bool // the next snapshot may share it

	idle struct {
		sync.Mutex
		iters []*pebble.Iterator
		over  bool // nothing is kept any more
	}
}

// views hold the latest view.
type views struct {
	// commits counts what changes the store: a view is the latest state while the
	// count is what it was before its snapshot was taken.
	commits atomic.Uint64

	mu      sync.Mutex
	current *view
	timer   *time.Timer
	over    bool // the engine closes

	closing sync.WaitGroup // of the view that releaseUnused releases
}

// Commits counts what changes the store: it rises once a change is visible, and before the locks of
// its unit are released.
func (e *Engine) Commits() uint64 { return e.views.commits.Load() }

// acquire returns a view of the latest state for one more reader.
func (vs *views) acquire(e *Engine) *view {
	now := vs.commits.Load()
	vs.mu.Lock()
	if v := vs.current; v != nil && v.commits == now {
		v.refs++
		v.used = true
		vs.mu.Unlock()
		return v
	}
	v := &view{e: e, s: e.db.NewSnapshot(), commits: now, refs: 1, used: true, current: !vs.over}
	old := vs.current
	if v.current {
		vs.current = v
		if vs.timer == nil {
			vs.timer = time.AfterFunc(viewKept, vs.releaseUnused)
		} else if old == nil {
			vs.timer.Reset(viewKept)
		}
	}
	unused := old.replaced()
	vs.mu.Unlock()
	if unused {
		_ = old.close() // closing an iterator without an error, or a snapshot, does not fail
	}
	return v
}

// replaced marks a view as no longer current, and returns whether it has no
// readers. The caller holds views.mu.
func (v *view) replaced() bool {
	if v == nil {
		return false
	}
	v.current = false
	return v.refs == 0
}

// release releases the result of acquire.
func (vs *views) release(v *view) error {
	vs.mu.Lock()
	v.refs--
	unused := v.refs == 0 && !v.current
	vs.mu.Unlock()
	if unused {
		return v.close()
	}
	return nil
}

// releaseUnused releases a current view that was not acquired since the last run.
func (vs *views) releaseUnused() {
	vs.mu.Lock()
	v := vs.current
	if v != nil && v.used {
		v.used = false
		vs.timer.Reset(viewKept)
		vs.mu.Unlock()
		return
	}
	vs.current = nil
	if !v.replaced() {
		vs.mu.Unlock()
		return
	}
	vs.closing.Add(1)
	vs.mu.Unlock()
	defer vs.closing.Done()
	_ = v.close()
}

// letGo releases the current view now: it may keep what was deleted since.
func (vs *views) letGo() error {
	vs.mu.Lock()
	v := vs.current
	vs.current = nil
	unused := v.replaced()
	vs.mu.Unlock()
	if unused {
		return v.close()
	}
	return nil
}

// stop releases the current view; from now on snapshots do not share views.
func (vs *views) stop() error {
	vs.mu.Lock()
	vs.over = true
	if vs.timer != nil {
		vs.timer.Stop()
	}
	v := vs.current
	vs.current = nil
	unused := v.replaced()
	vs.mu.Unlock()
	// A release that has begun ends before the store closes.
	vs.closing.Wait()
	if unused {
		return v.close()
	}
	return nil
}

// newIter opens an iterator of the view, or moves an idle one.
func (v *view) newIter(id Ident, lower, upper []byte) (*Iter, error) {
	v.idle.Lock()
	n := len(v.idle.iters)
	if n == 0 {
		v.idle.Unlock()
		it, err := newIter(v.s, id, lower, upper)
		if err == nil {
			it.view = v
		}
		return it, err
	}
	p := v.idle.iters[n-1]
	v.idle.iters = v.idle.iters[:n-1]
	v.idle.Unlock()
	it := &Iter{id: id, prefix: identLen(id), it: p, view: v}
	it.SetBounds(lower, upper)
	return it, nil
}

// keep keeps an iterator that its reader no longer uses.
func (v *view) keep(p *pebble.Iterator) error {
	if p.Error() == nil {
		v.idle.Lock()
		if !v.idle.over && len(v.idle.iters) < maxIdleIters {
			v.idle.iters = append(v.idle.iters, p)
			v.idle.Unlock()
			return nil
		}
		v.idle.Unlock()
	}
	return p.Close()
}

// close releases the state. It has no readers.
func (v *view) close() error {
	v.idle.Lock()
	iters := v.idle.iters
	v.idle.iters, v.idle.over = nil, true
	v.idle.Unlock()
	for _, p := range iters {
		if err := p.Close(); err != nil {
			return mapError(err)
		}
	}
	return v.e.retired.add(v.s)
}
