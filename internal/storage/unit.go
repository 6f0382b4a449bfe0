package storage

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflydb/mayfly/internal/invariant"
)

// Durability is what Commit waits for.
type Durability uint8

const (
	// Buffered returns when the operating system has the unit: it survives the
	// death of the process at once, that of the machine after the commit interval.
	Buffered Durability = iota
	// Journaled returns when the disk has the unit.
	Journaled
)

// Unit is one atomic batch of writes, with the locks that guard them. One
// goroutine uses it, and ends it with Commit or Abort; after that it is dead.
//
// Reads through a unit see its own writes. Locks are held to the end, so what
// was read under a lock stays true until the commit is visible to all; but for
// ReleaseRecords.
//
// Rule (invariant lock-order): Lock waits only for a lock above all that the
// unit holds, else it returns ErrLockBusy when the lock is another's; the
// caller then commits what it has and continues with a new unit. On a unit
// without locks, taking a document's locks in the order of their classes, and
// those of one class with LockAll, never returns ErrLockBusy.
type Unit struct {
	e       *Engine
	batch   *pebble.Batch
	decoded []byte // a batch that comes before batch, of the memory of who called Decode; nil for none
	indexed bool   // batch can be read
	sets    bool   // some write adds data
	sealed  bool
	fixed   bool // it is, or was before Loosen, a transaction's; see Fix
	counted bool // among those for which commits are remembered
	maxLock lockID
	next    [identRanges]Ident // of the ranges from which the unit has taken idents
	foreign bool               // it was decoded: its locks are those of another member
	place   uint64             // in the log of a replicated group; 0 for none
	base    *pebble.Iterator   // over the fixed state; nil for none
	over    *layer             // the batch over an earlier state, of a unit that is fixed there; nil for none
	since   uint64             // the last commit that the fixed state has
	point   pointReader        // of a fixed unit
	holder  *Unit              // under whose locks the unit writes, too; nil for none
	*unitMemory
}

// unitMemory is memory that units reuse.
type unitMemory struct {
	locks    []lockID
	released []lockID // by ReleaseRecords, before the commit
	counters []counterDelta
	key      []byte   // scratch
	sorted   []lockID // scratch
	ordering ordering
}

// maxKeptLocks, maxKeptBatch and maxKeptOrdering bound what a unit keeps for the next
// one: a number, and bytes. A unit of a relayout fits.
const (
	maxKeptLocks    = 1 << 16
	maxKeptBatch    = 4 << 20
	maxKeptOrdering = maxKeptBatch
)

var unitMemories = sync.Pool{New: func() any { return new(unitMemory) }}

// Begin starts a unit.
func (e *Engine) Begin() *Unit {
	u := new(Unit)
	u.Begin(e)
	return u
}

// Begin makes u, which is new or dead, a unit of e that starts now.
func (u *Unit) Begin(e *Engine) {
	*u = Unit{e: e, batch: e.db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxKeptBatch)), unitMemory: unitMemories.Get().(*unitMemory)}
}

// Empty reports whether the unit has no writes.
func (u *Unit) Empty() bool {
	return u.batch.Empty() && len(u.counters) == 0 && len(u.decoded) <= batchHeader
}

// Size is the length of the unit's writes in bytes.
func (u *Unit) Size() int { return u.batch.Len() + max(0, len(u.decoded)-batchHeader) }

// Count is the number of the writes of a unit that was not decoded.
func (u *Unit) Count() int { return int(u.batch.Count()) }

// HoldsLocks reports whether the unit holds any lock.
func (u *Unit) HoldsLocks() bool { return len(u.locks) > 0 }

// Set stores value under key. Both are copied.
func (u *Unit) Set(id Ident, key, value []byte) error {
	u.sets = true
	if u.indexed {
		u.key = appendKey(u.key[:0], id, key)
		if u.over != nil {
			return u.over.set(u.key, value)
		}
		return u.batch.Set(u.key, value, nil)
	}
	n := identLen(id)
	op := u.batch.SetDeferred(n+len(key), len(value))
	AppendIdent(op.Key[:0], id)
	copy(op.Key[n:], key)
	copy(op.Value, value)
	return op.Finish()
}

// SetFilled stores a value of so many bytes under key, which fill writes into
// memory of that length.
func (u *Unit) SetFilled(id Ident, key []byte, size int, fill func(value []byte)) error {
	if u.indexed {
		value := make([]byte, size)
		fill(value)
		return u.Set(id, key, value)
	}
	u.sets = true
	n := identLen(id)
	op := u.batch.SetDeferred(n+len(key), size)
	AppendIdent(op.Key[:0], id)
	copy(op.Key[n:], key)
	fill(op.Value)
	return op.Finish()
}

