package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A transaction that is prepared has its locks and is inside its gates until it is decided,
// so nothing can make its commit fail (invariant yes-binds). Its writes are in the store, as a
// prepare record, from which each later primary takes locks and gates again before it serves
// (invariant locks-first). docs/rfcs/0029-transactions-over-shards.md

// prepared is what a Transaction has once it is prepared.
type prepared struct {
	isPrepared bool
	session    retryable.Session
	head       preparedHead
	since      time.Time
	// pins are the gates that are pinned.
	pins []*live
	// evicted are the documents that had to go for the write that is made now.
	evicted []draftWrite
	// letGo says that this member has stepped down: locks and gates are released as soon as
	// nobody uses the transaction.
	letGo atomic.Bool
	// over is closed when the transaction has ended.
	over chan struct{}
}

// preparedTransactions are those that have not been decided.
type preparedTransactions struct {
	sync.Mutex
	// held are those whose locks this member has: it is primary.
	held  map[retryable.Session]*Transaction
	count atomic.Int64 // of held
	bytes int          // of their writes
	// known are the records that the store has, on each member.
	known   map[retryable.Session]*knownRecord
	records atomic.Int64 // of known
	// decisions are the last ones that were applied here, and order those in their order: a
	// ring, whose oldest is at next once it is full.
	decisions map[PreparedKey]Decision
	order     []PreparedKey
	next      int
}

// PreparedKey names a transaction that is, or was, prepared.
type PreparedKey struct {
	Session retryable.Session
	Txn     int64
}

// Decision is how a prepared transaction has ended: the commit time, 0 if it was aborted, and
// the index of the entry of the log that has what it wrote.
type Decision struct{ Commit, Index uint64 }

// knownRecord is a prepare record that the store has.
type knownRecord struct {
	preparedHead
	decided chan struct{} // closed when it is gone
}

// maxDecisions bounds how many decisions are remembered for reads of earlier states.
const maxDecisions = 1 << 14

// maxPreparedBytes bounds the writes of all prepared transactions, in bytes: a new primary
// makes all of them again before it serves.
const maxPreparedBytes = maxTransactionBytes

// minPrepareWait is how long a prepare waits for a gate at the least.
const minPrepareWait = time.Second

// note adds a record.
func (p *preparedTransactions) note(s retryable.Session, h preparedHead) {
	p.Lock()
	defer p.Unlock()
	if p.known == nil {
		p.known = map[retryable.Session]*knownRecord{}
	}
	p.known[s] = &knownRecord{h, make(chan struct{})}
	p.records.Store(int64(len(p.known)))
}

// readPrepared reads which records the store has.
func (c *Catalog) readPrepared() error {
	c.prepared.Lock()
	for _, k := range c.prepared.known {
		close(k.decided)
	}
	c.prepared.records.Store(0)
	c.prepared.known, c.prepared.decisions, c.prepared.order, c.prepared.next = nil, nil, nil, 0
	c.prepared.Unlock()
	return eachPrepared(c.engine, func(s retryable.Session, h preparedHead) error {
		c.prepared.note(s, h)
		return nil
	})
}

// decide removes a record, and remembers the decision.
func (p *preparedTransactions) decide(key PreparedKey, d Decision) {
	p.Lock()
	defer p.Unlock()
	if p.decisions == nil {
		p.decisions = map[PreparedKey]Decision{}
	}
	if len(p.order) < maxDecisions {
		p.order = append(p.order, key)
	} else {
		delete(p.decisions, p.order[p.next])
		p.order[p.next] = key
		p.next = (p.next + 1) % maxDecisions
	}
	p.decisions[key] = d
	if k := p.known[key.Session]; k != nil && k.txn == key.Txn {
		delete(p.known, key.Session)
		p.records.Store(int64(len(p.known)))
		close(k.decided)
	}
}

