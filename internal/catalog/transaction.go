package catalog

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// maxTransactionBytes bounds what a transaction writes, in bytes, above what memory's budget
// does: a batch of the store has 4 GB at most, with the keys in indexes.
const maxTransactionBytes = 1 << 30

// copiesDrafted is how many copies of what a transaction writes are in memory: in its
// draft, and in the list of its writes.
const copiesDrafted = 3

// idleBytes is what a transaction that has written nothing takes: two iterators over its state,
// of some 15 kB each (measured: 33 kB).
const idleBytes = 32 << 10

// Transaction is a multi-document transaction on a primary: its statements read one state
// of the store with their own writes on top, and the writes commit together, or not at
// all. One goroutine uses it at a time, and ends it with Commit or Abort
// (docs/rfcs/0027-transactions.md).
//
// Its statements write into a draft, a unit that is never committed. Commit makes the
// writes once more, in a unit like any other, under the locks that the draft has taken.
type Transaction struct {
	c *Catalog
	// mu is held by whoever uses the transaction; ended says that it is over.
	mu    sync.Mutex
	ended bool
	// draft is the unit of the statements, whose storage unit is fixed.
	draft *Unit
	at    Evaluation
	x     *Execution
	// writes are those of the statements, in their order.
	writes  []draftWrite
	bytes   int
	account memory.Account
	held    memory.Holding
	// lockWait bounds how long a statement waits for a gate; below 0: as long as the statement
	// may run.
	lockWait time.Duration
	// past says that it reads an earlier state than that of its beginning.
	past bool
	// created are the collections that it has created.
	created []*formed
	// changes is the number of a change of the catalog that its state has, with all before it.
	changes uint64
	// also is the statement of another session that it executes; nil for none.
	also *forOther
	prepared
}

// draftWrite is a write of a transaction: an insert has no old document, a delete no new
// one.
type draftWrite struct {
	coll     *Collection
	old, doc bson.Doc
	replaces bool
	// evicts says that old has expired, and is removed since another one needs its keys.
	evicts bool
	// again is that of the statement's guard, where the collection was not sharded; nil for none.
	again func(*Collection) error
}

// BeginTransaction begins a transaction in the state of now. x is the operation of its
// session. Errors: 146 if there is no memory for one more, those of the disk.
func (c *Catalog) BeginTransaction(x *Execution) (*Transaction, error) {
	// What is published is in the store: the state that follows has all changes up to this one.
	t := &Transaction{c: c, draft: c.Begin(), x: x, at: x.at, changes: c.changes.Load()}
	t.account.Open(c.memory)
	t.held = t.account.Hold(nil)
	t.draft.txn, t.draft.forms = t, t
	t.held.Book(idleBytes)
	err := memory.ErrNone()
	if !c.memory.Short() {
		err = t.draft.u.Fix()
	}
	if err != nil {
		t.end()
		return nil, err
	}
	c.open.Lock()
	defer c.open.Unlock()
	if c.open.all == nil {
		c.open.all = map[*Transaction]bool{}
	}
	c.open.all[t] = true
	return t, nil
}

// openTransactions are the transactions that have not ended.
type openTransactions struct {
	sync.Mutex
	all map[*Transaction]bool
}

// EndTransactions aborts open transactions: all, or only those of an earlier evaluation
// than the current one. It waits for their statements.
func (c *Catalog) EndTransactions(all bool) {
	at := c.evaluate()
	c.open.Lock()
	var ends []*Transaction
	for t := range c.open.all {
		if all || t.at != at {
			ends = append(ends, t)
		}
	}
	c.open.Unlock()
	for _, t := range ends {
		t.Abort()
	}
}

// Enter is called before a transaction is used, and Leave after it. False: it has ended,
// or this member has stopped being primary since it began.
func (t *Transaction) Enter() bool {
	t.mu.Lock()
	if t.ended || !t.isPrepared && t.c.evaluate() != t.at {
		t.mu.Unlock()
		return false
	}
	return true
}

// SetLockWait sets how long the next statement waits for DDL; below 0 it waits as long as it
// may run. The transaction is in use.
func (t *Transaction) SetLockWait(d time.Duration) { t.lockWait = d }

// LockTimeout returns the error of what a transaction could not lock in time: code 24.
func LockTimeout(what string, wait time.Duration) error {
	return mongoerr.New(mongoerr.LockTimeout, "Unable to acquire %s within %dms.", what, wait.Milliseconds())
}