// Frees says that the unit frees more space than it takes, so it is committed on a full
// disk, too.
func (u *Unit) Frees() { u.sets = false }

// Delete removes key; oldLen is the length of the value it has (it steers
// compactions, nothing else), or -1 if that is not known.
func (u *Unit) Delete(id Ident, key []byte, oldLen int) error {
	u.key = appendKey(u.key[:0], id, key)
	if u.over != nil {
		return u.over.remove(u.key)
	}
	if oldLen < 0 {
		return u.batch.Delete(u.key, nil)
	}
	return u.batch.DeleteSized(u.key, uint32(oldLen), nil)
}

// DeleteRange removes the keys k with lower <= k < upper, with one tombstone;
// nil bounds stand for the keyspace's ends.
func (u *Unit) DeleteRange(id Ident, lower, upper []byte) error {
	if u.over != nil {
		return u.over.removeRange(id, lower, upper)
	}
	b, n := rangeBounds(u.key[:0], id, lower, upper)
	u.key = b
	return u.batch.DeleteRange(b[:n], b[n:], nil)
}

// OrBits merges bits into the value of key: the stored value is the bitwise or of
// everything merged so far (see Bits). Needs no lock.
func (u *Unit) OrBits(id Ident, key, bits []byte) error {
	u.key = appendKey(u.key[:0], id, key)
	return u.merge(u.key, append([]byte{mergeOr}, bits...))
}

// merge merges an operand into the value of a key of the store.
func (u *Unit) merge(key, operand []byte) error {
	if u.over != nil {
		return u.over.merge(key, operand)
	}
	return u.batch.Merge(key, operand, nil)
}

// Add adds to one of the sums of a counter, when the unit commits.
func (u *Unit) Add(c *Counter, i int, delta int64) {
	for k := range u.counters {
		if u.counters[k].c == c {
			u.counters[k].d[i] += delta
			return
		}
	}
	d := counterDelta{c: c, id: c.id}
	d.d[i] = delta
	u.counters = append(u.counters, d)
}

// Pending is what Add has added so far to a sum of c within this unit.
func (u *Unit) Pending(c *Counter, i int) int64 {
	for k := range u.counters {
		if u.counters[k].c == c {
			return u.counters[k].d[i]
		}
	}
	return 0
}

// Lock takes the lock of a key, and waits in order for it where the rule
// allows. fresh says that the unit did not hold it before: then the unit has no
// writes under that key, and the engine's latest state has the current value.
// Errors: ErrLockBusy, ErrConflict for a fixed unit, or the cause of ctx's end.
func (u *Unit) Lock(ctx context.Context, class LockClass, id Ident, key []byte) (fresh bool, err error) {
	return u.lock(ctx, makeLockID(class, id, key))
}

func (u *Unit) lock(ctx context.Context, l lockID) (fresh bool, err error) {
	switch u.e.locks.try(u, l) {
	case lockOwned:
		return false, nil
	case lockFixed:
		if u.fixed {
			return false, ErrConflict
		}
		return false, &Held{u.e, l}
	case lockHeld:
		if u.fixed {
			return false, ErrConflict
		}
		if l < u.maxLock {
			return false, ErrLockBusy
		}
		if err := u.e.locks.wait(ctx, u, l); err != nil {
			return false, err
		}
	}
	u.keep(l)
	if u.reads() && u.e.recent.since(l, u.since) {
		return false, ErrConflict
	}
	return true, nil
}

// LockKey names a lock for LockAll.
type LockKey struct {
	Class LockClass
	ID    Ident
	Key   []byte
}

// LockAll takes several locks in their order; fresh says that the unit held
// none of them before. Errors as for Lock.
func (u *Unit) LockAll(ctx context.Context, keys []LockKey) (fresh bool, err error) {
	ids := u.sorted[:0]
	for _, k := range keys {
		ids = append(ids, makeLockID(k.Class, k.ID, k.Key))
	}
	u.sorted = ids
	slices.Sort(ids)
	fresh = true
	for i, l := range ids {
		if i > 0 && l == ids[i-1] {
			continue
		}
		f, err := u.lock(ctx, l)
		if err != nil {
			return false, err
		}
		fresh = fresh && f
	}
	return fresh, nil
}

