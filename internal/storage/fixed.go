package storage

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// A fixed unit is that of a transaction. It reads one state of the store, with its own
// writes on top, however long it lives. It waits for no lock, and what has been committed
// under a lock since its state was taken is a conflict (invariant first-committer).

// ErrConflict says that a fixed unit wants a lock that another unit has, or under which
// another unit has committed since the fixed unit's state was taken: code 112.
var ErrConflict error = mongoerr.New(mongoerr.WriteConflict,
	"Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or multi-document transaction.").
	WithLabels("TransientTransactionError")

// Held is the error of a lock that a fixed unit has. It is ErrLockBusy: nobody waits for a
// fixed unit while holding anything, as it may live long. WaitBusy waits.
type Held struct {
	e *Engine
	l lockID
}

// Error implements error.
func (h *Held) Error() string { return "storage: lock is held by a transaction" }

// Is reports that Held is an ErrLockBusy.
func (h *Held) Is(err error) bool { return err == ErrLockBusy }

// wait waits until the lock is free. Errors: the cause of ctx's end.
func (h *Held) wait(ctx context.Context) error {
	w := new(Unit)
	if h.e.locks.try(w, h.l) != lockTaken {
		if err := h.e.locks.wait(ctx, w, h.l); err != nil {
			return err
		}
	}
	h.e.locks.release(h.l)
	return nil
}

// IsHeld reports whether an error is a Held.
func IsHeld(err error) bool {
	h := (*Held)(nil)
	return errors.As(err, &h)
}

// WaitBusy is called with the error of a unit that has ended, by callers that hold neither
// locks nor gates: where that is a Held, it waits for the lock, so that a new unit does not
// spin. Errors: the cause of ctx's end.
func WaitBusy(ctx context.Context, err error) error {
	if h := (*Held)(nil); errors.As(err, &h) {
		return h.wait(ctx)
	}
	return nil
}

// maxRecent bounds the commits that are remembered for fixed units: a number of locks
// in each generation.
const maxRecent = 1 << 20

// recent are the locks under which units have committed while fixed units were open, and
// when: the index of the unit's entry in the log or, where there is no log, a number that rises
// with each commit. They are in two generations, of which the older is dropped when the newer
// is full.
type recent struct {
	e    *Engine
	open atomic.Int64 // fixed units, and who else wants commits to be remembered

	mu   sync.Mutex
	last uint64
	// floor is the last commit of those that have been forgotten, or whose locks are not
	// known: a unit that was fixed before it does not know what it conflicts with.
	floor    uint64
	now, old map[lockID]uint64
	oldest   uint64 // the last commit in old
}

// fix notes a new fixed unit, before its state is taken. since is the last commit that
// its state has.
func (r *recent) fix() (since uint64) {
	first := r.open.Add(1) == 1
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, r.e.applied.Load()) // the state will have these
	if first {
		r.floor = r.last
	}
	return r.last
}

// unfix notes the end of a fixed unit.
func (r *recent) unfix() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open.Add(-1) == 0 {
		r.now, r.old = nil, nil
		r.floor = r.last
	}
}

// note remembers a commit, which is visible, before its locks are released. at is its place in
// the log; known is false where its locks are another member's.
func (r *recent) note(at uint64, known bool, locks ...[]lockID) {
	if r.open.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case at > 0:
		r.last = max(r.last, at)
	case r.e.applied.Load() == 0:
		r.last++
	default:
		return // it is this member's own, and no transaction writes there
	}
	if !known {
		r.floor = r.last
		return
	}
	for _, list := range locks {
		for _, l := range list {
			if r.now == nil {
				r.now = map[lockID]uint64{}
			}
			r.now[l] = r.last
		}
	}
	if len(r.now) >= maxRecent {
		if r.old != nil {
			r.floor = r.oldest
		}
		r.old, r.now, r.oldest = r.now, nil, r.last
	}
}

// since reports whether there was a commit under a lock after another one, or whether
// that is not known any more.
func (r *recent) since(l lockID, after uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now[l] > after || r.old[l] > after || r.floor > after
}

// Remember has the engine remember under which locks units commit, until Forget is called as
// often: so a unit may be fixed in a state that is taken from now on.
func (e *Engine) Remember() { e.recent.fix() }

// Forget ends what Remember has begun.
func (e *Engine) Forget() { e.recent.unfix() }

// FixIn has a fixed unit, which has done nothing yet, read an earlier state, of which it takes
// a reference: that of an entry of the log with an index. What was committed since is a
// conflict; also what is not remembered. Errors: those of the disk.
func (u *Unit) FixIn(s State, index uint64) error {
	if err := invariant.Require(u.fixed && u.batch.Empty() && len(u.locks) == 0, "storage: a unit is fixed in an earlier state before it does anything"); err != nil {
		return err
	}
	if err := errors.Join(u.letBaseGo(), u.batch.Close()); err != nil {
		return err
	}
	u.batch, u.since = u.e.db.NewIndexedBatch(), index
	u.over = &layer{below: s.Share(), b: u.batch}
	return nil
}

// reads reports whether the unit's state is fixed now.
func (u *Unit) reads() bool { return u.base != nil || u.over != nil }

// Fix fixes the unit's state: that of now. REQUIRES: nothing was done with the unit yet.
// Errors: those of the disk.
func (u *Unit) Fix() error {
	if err := invariant.Require(u.batch.Empty() && len(u.locks) == 0 && u.base == nil, "storage: a new unit is fixed"); err != nil {
		return err
	}
	if err := u.batch.Close(); err != nil {
		return err
	}
	u.batch, u.indexed = u.e.db.NewIndexedBatch(), true
	u.fixed, u.counted = true, true
	u.since = u.e.recent.fix()
	base, err := u.batch.NewIter(nil)
	if err != nil {
		return mapError(err)
	}
	u.base = base
	return nil
}

