package storage

import (
	"context"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/mayflydb/mayfly/internal/waits"
)

// LockClass ranks locks: a unit that holds a lock of a higher class never
// waits for one of a lower class (invariant lock-order).
type LockClass uint8

// The classes, lowest first. A writer takes a document's locks in this order.
const (
	LockKeyspace LockClass = iota // a whole keyspace: inserts into a capped collection
	LockRecord                    // one record, by its record key
	LockUnique                    // one key of a unique index
)

// lockShards is the number of independent parts of the lock table.
const lockShards = 256

// lockID is a lock: class in the two highest bits, then a hash of ident and
// key. Two keys with the same hash share a lock, which only costs a wait.
type lockID uint64

func makeLockID(class LockClass, id Ident, key []byte) lockID {
	h := xxhash.Sum64(key) ^ (uint64(id)+1)*0x9e3779b97f4a7c15
	return lockID(uint64(class)<<62 | h>>2)
}

func (l lockID) class() LockClass { return LockClass(l >> 62) }

// lockTable holds the locks of all units of an engine.
type lockTable struct {
	shards [lockShards]lockShard
}

type lockShard struct {
	mu   sync.Mutex
	held map[lockID]*heldLock
	free *heldLock // spare entries, linked by next
	_    [24]byte  // keeps neighbours' mutexes off one cache line
}

// heldLock is a lock that some unit owns, with the queue for it.
type heldLock struct {
	owner *Unit
	first *lockWaiter // FIFO
	last  *lockWaiter
	next  *heldLock
}

type lockWaiter struct {
	unit    *Unit
	granted chan struct{}
	next    *lockWaiter
}

func newLockTable() *lockTable {
	t := &lockTable{}
	for i := range t.shards {
		t.shards[i].held = make(map[lockID]*heldLock)
	}
	return t
}

func (t *lockTable) shard(id lockID) *lockShard { return &t.shards[id%lockShards] }

// lockResult is the outcome of an attempt.
type lockResult uint8

const (
	lockTaken lockResult = iota // newly taken
	lockOwned                   // the unit had it already, or its holder has it
	lockHeld                    // another unit has it
	lockFixed                   // a fixed unit has it
)

// try takes the lock if it is free. Never barges: a lock with a queue has an
// owner until the queue is empty.
func (t *lockTable) try(u *Unit, id lockID) lockResult {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tryLocked(u, id)
}

func (s *lockShard) tryLocked(u *Unit, id lockID) lockResult {
	if h := s.held[id]; h != nil {
		if h.owner == u || u.holder != nil && h.owner == u.holder {
			return lockOwned
		}
		if h.owner.fixed {
			return lockFixed
		}
		return lockHeld
	}
	h := s.free
	if h == nil {
		h = new(heldLock)
	} else {
		s.free = h.next
	}
	*h = heldLock{owner: u}
	s.held[id] = h
	return lockTaken
}

// wait queues for the lock until it is granted or ctx ends.
func (t *lockTable) wait(ctx context.Context, u *Unit, id lockID) error {
	s := t.shard(id)
	s.mu.Lock()
	if r := s.tryLocked(u, id); r != lockHeld && r != lockFixed {
		s.mu.Unlock()
		return nil
	}
	w := &lockWaiter{unit: u, granted: make(chan struct{})}
	h := s.held[id]
	if h.last == nil {
		h.first = w
	} else {
		h.last.next = w
	}
	h.last = w
	s.mu.Unlock()
	of := waits.Of(ctx)
	of.Begin(waits.Conflict)
	defer of.End(waits.Conflict)
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.granted: // granted in the meantime: pass it on
		s.releaseLocked(id)
	default:
		s.held[id].unqueue(w)
	}
	return context.Cause(ctx)
}

func (h *heldLock) unqueue(w *lockWaiter) {
	var prev *lockWaiter
	for p := h.first; p != w; p = p.next {
		prev = p
	}
	if prev == nil {
		h.first = w.next
	} else {
		prev.next = w.next
	}
	if h.last == w {
		h.last = prev
	}
}

// release gives the lock to the first in its queue, or frees it.
func (t *lockTable) release(id lockID) {
	s := t.shard(id)
	s.mu.Lock()
	s.releaseLocked(id)
	s.mu.Unlock()
}

func (s *lockShard) releaseLocked(id lockID) {
	h := s.held[id]
	w := h.first
	if w == nil {
		delete(s.held, id)
		*h = heldLock{next: s.free}
		s.free = h
		return
	}
	h.owner = w.unit
	h.first = w.next
	if h.first == nil {
		h.last = nil
	}
	close(w.granted)
}
