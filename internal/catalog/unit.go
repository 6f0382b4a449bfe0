package catalog

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Unit groups writes that commit together. One goroutine uses it and ends it
// with Commit or Abort.
//
// A method that returns storage.ErrLockBusy has done nothing: commit the unit
// and repeat the call on a new one, where it waits instead. Any other error of
// Insert, Update and Delete leaves the unit without a trace of that document,
// and usable. Error 26 says that the collection was dropped or renamed since
// its descriptor was looked up: look it up again.
//
// A caller that has an open unit with writes or locks must not run DDL other
// than Create: it could wait for that unit to end.
type Unit struct {
	c     *Catalog
	u     *storage.Unit // the effect's
	room  storage.Unit  // memory of u
	e     *Effect
	gates []*live  // held for reading
	gate  [1]*live // backing of gates for the common case
	docs  int
	// stored is the number of the write that has the current document.
	stored int
	gone   int64 // index entries deleted so far
	added  int64 // and inserted
	// second is the time of the writes, 0 until it is needed.
	second     int64
	onEnd      []func()
	stagesIn   *live // whose staging gate is held for reading
	deltas     []windowDelta
	reassigned struct{ from, to RecordKey } // the record key that the last LockRecord has followed
	// Memory is where the memory for the unit's writes and the keys of the current
	// document is booked, where there are many. The creator of the unit sets it, and
	// releases it.
	Memory  memory.Holding
	keyRoom int // bytes, for the keys of the current document
	// deltaOf finds one of many deltas; nil if there are few.
	deltaOf map[windowRef]int
	left    []leftDocs
	// OnPending says that the unit is evaluated on pending versions of documents,
	// which may never commit; see Settle.
	OnPending bool
	// Guard is what the unit's statement knows of who owns what; nil for the server's own
	// writes. Moving says that the unit is of an operation of the cluster, which writes
	// hidden or blocked ranges, or puts measurements into buckets. The creator of the unit sets them.
	Guard  *Guard
	Moving bool
	// Expires is the rule by which the documents that the unit deletes have expired; nil
	// for others. The creator of the unit sets it.
	Expires *Rule
	reads   []pendingRead
	txn     *Transaction // whose draft it is, or nil
	forms   *Transaction // whose writes it has: it sees what that has created; nil for none
	// redoes is the transaction that it prepares, or commits after that: documents are written
	// as they were then; nil for others. within is the unit that has the gates of a prepared
	// transaction, which this one commits. locksFreed says that keys of unique indexes which it
	// frees are locked, too.
	redoes     *Transaction
	within     *Unit
	locksFreed bool
	// closed is the collection whose gate the unit's creator has closed, to its end; nil for none. The
	// unit waits at no other gate.
	closed *live
	*scratch
}

// scratch is memory that units reuse.
type scratch struct {
	keys   [][]schema.Key // by index: keys of the document, or of the old one
	fresh  [][]schema.Key // by index: keys of the new document in an update
	plan   []entryWrite
	locks  []storage.LockKey
	record RecordKey
	from   RecordKey // where the document of record is, when an update moves it away; else empty
	entry  []byte
	value  []byte
	id     []byte
	key    []byte // of a version
	gap    gap
}