// CheckConflict looks once more whether another unit has committed under a lock that the
// unit has, since its state was taken: for callers who learn of commits under released locks
// in another way. Errors: ErrConflict.
func (u *Unit) CheckConflict(class LockClass, id Ident, key []byte) error {
	if u.reads() && u.e.recent.since(makeLockID(class, id, key), u.since) {
		return ErrConflict
	}
	return nil
}

// Loosen drops the writes of a fixed unit and its state, and keeps its locks: from now on
// it is a unit like others.
func (u *Unit) Loosen() error {
	if err := invariant.Require(u.fixed, "storage: only a fixed unit is loosened"); err != nil {
		return err
	}
	err := errors.Join(u.letBaseGo(), u.batch.Close())
	u.unfix()
	u.batch, u.indexed, u.sets = u.e.db.NewBatch(), false, false
	clear(u.counters)
	u.counters = u.counters[:0]
	return err
}

// unfix says that no conflicts are looked for any more: commits need not be remembered for
// the unit.
func (u *Unit) unfix() {
	if u.counted {
		u.counted = false
		u.e.recent.unfix()
	}
}

// Restart drops the writes of a unit that was loosened, and keeps its locks.
func (u *Unit) Restart() error {
	err := u.batch.Close()
	u.batch, u.indexed, u.sets, u.sealed = u.e.db.NewBatch(), false, false, false
	clear(u.counters)
	u.counters, u.next = u.counters[:0], [identRanges]Ident{}
	return err
}

// Under has the unit, which is new, write under the locks of another one as well. That one
// keeps them, whatever becomes of the unit: it ends after the unit.
func (u *Unit) Under(holder *Unit) { u.holder = holder }

// letBaseGo releases the state.
func (u *Unit) letBaseGo() error {
	if o := u.over; o != nil {
		u.over = nil
		return o.below.Close()
	}
	if u.base == nil {
		return nil
	}
	base := u.base
	u.base = nil
	return mapError(errors.Join(u.point.release(), base.Close()))
}

// fixedReader reads the fixed state with the unit's writes so far.
type fixedReader struct{ u *Unit }

// NewIter implements iterOpener.
func (r fixedReader) NewIter(o *pebble.IterOptions) (*pebble.Iterator, error) {
	return r.u.base.Clone(pebble.CloneOptions{IterOptions: o, RefreshBatchView: true})
}

// Get implements getter.
func (r fixedReader) Get(key []byte) ([]byte, io.Closer, error) {
	p := &r.u.point
	if p.busy { // a value is in use
		p = new(pointReader)
	}
	return p.get(r, key)
}

// pointReader reads one key after the other with one iterator: a clone costs more than the
// reading. It is the closer of the value that it has found.
type pointReader struct {
	it *pebble.Iterator
	// keys are the bounds of this time and of the last one, with which they are compared.
	keys [2][]byte
	busy bool
}

// get finds a key.
func (p *pointReader) get(r fixedReader, key []byte) ([]byte, io.Closer, error) {
	p.keys[0], p.keys[1] = p.keys[1], p.keys[0]
	p.keys[0] = append(append(p.keys[0][:0], key...), 0)
	o := pebble.IterOptions{LowerBound: p.keys[0][:len(key)], UpperBound: p.keys[0]}
	if p.it != nil {
		p.it.SetOptions(&o) // and what the unit has written since is seen
	} else {
		it, err := r.NewIter(&o)
		if err != nil {
			return nil, nil, err
		}
		p.it = it
	}
	if !p.it.First() {
		if err := p.it.Error(); err != nil {
			return nil, nil, errors.Join(err, p.release())
		}
		if err := p.done(r); err != nil {
			return nil, nil, err
		}
		return nil, nil, pebble.ErrNotFound
	}
	v, err := p.it.ValueAndErr()
	if err != nil {
		return nil, nil, errors.Join(err, p.release())
	}
	p.busy = true
	if p == &r.u.point {
		return v, p, nil
	}
	return v, p.it, nil
}

// done ends the use of a reader that is not the unit's own.
func (p *pointReader) done(r fixedReader) error {
	if p == &r.u.point {
		return nil
	}
	return p.release()
}

// Close ends the use of the value.
func (p *pointReader) Close() error {
	p.busy = false
	return nil
}

// release closes the iterator.
func (p *pointReader) release() error {
	if p.it == nil {
		return nil
	}
	it := p.it
	*p = pointReader{}
	return it.Close()
}

// State is one state of the store that several readers share, each with a reference of
// its own: a Snapshot, or what a fixed unit reads.
type State interface {
	Reader
	// Applied is the index of the last entry of the log that the state has.
	Applied() (uint64, error)
	// Share returns another reference.
	Share() State
	// Close gives the reference back.
	Close() error
}

// View returns what a fixed unit reads, with the writes that it has made when an iterator
// is opened. It ends with the unit; its references cost nothing.
func (u *Unit) View() State { return unitView{u} }

type unitView struct{ u *Unit }

func (v unitView) Get(id Ident, key []byte) ([]byte, io.Closer, error) { return v.u.Get(id, key) }
func (v unitView) NewIter(id Ident, lower, upper []byte) (*Iter, error) {
	return v.u.NewIter(id, lower, upper)
}
func (v unitView) Applied() (uint64, error) {
	if o := v.u.over; o != nil {
		return o.below.Applied()
	}
	return metaNumber(fixedReader(v), keyApplied)
}
func (v unitView) Share() State { return v }
func (v unitView) Close() error { return nil }