// TryLock takes the lock of a key if it is free; ok says that the unit holds
// it now, fresh that it did not before.
func (u *Unit) TryLock(class LockClass, id Ident, key []byte) (ok, fresh bool) {
	l := makeLockID(class, id, key)
	switch u.e.locks.try(u, l) {
	case lockOwned:
		return true, false
	case lockHeld, lockFixed:
		return false, false
	}
	u.keep(l)
	return true, true
}

// ReleaseRecords releases the locks of records, those of LockRecord, before the unit's
// end, for callers that from now on guard the records in another way. The other locks
// stay.
func (u *Unit) ReleaseRecords() {
	kept := u.locks[:0]
	for _, l := range u.locks {
		if l.class() == LockRecord {
			u.e.locks.release(l)
			u.released = append(u.released, l)
		} else {
			kept = append(kept, l)
		}
	}
	u.locks = kept
}

func (u *Unit) keep(l lockID) {
	u.locks = append(u.locks, l)
	u.maxLock = max(u.maxLock, l)
}

// reader returns the unit's view: the engine where it has no writes, else the
// batch on top of it, which is made readable when first needed.
func (u *Unit) reader() (interface {
	getter
	iterOpener
}, error) {
	if u.base != nil {
		return fixedReader{u}, nil
	}
	if err := invariant.Require(u.over == nil, "storage: a unit over an earlier state is read through its layer"); err != nil {
		return nil, err
	}
	if err := u.join(); err != nil {
		return nil, err
	}
	if u.batch.Empty() {
		return u.e.db, nil
	}
	if !u.indexed {
		b := u.e.db.NewIndexedBatchWithSize(u.batch.Len())
		if err := b.Apply(u.batch, nil); err != nil {
			return nil, err
		}
		if err := u.batch.Close(); err != nil {
			return nil, err
		}
		u.batch, u.indexed = b, true
	}
	return u.batch, nil
}

// Get is Reader's Get: the latest state and the unit's own writes.
func (u *Unit) Get(id Ident, key []byte) ([]byte, io.Closer, error) {
	if u.over != nil {
		return u.over.get(id, key)
	}
	r, err := u.reader()
	if err != nil {
		return nil, nil, err
	}
	return get(r, id, key)
}

// NewIter is Reader's NewIter: the latest state and the unit's writes so far.
// It must be closed before the unit ends.
func (u *Unit) NewIter(id Ident, lower, upper []byte) (*Iter, error) {
	if u.over != nil {
		return u.over.newIter(id, lower, upper)
	}
	r, err := u.reader()
	if err != nil {
		return nil, err
	}
	return newIter(r, id, lower, upper)
}

// Commit makes the unit visible, whole, and returns when it is as durable as d
// asks: Seal, Apply and Wait. Errors: 14031 if the disk is full (nothing was
// written), or the cause of ctx's end while it waits for the disk (the unit is
// committed then, and durable within the interval). The unit is dead afterwards
// in any case. The batch is one record of the log, which keeps the order of the
// commits (invariant prefix).
func (u *Unit) Commit(ctx context.Context, d Durability) error {
	defer u.Abort()
	if err := u.Seal(); err != nil {
		return err
	}
	if err := u.Apply(0); err != nil {
		return err
	}
	e := u.e
	u.Abort()
	return e.Wait(ctx, d)
}

// Wait returns when what has been applied is as durable as d asks. Errors: the
// cause of ctx's end.
func (e *Engine) Wait(ctx context.Context, d Durability) error {
	if d == Journaled {
		return e.journal.wait(ctx)
	}
	return nil
}

// Seal ends the writes of a unit: counters and the allocators of idents become a
// part of its batch, which gets its final order. The disk's room is asked for
// here, so nothing refuses later. Errors: 14031 if the disk is full.
func (u *Unit) Seal() error {
	if u.sealed {
		return nil
	}
	if err := u.mergeCounters(); err != nil {
		return err
	}
	if err := u.setIdents(); err != nil {
		return err
	}
	if !u.batch.Empty() {
		if err := u.e.space.admit(u.batch.Len(), !u.sets); err != nil {
			return err
		}
		if err := order(u.batch, &u.ordering); err != nil {
			return mapError(err)
		}
	}
	u.sealed = true
	return nil
}

// Apply makes the writes visible, with what they change in memory: sums and
// idents. at is the unit's place in the log of a replicated group, which becomes
// the engine's Applied in the same step; 0 if there is no log. The locks stay.
// What has a place is on the disk already, in that log: the operating system need not
// have it when Apply returns, and what waits for the journal next takes it along.
// REQUIRES: the unit is sealed. One that was decoded is bound, too.
func (u *Unit) Apply(at uint64) error {
	if err := u.requireSealed(); err != nil {
		return err
	}
	if err := u.join(); err != nil {
		return err
	}
	u.place = at
	if err := u.e.write(u.batch, at); err != nil {
		return err
	}
	u.visible()
	return nil
}