const (
	// manyKeys is the size of a document, in bytes, from which on the keys that it has
	// are counted while they are made.
	manyKeys = 4 << 10
	// keyCopies is how many copies of a key are in memory: itself, in the plan, and in
	// the batch, which may just have grown.
	keyCopies = 4
	// maxKeptKeys bounds the memory for keys that other units reuse, in bytes.
	maxKeptKeys = 1 << 20
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// Begin starts a unit.
func (c *Catalog) Begin() *Unit {
	u := new(Unit)
	u.Begin(c)
	return u
}

// Begin makes u, which is new or has ended, a unit of c that starts now.
func (u *Unit) Begin(c *Catalog) {
	*u = Unit{c: c, scratch: scratches.Get().(*scratch)}
	u.gap.in = 0
	u.room.Begin(c.engine)
	u.u = &u.room
	u.gates = u.gate[:0]
	u.e = effects.Get().(*Effect)
	u.e.c, u.e.u, u.e.at = c, u.u, c.evaluate()
}

// Reader reads the latest committed state with the unit's writes on top.
func (u *Unit) Reader() storage.Reader { return u.u }

// Storage returns the unit of the engine below, for writes to other keyspaces
// that commit together with the documents.
func (u *Unit) Storage() *storage.Unit {
	u.e.keeps = true
	return u.u
}

// Size returns the bytes written so far, by which a caller bounds its units.
func (u *Unit) Size() int { return u.u.Size() }

// Count returns the number of documents written so far.
func (u *Unit) Count() int { return u.docs }

// KeysDeleted returns the number of index entries deleted so far.
func (u *Unit) KeysDeleted() int64 { return u.gone }

// KeysInserted returns the number of index entries inserted so far.
func (u *Unit) KeysInserted() int64 { return u.added }

// enter makes the unit a writer of the collection, and returns its newest
// descriptor, which stays the newest until the unit ends. A unit that holds a lock or a
// gate, or is within one that does, does not wait: the DDL that has closed the gate may be
// waiting for it. Errors: 26, the cause of ctx's end while it waited for DDL, and those of
// admit.
func (u *Unit) enter(ctx context.Context, c *Collection) (*Collection, error) {
	first := !u.inside(c.live) && (u.within == nil || !u.within.inside(c.live))
	if first {
		if u.txn != nil {
			u.leaveGates() // it waits for a gate with its locks: no other gate may be held
		}
		if len(u.gates) == 0 {
			u.e.own = c.own()
			u.e.ops.on = u.c.operations && !u.e.own
		} else if u.e.own != c.own() {
			return nil, storage.ErrLockBusy // a unit is either for this member alone or replicated
		}
		if u.txn != nil {
			if err := u.txn.enterGate(ctx, c); err != nil {
				return nil, err
			}
		} else if len(u.gates) == 0 && u.within == nil && u.closed == nil && !u.u.HoldsLocks() {
			if err := c.live.gate.RLock(ctx); err != nil {
				return nil, err
			}
		} else if !c.live.gate.TryRLock() {
			return nil, storage.ErrLockBusy
		}
		u.gates = append(u.gates, c.live)
	}
	now := c.Latest()
	formed := false
	if u.forms != nil {
		if f := u.forms.formedOf(c.live); f != nil {
			now, formed = f.see(), true
		}
	}
	switch {
	case !first:
	case formed: // nobody else sees it, and it belongs to the primary shard
		if u.Guard != nil && now != nil {
			if err := u.Guard.Admit(now); err != nil {
				u.leave(c)
				return nil, err
			}
		}
	case u.Guard != nil || now != nil && now.sharding != nil:
		var err error
		if now, err = u.admit(ctx, c); err != nil {
			return nil, err
		}
	}
	if now != nil && now.IsTimeseries() {
		if now = now.Buckets(); c.IsTimeseries() {
			c = c.Buckets()
		}
	}
	if now == nil || now.Namespace != c.Namespace {
		return nil, mongoerr.New(mongoerr.NamespaceNotFound, "collection %s was dropped or renamed", c.Namespace)
	}
	if now.Ident == 0 {
		return nil, mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", c.Namespace)
	}
	return now, nil
}

// Enter makes the unit a writer of the collection: it waits for DDL here, and not at its
// first write. Errors as those of Insert.
func (u *Unit) Enter(ctx context.Context, c *Collection) error {
	_, err := u.enter(ctx, c)
	return err
}

func (u *Unit) inside(l *live) bool {
	for _, g := range u.gates {
		if g == l {
			return true
		}
	}
	return false
}

// LockRecord locks a record to the unit's end and returns its newest document,
// or nil if there is none. The document is the caller's copy.
func (u *Unit) LockRecord(ctx context.Context, c *Collection, key RecordKey) (bson.Doc, error) {
	c, err := u.enter(ctx, c)
	if err != nil {
		return nil, err
	}
	fresh, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, c.lockName(key))
	if err != nil {
		return nil, err
	}
	u.reassigned.from = nil // a previous LockRecord may have followed another document
	if v, ok, err := u.version(ctx, c, c.lockName(key)); err != nil {
		return nil, err
	} else if ok {
		if string(v.Record) != string(key) {
			u.reassigned.from, u.reassigned.to = bytes.Clone(key), v.Record
		}
		return bson.Doc(v.Doc).Clone(), nil
	}
	doc, closer, err := c.find(u.reader(fresh), key)
	if err == nil && doc == nil && (c.entersIDs() || c.Relaid()) {
		return u.follow(c, key, fresh)
	}
	if err != nil || doc == nil {
		return nil, err
	}
	defer closer.Close()
	return doc.Clone(), nil
}

// LockID is LockRecord for the document with an _id; it returns its record key
// as well. It has the requirements of LockInto.
func (u *Unit) LockID(ctx context.Context, c *Collection, id bson.Value) (RecordKey, bson.Doc, error) {
	var l Locked
	if err := u.LockInto(ctx, &l, c, id); err != nil || l.Doc == nil {
		return nil, nil, err
	}
	return l.Record, l.Doc, nil
}