// enterGate enters the gate of a collection for a statement. Errors: 24, the cause of ctx's
// end.
func (t *Transaction) enterGate(ctx context.Context, c *Collection) error {
	switch {
	case c.live.gate.TryRLock():
		return nil
	case t.lockWait >= 0:
		soon, end := context.WithTimeoutCause(ctx, t.lockWait, LockTimeout("IX lock on '"+c.Namespace.String()+"'", t.lockWait))
		defer end()
		ctx = soon
	}
	return c.live.gate.RLock(ctx)
}

// Written returns how many writes the statements have made, and their size in bytes.
func (t *Transaction) Written() (operations, bytes int) { return len(t.writes), t.bytes }

// Leave ends the use of the transaction, which keeps its locks. It has left all gates.
func (t *Transaction) Leave() {
	t.mu.Unlock()
	if t.letGo.Load() {
		t.tryLetGo()
	}
}

// Abort ends the transaction without effect. It waits for who uses it.
func (t *Transaction) Abort() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.end()
	}
}

// end forgets a transaction whose unit has ended.
func (t *Transaction) end() {
	t.ended = true
	t.unpin()
	t.draft.Abort()
	t.account.Close()
	t.c.open.Lock()
	defer t.c.open.Unlock()
	delete(t.c.open.all, t)
}

// State is what the transaction reads. It ends with the transaction.
func (t *Transaction) State() storage.State { return t.draft.u.View() }

// ReadAt has the transaction, which has done nothing yet, read an earlier state of the store, of
// which the caller keeps a reference. unchanged reports whether nothing has taken effect
// between that state and an entry of the log; if anything has, what was written since is a
// conflict, as it is for other transactions. Errors: those of the disk.
func (t *Transaction) ReadAt(s storage.State, unchanged func(upTo uint64) (bool, error)) error {
	now, err := t.draft.u.View().Applied()
	if err != nil {
		return err
	}
	same, err := unchanged(now)
	if err != nil || same {
		return err
	}
	index, err := s.Applied()
	if err != nil {
		return err
	}
	t.past = true
	return t.draft.u.FixIn(s, index)
}

// Draft is the unit in which statements write. Its errors are also those of conflicts:
// 112.
func (t *Transaction) Draft() *Unit { return t.draft }

// LeaveGates ends a statement: the transaction keeps its locks.
func (t *Transaction) LeaveGates() { t.draft.leaveGates() }

// Databases are those that the transaction has written to, some more than once.
func (t *Transaction) Databases() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range t.writes {
			if !yield(t.writes[i].coll.Namespace.DB) {
				return
			}
		}
		for _, f := range t.created {
			if !yield(f.ns.DB) {
				return
			}
		}
	}
}

// AbortAndDrop is Abort that also drops what the transaction has created.
func (t *Transaction) AbortAndDrop(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.end()
	}
	t.dropCreated(ctx)
}

// wrote adds a write to the list. Errors: 146, 257.
func (t *Transaction) wrote(c *Collection, old, doc bson.Doc) error {
	if t.bytes += len(old) + len(doc); t.bytes > maxTransactionBytes {
		return mongoerr.New(mongoerr.TransactionTooLarge, "Total size of all transaction operations must be less than server's limit of %d bytes", maxTransactionBytes)
	}
	if err := t.held.Set(idleBytes + copiesDrafted*t.bytes); err != nil {
		return err
	}
	w := draftWrite{coll: c, replaces: t.draft.e.ops.replaces}
	if c.sharding == nil && t.draft.Guard != nil {
		w.again = t.draft.Guard.Again
	}
	if old != nil {
		w.old = old.Clone()
	}
	if doc != nil {
		w.doc = doc.Clone()
	}
	t.writes = append(t.writes, w)
	return nil
}

// Commit commits the transaction, which is in use, and ends it, whatever happens.
//
// Errors: 112 if what it has locked is gone (it expired, or its collection was dropped),
// 11000 by an index that was made meanwhile, and those of Execution.Commit.
func (t *Transaction) Commit(ctx context.Context, d storage.Durability) error {
	defer t.end()
	u := t.draft
	if len(t.writes) == 0 && len(t.created) == 0 {
		return nil
	}
	u.leaveGates()
	if err := u.u.Loosen(); err != nil {
		return err
	}
	return t.untilOpen(ctx, u, func() (closed *Collection, err error) {
		closed, err = t.tryCommit(ctx, u, d)
		u.leaveGates()
		return closed, err
	})
}

// untilOpen makes the writes again by try, as often as that met a closed gate, after it has
// waited for it. After an error the unit is inside no gate.
func (t *Transaction) untilOpen(ctx context.Context, u *Unit, try func() (closed *Collection, err error)) error {
	for {
		closed, err := try()
		if err == nil {
			return nil
		}
		u.leaveGates()
		if closed == nil || !errors.Is(err, storage.ErrLockBusy) {
			return err
		}
		if err := t.await(ctx, closed); err != nil {
			return err
		}
		if err := u.u.Restart(); err != nil {
			return err
		}
	}
}