// waitsFor returns a record that is prepared at or before a time, and writes to a collection;
// nil stands for all.
func (p *preparedTransactions) waitsFor(upTo uint64, coll *Collection) *knownRecord {
	if p.records.Load() == 0 {
		return nil
	}
	p.Lock()
	defer p.Unlock()
	for _, k := range p.known {
		if k.time <= upTo && (coll == nil || slices.Contains(k.colls, coll.id)) {
			return k
		}
	}
	return nil
}

// OldestPrepared is the earliest prepare time of the records that the store has, 0 for none.
func (c *Catalog) OldestPrepared() (at uint64) {
	p := &c.prepared
	p.Lock()
	defer p.Unlock()
	for _, k := range p.known {
		if at == 0 || k.time < at {
			at = k.time
		}
	}
	return at
}

// AwaitPrepared waits until all transactions are decided that were prepared at or before a
// time, as far as this member has applied, and write to a collection; nil stands for any.
// Errors: the cause of ctx's end.
func (c *Catalog) AwaitPrepared(ctx context.Context, upTo uint64, coll *Collection) error {
	for k := c.prepared.waitsFor(upTo, coll); k != nil; k = c.prepared.waitsFor(upTo, coll) {
		select {
		case <-k.decided:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// PreparedIn lists the transactions that are prepared in a state of the store.
func (c *Catalog) PreparedIn(r storage.Reader) (all []PreparedKey, err error) {
	err = eachPrepared(r, func(s retryable.Session, h preparedHead) error {
		all = append(all, PreparedKey{s, h.txn})
		return nil
	})
	return all, err
}

// DecodeDecision reads of an encoded effect only which prepared transaction it decides, and the
// commit time, 0 where it is aborted; ok is false if it decides none. The bytes are not checked
// against their checksum. Errors: storage.ErrCorruption.
func DecodeDecision(b []byte) (key PreparedKey, commit uint64, ok bool, err error) {
	if len(b) < effectHeader || !readableEffect(b[0]) {
		return key, 0, false, errDamagedDecision
	}
	if b[0] < preparedEffectVersion {
		return key, 0, false, nil
	}
	_, rest, err := storage.SkipUnit(b[effectHeader:])
	if err != nil {
		return key, 0, false, err
	}
	r := storage.EncodingReader{Rest: rest}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		kind := r.Bytes(1)
		r.Uvarint()
		what := storage.EncodingReader{Rest: r.Sized()}
		if r.Bad || noteKind(kind[0]) != noteDecided {
			continue
		}
		var d decidedNote
		if d.read(&what); what.Bad {
			return key, 0, false, errDamagedDecision
		}
		return PreparedKey{d.session, d.txn}, d.commit, true, nil
	}
	if r.Bad {
		return key, 0, false, errDamagedDecision
	}
	return key, 0, false, nil
}

var errDamagedDecision = fmt.Errorf("%w: the decision in an effect is damaged", storage.ErrCorruption)

// AwaitDecision waits until a transaction is decided that is prepared in an earlier state, and
// returns the decision; known is false where that is not remembered any more. Errors: the cause
// of ctx's end.
func (c *Catalog) AwaitDecision(ctx context.Context, key PreparedKey) (d Decision, known bool, err error) {
	p := &c.prepared
	for {
		p.Lock()
		d, known = p.decisions[key]
		k := p.known[key.Session]
		p.Unlock()
		if known || k == nil || k.txn != key.Txn {
			return d, known, nil
		}
		select {
		case <-k.decided:
		case <-ctx.Done():
			return Decision{}, false, context.Cause(ctx)
		}
	}
}

// hold adds a transaction whose locks this member has. Errors: 257 if there are too many
// bytes; force adds it nevertheless.
func (p *preparedTransactions) hold(t *Transaction, force bool) error {
	p.Lock()
	defer p.Unlock()
	if !force && p.bytes+t.bytes > maxPreparedBytes {
		return mongoerr.New(mongoerr.TransactionTooLarge, "Total size of all prepared transactions must be less than server's limit of %d bytes", maxPreparedBytes)
	}
	if p.held == nil {
		p.held = map[retryable.Session]*Transaction{}
	}
	p.held[t.session] = t
	p.bytes += t.bytes
	p.count.Store(int64(len(p.held)))
	return nil
}

// release removes what hold has added.
func (p *preparedTransactions) release(t *Transaction) {
	p.Lock()
	defer p.Unlock()
	if p.held[t.session] == t {
		delete(p.held, t.session)
		p.bytes -= t.bytes
		p.count.Store(int64(len(p.held)))
	}
}

// all lists those whose locks this member has.
func (p *preparedTransactions) all() (all []*Transaction) {
	p.Lock()
	defer p.Unlock()
	for _, t := range p.held {
		all = append(all, t)
	}
	return all
}

// Prepared returns the prepared transaction of a session whose locks this member has; nil for
// none.
func (c *Catalog) Prepared(s retryable.Session) *Transaction {
	if c.prepared.count.Load() == 0 {
		return nil
	}
	c.prepared.Lock()
	defer c.prepared.Unlock()
	return c.prepared.held[s]
}

// CountPrepared counts the prepared transactions whose locks this member has.
func (c *Catalog) CountPrepared() int64 { return c.prepared.count.Load() }

// PreparedRecord reports whether the store has the prepare record of a session's transaction.
func (c *Catalog) PreparedRecord(s retryable.Session) (txn int64, ok bool) {
	c.prepared.Lock()
	defer c.prepared.Unlock()
	if k := c.prepared.known[s]; k != nil {
		return k.txn, true
	}
	return 0, false
}

// Undecided is a prepared transaction of which nothing more is known.
type Undecided struct {
	Session     retryable.Session
	Txn         int64
	Coordinator string // a shard
	Time        uint64 // of the prepare
	Since       time.Time
}

// Undecided lists the prepared transactions whose locks this member has, the oldest first.
func (c *Catalog) Undecided() (all []Undecided) {
	c.prepared.Lock()
	defer c.prepared.Unlock()
	for s, t := range c.prepared.held {
		if h, ok := c.prepared.known[s]; ok { // else it is being prepared
			all = append(all, Undecided{s, h.txn, h.coordinator, h.time, t.since})
		}
	}
	slices.SortFunc(all, func(a, b Undecided) int { return a.Since.Compare(b.Since) })
	return all
}

// Current reports whether a transaction may go on: this member has been primary since it began.
func (c *Catalog) Current(t *Transaction) bool {
	if !t.Enter() {
		return false
	}
	t.Leave()
	return true
}

// Txn is the transaction's number.
func (t *Transaction) Txn() int64 { return t.head.txn }

// IsPrepared reports whether the transaction is prepared. It is in use.
func (t *Transaction) IsPrepared() bool { return t.isPrepared }

// Coordinator is the shard that decides a prepared transaction, and PrepareTime when it was
// prepared.
func (t *Transaction) Coordinator() string { return t.head.coordinator }

// PrepareTime is the time of the prepare in the log.
func (t *Transaction) PrepareTime() uint64 { return t.head.time }

// Over returns a channel that is closed when a prepared transaction has ended here: it was
// decided, or this member has stepped down.
func (t *Transaction) Over() <-chan struct{} { return t.over }

// Prepare prepares the transaction, which is in use, for a decision of the shard coordinator.
// One that has written nothing is committed instead: readOnly. beside is the collection to which
// the unit that commits it will write, too: its gate is held as those of the others are, so no
// DDL is done there, as long as this member is primary; nil for none. Where it fails, the transaction
// has ended; a no stays a no, unless the error says that the outcome is not known: then this
// member has stepped down. Asked again, it does nothing.
//
// Errors: 263 if the transaction has created a collection, 24 if DDL takes too long, 257, and
// those of Commit.
func (t *Transaction) Prepare(ctx context.Context, coordinator string, beside *Collection) (readOnly bool, err error) {
	if t.isPrepared {
		return false, nil
	}
	defer func() {
		if err != nil || readOnly {
			t.end()
		}
	}()
	switch {
	case len(t.created) > 0:
		return false, mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot create new collections or indexes in a transaction that writes to several shards")
	case len(t.writes) == 0:
		return true, nil
	}
	u := t.draft
	t.session, t.since, t.over = t.x.session, time.Now(), make(chan struct{})
	t.head = preparedHead{txn: t.x.txn, second: u.second, coordinator: coordinator, also: t.also}
	u.leaveGates()
	if err := u.u.Loosen(); err != nil {
		return false, err
	}
	if err := t.take(ctx, beside); err != nil {
		return false, err
	}
	// Whoever steps down now finds the transaction.
	if err := t.c.prepared.hold(t, false); err != nil {
		return false, err
	}
	if t.c.evaluate().Term != t.at.Term {
		return false, errSteppedDown
	}
	t.pin()
	if err := t.record(ctx); err != nil {
		return false, err
	}
	t.isPrepared = true
	return false, nil
}

// errSteppedDown says that nothing was prepared.
var errSteppedDown = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted because the member stepped down from primary")

// take makes the writes again, so that the draft has all locks and gates that the commit will
// need, and drops them. It waits for gates, for minPrepareWait or as long as a statement does.
func (t *Transaction) take(ctx context.Context, beside *Collection) error {
	wait := max(t.lockWait, minPrepareWait)
	ctx, end := context.WithTimeoutCause(ctx, wait, LockTimeout("the locks of a transaction that is prepared", wait))
	defer end()
	u := t.draft
	if err := t.untilOpen(ctx, u, func() (closed *Collection, err error) {
		u.redraft(t)
		u.redoes, u.locksFreed = t, true
		u.SetTime(t.head.second)
		if beside != nil {
			if err := u.Enter(ctx, beside); err != nil {
				return beside, err
			}
		}
		return t.writeAll(ctx, u)
	}); err != nil {
		return err
	}
	u.e.release()
	u.e = effects.Get().(*Effect)
	u.e.c, u.e.u, u.e.at = u.c, u.u, t.at
	return u.u.Restart()
}

// writeAll is write, and adds what had to go for a write to the list, in front of it.
func (t *Transaction) writeAll(ctx context.Context, u *Unit) (closed *Collection, err error) {
	var l Locked
	all := make([]draftWrite, 0, len(t.writes))
	for i := range t.writes {
		w := &t.writes[i]
		t.evicted = t.evicted[:0]
		if err := mayPrepare(w.coll); err != nil {
			return nil, err
		}
		if err := t.writeOne(ctx, u, &l, w); err != nil {
			if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
				err = storage.ErrConflict
			}
			return w.coll, err
		}
		all = append(append(all, t.evicted...), *w)
	}
	t.writes = all
	return nil, nil
}

// mayPrepare refuses writes that another primary might not be able to make again. Errors: 263.
func mayPrepare(c *Collection) error {
	if c.own() || c.Settings.Temp || !c.FindsByID() {
		return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot write to %s in a transaction that writes to several shards", c.Namespace)
	}
	return nil
}

// evicts notes that an expired document goes for the write that is made now.
func (t *Transaction) evicts(c *Collection, old bson.Doc) {
	if !t.isPrepared {
		t.evicted = append(t.evicted, draftWrite{coll: c, old: old.Clone(), evicts: true})
	}
}

// pin pins the gates in which the draft is.
func (t *Transaction) pin() {
	for _, l := range t.draft.gates {
		l.gate.Pin()
		t.pins = append(t.pins, l)
	}
}

// unpin ends what pin has begun, and removes the transaction from those that are held.
func (t *Transaction) unpin() {
	for _, l := range t.pins {
		l.gate.Unpin()
	}
	t.pins = nil
	if t.over != nil {
		t.c.prepared.release(t)
		close(t.over)
	}
}

// record stores the prepare record, with the session's.
func (t *Transaction) record(ctx context.Context) (err error) {
	u := t.c.Begin()
	defer u.Abort()
	if t.head.parts, err = storeWrites(u.Storage(), t.session, t.writes); err != nil {
		return err
	}
	for i := range t.writes {
		t.head.colls = append(t.head.colls, t.writes[i].coll.id)
	}
	slices.Sort(t.head.colls)
	t.head.colls = slices.Compact(t.head.colls)
	u.e.prepared = &preparedNote{about: about{id: storage.IdentPrepared}, session: t.session, head: t.head}
	u.e.note(u.e.prepared)
	n := u.e.prepared
	t.x.Did(retryable.Prepared, 0, bson.Empty)
	if err := t.x.Commit(ctx, u, storage.Buffered); err != nil {
		return err
	}
	t.head = n.head
	return nil
}

// Decide commits a prepared transaction at a time, or aborts it where that is 0, and ends it.
// The transaction is in use; n is that of its session. After an error it is still prepared,
// unless this member has stepped down. with is called once the unit has begun, and may have
// it dropped, by an error: if it says that this member is still the primary that it was, then
// only that one decides. It may write what commits with the transaction; it waits for no gate.
// nil: nothing.
//
// Errors: those of with, ErrLockBusy among them, and of commits.
func (t *Transaction) Decide(ctx context.Context, n *Newest, commit uint64, with func(*Unit) error) (err error) {
	u := t.c.Begin()
	defer u.Abort()
	u.within = t.draft
	u.e.ops.on = commit != 0 && t.c.operations
	if with != nil {
		if err := with(u); err != nil {
			return err
		}
	}
	u.u.Under(t.draft.u)
	u.redoes = t
	kind := retryable.Aborted
	if commit != 0 {
		kind = retryable.Committed
		u.SetTime(t.head.second)
		u.SetSession(Session{t.session.Document(), t.head.txn})
		if _, err := t.write(ctx, u); err != nil {
			return fmt.Errorf("commit a prepared transaction: %w", err)
		}
		if err := t.noteAlso(u); err != nil {
			return err
		}
	}
	if err := removeRecord(u.Storage(), t.session, t.head.parts); err != nil {
		return err
	}
	u.e.note(&decidedNote{about: about{id: storage.IdentPrepared}, session: t.session, txn: t.head.txn, commit: commit})
	noted, err := t.c.outcome(u, n, t.session, t.head.txn, kind)
	if err != nil {
		return err
	}
	u.u.Frees() // a full disk must not keep it from its end
	if err := u.Commit(ctx, storage.Journaled); err != nil {
		*n = Newest{}
		return err
	}
	if noted {
		t.c.noted.Add(1)
	}
	t.end()
	return nil
}

// outcome has a unit store how a transaction has ended as the session's record, unless the
// session has executed something newer.
func (c *Catalog) outcome(u *Unit, n *Newest, s retryable.Session, txn int64, kind retryable.Kind) (noted bool, err error) {
	newest, err := n.Txn(c, s)
	if err != nil || newest > txn {
		return false, err
	}
	note := &executedNote{about: about{id: storage.IdentSessions}, session: s, clears: n.records > 1 || n.lone}
	n.txn, n.stored, n.records, n.lone = txn, txn, 1, false
	r := retryable.Record{Txn: txn, Date: time.Now().UnixMilli(), Runs: []retryable.Run{{Kind: kind, Count: 1, Doc: bson.Empty}}}
	note.body = r.AppendBody(nil)
	u.e.note(note)
	u.e.executed = note
	return true, nil
}

// NoteAborted stores that a transaction number of a session was aborted, so that no
// transaction with it is ever begun; unless the session has executed something newer. n is the
// session's, and nobody else uses it; still is as for Decide.
func (c *Catalog) NoteAborted(ctx context.Context, n *Newest, s retryable.Session, txn int64, still func() error) error {
	u := c.Begin()
	defer u.Abort()
	if still != nil {
		if err := still(); err != nil {
			return err
		}
	}
	u.Storage().Frees()
	if noted, err := c.outcome(u, n, s, txn, retryable.Aborted); err != nil || !noted {
		return err
	}
	if err := u.Commit(ctx, storage.Buffered); err != nil {
		*n = Newest{}
		return err
	}
	c.noted.Add(1)
	return nil
}

// Outcome returns how a session's transaction has ended, as its record says; 0 where it has
// none. newest is the session's newest number.
func (c *Catalog) Outcome(n *Newest, s retryable.Session, txn int64) (kind retryable.Kind, newest int64, err error) {
	if newest, err = n.Txn(c, s); err != nil || n.stored != txn {
		return 0, newest, err
	}
	err = c.eachRecord(s, func(_ uint32, r *retryable.Record) error {
		kind = r.Transaction()
		return nil
	})
	return kind, newest, err
}

// LetPreparedGo releases the locks and gates of prepared transactions: this member has stepped
// down, so it evaluates nothing any more, and is about to apply what others have evaluated. It
// waits for nothing.
func (c *Catalog) LetPreparedGo() {
	for _, t := range c.prepared.all() {
		t.letGo.Store(true)
		t.tryLetGo()
	}
}

// tryLetGo ends a transaction that is let go, unless somebody uses it: then its Leave does.
func (t *Transaction) tryLetGo() {
	if !t.mu.TryLock() {
		return
	}
	defer t.mu.Unlock()
	if !t.ended {
		t.end()
	}
}

// takePrepared takes the locks and gates of all transactions that the store has as prepared,
// before this member serves as primary. Errors: those of the disk, and where a record cannot
// be written as it says.
func (c *Catalog) takePrepared(ctx context.Context) error {
	at := c.evaluate()
	heads := map[retryable.Session]preparedHead{}
	if err := eachPrepared(c.engine, func(s retryable.Session, h preparedHead) error {
		heads[s] = h
		return nil
	}); err != nil {
		return err
	}
	if len(heads) > 0 {
		c.log.Info("taking the locks of prepared transactions", "count", len(heads))
	}
	for s, h := range heads {
		if err := c.takeOne(ctx, at, s, h); err != nil {
			return fmt.Errorf("prepared transaction %d of session %x: %w", h.txn, s.ID, err)
		}
	}
	return nil
}

// takeOne is takePrepared for one record.
func (c *Catalog) takeOne(ctx context.Context, at Evaluation, s retryable.Session, h preparedHead) error {
	writes, err := c.storedWrites(c.engine, s, h)
	if err != nil {
		return err
	}
	t := &Transaction{c: c, draft: c.Begin(), at: at, writes: writes}
	t.also = h.also
	t.isPrepared, t.session, t.head, t.since, t.over = true, s, h, time.Now(), make(chan struct{})
	for i := range writes {
		t.bytes += len(writes[i].old) + len(writes[i].doc)
	}
	t.account.Open(c.memory)
	t.held = t.account.Hold(nil)
	t.held.Settle(copiesDrafted * t.bytes) // it is no matter of memory whether a member can be primary
	t.mu.Lock()
	defer t.Leave()
	if err := errors.Join(t.draft.u.Fix(), t.draft.u.Loosen()); err != nil {
		t.end()
		return err
	}
	if err := t.takeAgain(ctx); err != nil {
		t.end()
		return err
	}
	if err := c.prepared.hold(t, true); err != nil {
		return err
	}
	t.pin()
	if c.evaluator != nil && c.evaluate().Term != at.Term { // nobody else would release it
		t.end()
		return errSteppedDown
	}
	return nil
}

const (
	// takePause is how long a new primary waits for units of before that still have a lock.
	takePause = 5 * time.Millisecond
	// takePatience bounds that.
	takePatience = 30 * time.Second
)

// takeAgain is take on a new primary: it waits for whoever still has a lock or a gate from
// before.
func (t *Transaction) takeAgain(ctx context.Context) error {
	u, begun := t.draft, time.Now()
	for {
		u.redraft(t)
		u.redoes, u.locksFreed = t, true
		u.SetTime(t.head.second)
		_, err := t.write(ctx, u)
		if restart := u.u.Restart(); err == nil {
			return restart
		}
		u.leaveGates()
		busy := errors.Is(err, storage.ErrLockBusy) || errors.Is(err, storage.ErrConflict)
		if !busy || time.Since(begun) > takePatience {
			return err
		}
		timer := time.NewTimer(takePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}