// Locked is a document that LockInto has locked. Its memory is reused for the
// next one.
type Locked struct {
	Record RecordKey
	Doc    bson.Doc // nil if there is none

	memory []byte // of Doc
}

// Size returns how much memory l has, in bytes.
func (l *Locked) Size() int { return cap(l.memory) + cap(l.Record) }

// LockInto is LockID into the memory of l, for callers that lock many documents in
// turn.
// REQUIRES: Collection.FindsByID.
func (u *Unit) LockInto(ctx context.Context, l *Locked, c *Collection, id bson.Value) error {
	l.Doc = nil
	if err := invariant.Require(c.FindsByID(), "catalog: LockInto is of a collection that FindsByID"); err != nil {
		return err
	}
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	u.id = c.appendID(u.id[:0], id)
	fresh, err := u.u.Lock(ctx, storage.LockRecord, c.Ident, u.id)
	if err != nil {
		return err
	}
	if v, ok, err := u.version(ctx, c, u.id); err != nil {
		return err
	} else if ok {
		l.Record = append(l.Record[:0], v.Record...)
		l.memory = append(l.memory[:0], v.Doc...)
		l.Doc = l.memory
		return nil
	}
	record, doc, closer, err := c.FindID(l.Record[:0], u.reader(fresh), id)
	l.Record = record
	if err != nil || doc == nil {
		return err
	}
	l.memory = append(l.memory[:0], doc...)
	l.Doc = l.memory
	return closer.Close()
}

// reader returns where to read what a lock guards: the engine as long as the
// unit cannot have written there, as that is cheaper.
func (u *Unit) reader(fresh bool) storage.Reader {
	if fresh && u.txn == nil {
		return u.c.engine
	}
	return u.u
}

// Commit makes the writes visible at once; see storage.Unit.Commit.
func (u *Unit) Commit(ctx context.Context, d storage.Durability) error {
	if err := u.writeWindows(); err != nil {
		u.Abort()
		return err
	}
	if u.OnPending && u.e.Empty() {
		u.u.ReleaseRecords() // they guard nothing
		if err := u.Settle(ctx); err != nil {
			u.Abort()
			return err
		}
	}
	err := u.c.commit(ctx, u.e, d)
	u.tellLeft(err)
	if err == nil && u.e.evicted > 0 {
		u.c.evicted.Add(u.e.evicted)
	}
	u.end()
	return err
}

// Abort drops the writes. On an ended unit it does nothing.
func (u *Unit) Abort() {
	u.u.Abort()
	u.end()
}

func (u *Unit) end() {
	for _, l := range u.gates {
		l.gate.RUnlock()
	}
	u.gates, u.deltas, u.deltaOf, u.left, u.reads = nil, nil, nil, nil, nil
	if u.e != nil {
		u.e.release()
		u.e = nil
	}
	if u.scratch != nil {
		if u.keyRoom <= maxKeptKeys {
			scratches.Put(u.scratch)
		}
		u.scratch = nil
	}
	if u.stagesIn != nil {
		u.stagesIn.staging.RUnlock()
		u.stagesIn = nil
	}
	for _, f := range u.onEnd {
		f()
	}
	u.onEnd = nil
}

// Run runs f in a new unit and commits it. Where f met a lock that it could not wait
// for, it runs f again in another one, behind a pause: who has the lock may wait for other members
// of the set. f must not end the unit. A panic of f ends the unit, too: nobody waits for its locks.
func (c *Catalog) Run(ctx context.Context, d storage.Durability, f func(*Unit) error) error {
	for pause := 20 * time.Microsecond; ; pause = min(2*pause, maxBusyPause) {
		busy, err := c.runOnce(ctx, d, f)
		if !busy {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := storage.WaitBusy(ctx, err); err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// runOnce is one turn of Run; busy says that f met a lock that it could not wait for.
func (c *Catalog) runOnce(ctx context.Context, d storage.Durability, f func(*Unit) error) (busy bool, err error) {
	u := c.Begin()
	commits := false
	defer func() {
		if !commits {
			u.Abort()
		}
	}()
	if err := f(u); err != nil {
		return errors.Is(err, storage.ErrLockBusy), err
	}
	commits = true
	return false, u.Commit(ctx, d)
}

// maxBusyPause bounds the pause before a unit is tried again that has met another's lock.
const maxBusyPause = 2 * time.Millisecond