// HasWritten reports whether the transaction has changed anything.
func (t *Transaction) HasWritten() bool { return len(t.writes) > 0 || len(t.created) > 0 }

// tryCommit makes the writes again, and commits them. closed is the collection whose gate was
// closed, where nothing has happened and the error is ErrLockBusy.
func (t *Transaction) tryCommit(ctx context.Context, u *Unit, d storage.Durability) (closed *Collection, err error) {
	u.redraft(t)
	if len(t.created) > 0 {
		if err := t.c.ddl.take(ctx); err != nil {
			return nil, err
		}
		defer t.c.ddl.leave()
		if err := t.reveal(u); err != nil {
			return nil, err
		}
	}
	if closed, err = t.write(ctx, u); err != nil {
		return closed, err
	}
	if err := t.noteAlso(u); err != nil {
		return nil, err
	}
	t.x.Did(retryable.Committed, 0, bson.Empty)
	if err := t.x.Commit(ctx, u, d); err != nil {
		return nil, err
	}
	t.created = nil
	return nil, nil
}

// await waits until a gate is open, and no range of the collection is being handed over. Who
// has closed it waits for no lock of a transaction.
func (t *Transaction) await(ctx context.Context, c *Collection) error {
	if err := c.live.gate.RLock(ctx); err != nil {
		return err
	}
	now := c.live.current.Load()
	next := now.live.arrivals.Next()
	c.live.gate.RUnlock()
	if s := now.sharding; s == nil || s.Blocked == nil || c.live.dropped.Load() {
		return nil
	}
	select {
	case <-next:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write makes the writes again; closed is the collection whose gate was closed, where the
// error is ErrLockBusy.
func (t *Transaction) write(ctx context.Context, u *Unit) (closed *Collection, err error) {
	var l Locked
	for i := range t.writes {
		w := &t.writes[i]
		if err := t.writeOne(ctx, u, &l, w); err != nil {
			if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
				err = storage.ErrConflict
			}
			return w.coll, err
		}
	}
	return nil, nil
}

// owned checks that this shard still owns what a write is about, as it did when the statement
// made it: the unit is about to write, and nobody changes the entry of the collection before
// its end. Errors: 112, and those of the statement's guard.
func (u *Unit) owned(ctx context.Context, w *draftWrite) error {
	if u.redoes != nil && u.redoes.isPrepared {
		return nil // it was checked when it was prepared, and the gates are held
	}
	now, err := u.enter(ctx, w.coll)
	switch {
	case err != nil:
		return err
	case now.sharding != w.coll.sharding:
		return storage.ErrConflict
	case w.again != nil:
		return w.again(now)
	}
	return nil
}

// writeOne makes a write again. The document must still be the one that was read.
func (t *Transaction) writeOne(ctx context.Context, u *Unit, l *Locked, w *draftWrite) error {
	if err := u.owned(ctx, w); err != nil {
		return err
	}
	if w.old == nil {
		return u.Insert(ctx, w.coll, w.doc)
	}
	if err := u.LockInto(ctx, l, w.coll, w.old.Lookup("_id")); err != nil {
		return err
	}
	if !bytes.Equal(l.Doc, w.old) { // it was removed with a range that is due
		return storage.ErrConflict
	}
	u.reassigned.from = nil
	if w.doc == nil {
		if w.evicts {
			u.Expires = earliest(w.coll.hiding, l.Doc)
			defer func() { u.Expires = nil }()
		}
		return u.Delete(ctx, w.coll, l.Record, l.Doc)
	}
	u.SetReplacement(w.replaces)
	return u.Update(ctx, w.coll, l.Record, l.Doc, w.doc)
}

// leaveGates leaves all gates, between two statements of a transaction.
func (u *Unit) leaveGates() {
	for _, l := range u.gates {
		l.gate.RUnlock()
	}
	u.gates = u.gates[:0]
}

// redraft makes the draft of a transaction, which was loosened or restarted, a unit like
// any other, that has its locks and time.
func (u *Unit) redraft(t *Transaction) {
	at := t.at
	u.txn, u.forms, u.Guard = nil, t, nil
	u.e.release()
	u.e = effects.Get().(*Effect)
	u.e.c, u.e.u, u.e.at = u.c, u.u, at
	u.docs, u.gone, u.added, u.deltas, u.deltaOf, u.left, u.reads = 0, 0, 0, nil, nil, nil, nil
}