// Place says where in the log of a replicated group the unit is, for ApplyAll.
func (u *Unit) Place(at uint64) { u.place = at }

// ApplyAll is Apply for units of the engine, or none, that come one behind the other in
// the log: their writes become visible in one step, in that order, and at is the place of
// the last. REQUIRES: as for Apply, and each has its Place.
func (e *Engine) ApplyAll(units []*Unit, at uint64) error {
	if len(units) == 1 {
		return units[0].Apply(at)
	}
	for _, u := range units {
		if err := u.requireSealed(); err != nil {
			return err
		}
	}
	size := batchHeader + appliedRoom
	for _, u := range units {
		size += u.Size()
	}
	joined := &Unit{e: e, batch: e.db.NewBatchWithSize(size, pebble.WithMaxRetainedSizeBytes(maxKeptBatch)), unitMemory: unitMemories.Get().(*unitMemory)}
	defer joined.Abort()
	foreign := new(pebble.Batch) // never closed: what it has belongs to others
	for _, u := range units {
		if u.decoded != nil {
			if err := errors.Join(foreign.SetRepr(u.decoded), joined.batch.Apply(foreign, nil)); err != nil {
				return mapError(err)
			}
		}
		if err := joined.batch.Apply(u.batch, nil); err != nil {
			return mapError(err)
		}
	}
	if err := order(joined.batch, &joined.ordering); err != nil {
		return mapError(err)
	}
	if err := e.write(joined.batch, at); err != nil {
		return err
	}
	for _, u := range units {
		u.visible()
	}
	return nil
}

// appliedRoom is how much longer the write of Applied makes a batch, at the most.
const appliedRoom = 32

// join makes what was decoded a part of the unit's batch, for which it is copied.
func (u *Unit) join() error {
	if u.decoded == nil {
		return nil
	}
	b := u.e.db.NewBatch(pebble.WithMaxRetainedSizeBytes(maxKeptBatch))
	repr := append(make([]byte, 0, u.Size()+batchHeader+appliedRoom), u.decoded...)
	err := errors.Join(b.SetRepr(repr), b.Apply(u.batch, nil), u.batch.Close())
	u.batch, u.decoded = b, nil
	return mapError(err)
}

func (u *Unit) requireSealed() error {
	return invariant.Require(u.sealed, "storage: a unit is sealed before it is applied")
}

// write makes a batch visible, and at the engine's Applied if it is not 0.
func (e *Engine) write(b *pebble.Batch, at uint64) error {
	written := pebble.Sync
	if at > 0 {
		written = pebble.NoSync
		if err := b.Set(keyApplied, binary.BigEndian.AppendUint64(nil, at), nil); err != nil {
			return err
		}
	}
	if !b.Empty() {
		size := b.Len()
		err := e.db.Apply(b, written)
		e.views.commits.Add(1)
		e.idleCompactor.wrote(size)
		if err != nil {
			return mapError(err)
		}
	}
	if at > 0 {
		e.applied.Store(at)
	}
	return nil
}

// visible makes the unit's changes in memory, once its writes are visible.
func (u *Unit) visible() {
	for _, c := range u.counters {
		c.c.add(c.d)
	}
	u.e.idents.take(u.next)
	if h := u.holder; h != nil {
		u.e.recent.note(u.place, !u.foreign, u.locks, u.released, h.locks)
		return
	}
	u.e.recent.note(u.place, !u.foreign, u.locks, u.released)
}

// Abort drops the writes and releases the locks. On a dead unit it does
// nothing, so that it can be deferred.
func (u *Unit) Abort() { u.end() }

func (u *Unit) end() {
	if u.unitMemory == nil {
		return
	}
	for _, l := range u.locks {
		u.e.locks.release(l)
	}
	_ = u.letBaseGo() // an iterator without an error closes without one
	u.batch.Close()
	u.unfix()
	m := u.unitMemory
	clear(m.counters)
	m.locks, m.counters, m.released = m.locks[:0], m.counters[:0], m.released[:0]
	*u = Unit{e: u.e}
	if cap(m.ordering.sorted) > maxKeptOrdering {
		m.ordering = ordering{}
	}
	if cap(m.locks) <= maxKeptLocks {
		unitMemories.Put(m)
	}
}
