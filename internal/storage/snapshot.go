package storage

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// Snapshot is one fixed state of the store. Close it soon: it keeps what is
// deleted after it on disk.
type Snapshot struct {
	v      *view
	closed atomic.Bool
}

// NewSnapshot fixes the latest state: all committed units, none in part.
func (e *Engine) NewSnapshot() *Snapshot { return &Snapshot{v: e.views.acquire(e)} }

// KeepState is NewSnapshot for a state that is kept for long: it holds no tables
// or memtables between its readers.
func (e *Engine) KeepState() *Snapshot {
	v := &view{e: e, s: e.db.NewSnapshot(), refs: 1}
	v.idle.over = true // it reuses no iterators
	return &Snapshot{v: v}
}

// Share is the same state once more, to be closed by itself. REQUIRES: s is not closed.
func (s *Snapshot) Share() State {
	invariant.Check(!s.closed.Load(), "storage: a snapshot is shared while it is open")
	vs := &s.v.e.views
	vs.mu.Lock()
	defer vs.mu.Unlock()
	s.v.refs++
	return &Snapshot{v: s.v}
}

// Applied is the place in the log of what the state has applied last: Engine.Applied of
// then.
func (s *Snapshot) Applied() (uint64, error) { return metaNumber(s.v.s, keyApplied) }

// Close releases the snapshot. Its iterators are closed before.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.v.e.views.release(s.v)
}

// Get is Reader's Get.
func (s *Snapshot) Get(id Ident, key []byte) ([]byte, io.Closer, error) { return get(s.v.s, id, key) }

// NewIter is Reader's NewIter.
func (s *Snapshot) NewIter(id Ident, lower, upper []byte) (*Iter, error) {
	return s.v.newIter(id, lower, upper)
}

const (
	// maxRetired bounds the snapshots that are no longer used but still open in
	// Pebble.
	maxRetired = 128
	// retiredFor is how long they stay at most.
	retiredFor = 10 * time.Millisecond
)

// retired are snapshots to be closed together. Whenever the oldest of all
// snapshots is closed, Pebble searches for compactions that it blocked, under
// the lock that all snapshots need; the snapshot of a query, which takes a few
// microseconds, is often the oldest. So the newest are closed first here, and
// Pebble searches once for many.
type retired struct {
	mu    sync.Mutex
	all   []*pebble.Snapshot // in the order of their retirement
	spare []*pebble.Snapshot // memory for all
	timer *time.Timer        // armed while all is not empty
	over  bool               // the engine closes: nothing is kept any more

	closing sync.WaitGroup // of closeAndUnlock
}

func (r *retired) add(s *pebble.Snapshot) error {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		return s.Close()
	}
	r.all = append(r.all, s)
	switch {
	case len(r.all) == maxRetired:
		return r.closeAndUnlock()
	case len(r.all) > 1:
	case r.timer == nil:
		r.timer = time.AfterFunc(retiredFor, r.expired)
	default:
		r.timer.Reset(retiredFor)
	}
	r.mu.Unlock()
	return nil
}

// expired is called by the timer. Closing a snapshot does not fail.
func (r *retired) expired() {
	r.mu.Lock()
	_ = r.closeAndUnlock()
}

// letGo closes all of them now.
func (r *retired) letGo() error {
	r.mu.Lock()
	return r.closeAndUnlock()
}

// closeAndUnlock closes all. REQUIRES: mu is held; it is released.
func (r *retired) closeAndUnlock() error {
	invariant.Held(&r.mu, "storage: the lock of the retired is held")
	all := r.all
	r.all, r.spare = r.spare[:0], nil
	r.closing.Add(1)
	r.mu.Unlock()
	defer r.closing.Done()
	var first error
	for i := len(all) - 1; i >= 0; i-- {
		if err := all[i].Close(); err != nil && first == nil {
			first = err
		}
		all[i] = nil
	}
	r.mu.Lock()
	r.spare = all
	r.mu.Unlock()
	return first
}

// stop closes all, and from now on each at once.
func (r *retired) stop() error {
	r.mu.Lock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
	err := r.closeAndUnlock()
	r.closing.Wait()
	return err
}
