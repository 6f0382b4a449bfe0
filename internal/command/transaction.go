package command

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// transactionState is where a session's newest transaction is.
type transactionState uint8

const (
	noTransaction transactionState = iota
	inProgress
	prepared
	committed
	aborted
	abortedPrepared
)

var transactionStates = [...]string{"TxnState::none", "TxnState::inProgress", "TxnState::prepared", "TxnState::committed", "TxnState::abortedWithoutPrepare", "TxnState::abortedWithPrepare"}

// transaction is the newest transaction of a session. It is guarded by the session's turn.
type transaction struct {
	number int64
	state  transactionState
	t      *catalog.Transaction
	x      *catalog.Execution
	timer  *time.Timer // of the end of its life
	idle   *time.Timer // ends it while no statement runs, nil for none
	rests  time.Duration
	shown  *shownTransaction
	// expiryTime is the instant by which rules hide documents from it.
	expiryTime int64
	// statements counts those that have succeeded; later says that one after the first has
	// found the transaction with writes.
	statements int
	later      bool
	// readOnly says that it was asked to prepare, and had nothing to commit.
	readOnly bool
	// last says that its coordinator, on this shard, commits it with the decision: as of what is
	// prepared, only that one ends it, but a limit of time or killSessions may abort it.
	last bool
	// bound says that a block of user writes holds for one of its statements. What ends it comes
	// from a router or a coordinator, and does not say so.
	bound bool
}

// Transactions counts transactions, for serverStatus.
type Transactions struct {
	lifetime, lockWait *IntParam

	open, active                atomic.Int64
	started, committed, aborted atomic.Int64

	totalPrepared, preparedCommitted, preparedAborted atomic.Int64
	last                                              atomic.Pointer[lastCommitted]
}

// lastCommitted is the transaction that was committed last.
type lastCommitted struct {
	operations, bytes int
	writeConcern      bson.Doc
}

// defaultWriteDoc is the write concern of a commit that gives none.
var defaultWriteDoc = new(bson.Builder).String("w", "majority").Int32("wtimeout", 0).Finish()

// NewTransactions registers the parameters of transactions.
func NewTransactions(p *Params) *Transactions {
	return &Transactions{
		lifetime: p.Int(IntSpec{Name: "transactionLifetimeLimitSeconds", Default: 60, Min: 1, HasMin: true}),
		lockWait: p.Int(IntSpec{Name: "maxTransactionLockRequestTimeoutMillis", Default: 5}),
	}
}

// Lifetime is how long a transaction may be open.
func (t *Transactions) Lifetime() time.Duration {
	return time.Duration(t.lifetime.Load()) * time.Second
}

// wait is how long a statement waits for a lock; below 0 as long as it may run.
func (t *Transactions) wait() time.Duration {
	return time.Duration(t.lockWait.Load()) * time.Millisecond
}

// TransactionCounts are counts of transactions. Prepared is the catalog's: who shows it asks
// there.
type TransactionCounts struct{ Open, Active, Prepared, Started, Committed, Aborted int64 }

// Counts returns the counts.
func (t *Transactions) Counts() TransactionCounts {
	return TransactionCounts{Open: t.open.Load(), Active: t.active.Load(), Started: t.started.Load(), Committed: t.committed.Load(), Aborted: t.aborted.Load()}
}

// AppendStatus writes the counts as serverStatus shows them; prepared is how many are prepared
// now.
func (t *Transactions) AppendStatus(b *bson.Builder, prepared int64) {
	open, active := t.open.Load(), t.active.Load()
	b.Int64("currentActive", active).Int64("currentInactive", max(open-active, 0)).Int64("currentOpen", open)
	b.Int64("totalAborted", t.aborted.Load()).Int64("totalCommitted", t.committed.Load()).Int64("totalStarted", t.started.Load())
	b.Int64("totalPrepared", t.totalPrepared.Load()).Int64("totalPreparedThenCommitted", t.preparedCommitted.Load()).Int64("totalPreparedThenAborted", t.preparedAborted.Load())
	b.Int64("currentPrepared", prepared)
	if l := t.last.Load(); l != nil {
		b.OpenDoc("lastCommittedTransaction").Int64("operationCount", int64(l.operations)).Int64("oplogOperationBytes", int64(l.bytes)).Doc("writeConcern", l.writeConcern).Close()
	}
}

// InTransaction reports whether op is a statement of a multi-document transaction, or
// ends one.
func (op *Op) InTransaction() bool { return op.Generic.HasAutocommit }

// transactionNumber is the number of op's transaction, -1 for none.
func (op *Op) transactionNumber() int64 {
	if !op.InTransaction() {
		return -1
	}
	return op.Generic.TxnNumber
}

// endsTransaction reports whether op commits, aborts or prepares.
func (op *Op) endsTransaction() bool {
	return op.Command.Name == "commitTransaction" || op.Command.Name == "abortTransaction" || op.Command.Name == "prepareTransaction"
}

// handleInTransaction is handle for a statement of a transaction, or the command that
// ends it. A statement that fails aborts the transaction.
//
// Errors: 117, 225, 251, 256, those of the handler.
func (d *Dispatcher) handleInTransaction(ctx context.Context, op *Op) error {
	se := op.Session
	if err := d.takeTurn(ctx, op); err != nil {
		return err
	}
	defer se.leave()
	if op.endsTransaction() {
		return d.handle(ctx, op)
	}
	err := d.TakesWrites()
	if err != nil {
		return err
	}
	tr := &se.transaction
	if op.Generic.HasStart {
		err = d.startTransaction(op)
	} else {
		err = tr.continues(op)
	}
	if err != nil {
		return err
	}
	if !tr.t.Enter() {
		d.abortTransaction(se)
		return tr.over(op.Generic.TxnNumber)
	}
	if tr.idle != nil {
		tr.idle.Stop()
	}
	op.Transaction = tr.t
	op.ExpiryTime = tr.expiryTime
	tr.t.SetLockWait(d.Transactions.wait())
	d.Transactions.active.Add(1)
	tr.shown.enter(op.Client)
	err = d.handle(ctx, op)
	tr.shown.leave()
	d.Transactions.active.Add(-1)
	wrote := tr.t.HasWritten()
	tr.t.Leave()
	leaves := mongoerr.Is(err, mongoerr.WouldChangeOwningShard) // it has changed nothing, and the router moves the document
	if err != nil && !leaves || op.failed {
		d.abortTransaction(se)
		return err
	}
	tr.later = tr.later || tr.statements > 0 && wrote
	tr.bound = tr.bound || !op.BypassesBlock()
	tr.statements++
	if tr.idle != nil {
		tr.idle.Reset(tr.rests)
	}
	if d.Admit != nil { // a router wants to know
		op.Reply.Bool("readOnly", !wrote)
	}
	return err
}

// FailTransaction says that a statement of op has failed though the reply is none of an
// error: its transaction is aborted.
func (op *Op) FailTransaction() { op.failed = true }

// Failed reports whether that was said.
func (op *Op) Failed() bool { return op.failed }

// startTransaction starts a transaction, which ends an older one of the session.
func (d *Dispatcher) startTransaction(op *Op) error {
	se, c, number := op.Session, d.Member.Catalog(), op.Generic.TxnNumber
	newest, err := se.newest.Txn(c, retryable.Session(se.ID))
	if err != nil {
		return err
	}
	tr := &se.transaction
	switch {
	case number < newest:
		return tooOld(se, number, newest)
	case number == newest && tr.mayRestart(number) && !se.newest.Stored(number):
	case number == newest && tr.state != noTransaction && tr.number == number:
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "Cannot start a transaction at given transaction number %d a transaction with the same number is in state %s",
			number, transactionStates[tr.state])
	case number == newest:
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "Cannot start a transaction at given transaction number %d: the session has executed an operation with that number", number)
	}
	d.abortTransaction(se)
	x, err := c.BeginExecution(&se.newest, retryable.Session(se.ID), number)
	if err != nil {
		return err
	}
	t, err := c.BeginTransaction(x)
	if err != nil {
		x.End()
		return err
	}
	expiry := c.Clock.ExpiryTime()
	if op.State != nil {
		err, expiry = t.ReadAt(op.State.Snapshot, op.State.Unchanged), int64(op.State.Time.Seconds())*1000
		op.State.Close()
		if op.State = nil; err != nil {
			t.Abort()
			x.End()
			return err
		}
	}
	life := d.Transactions.Lifetime()
	*tr = transaction{number: number, state: inProgress, t: t, x: x, expiryTime: expiry, shown: newShown(op, life)}
	se.shown.Store(tr.shown)
	tr.timer = time.AfterFunc(life, func() { d.expireTransaction(se, t) })
	if tr.rests = op.Generic.TransactionIdle; tr.rests > 0 {
		tr.idle = time.AfterFunc(tr.rests, func() { d.abandonIdle(se, t) })
	}
	d.Transactions.open.Add(1)
	d.Transactions.started.Add(1)
	return nil
}

// mayRestart reports whether a transaction may be started anew under the same number: it was
// aborted before a statement after its first one has met a write. Routers do that with the
// first statement of all, where they have sent it by an old route.
func (tr *transaction) mayRestart(number int64) bool {
	return tr.state == aborted && tr.number == number && !tr.later
}

func tooOld(se *Session, number, newest int64) error {
	return mongoerr.New(mongoerr.TransactionTooOld, "Cannot start transaction with { txnNumber: %d } on session %s because a newer transaction with txnNumber { txnNumber: %d } has already started on this session.",
		number, se.ID, newest)
}

// continues returns nil if op may run in the session's transaction.
func (tr *transaction) continues(op *Op) error {
	number := op.Generic.TxnNumber
	switch {
	case tr.state == noTransaction || tr.number != number:
		return noSuch(tr, number, op.Session)
	case tr.state == prepared || tr.state == inProgress && tr.last:
		return errPrepared
	case tr.state == inProgress:
		return nil
	}
	return tr.over(number)
}

// noSuch is the error for a number that is not that of the session's transaction.
func noSuch(tr *transaction, number int64, se *Session) error {
	if tr.state != noTransaction && number < tr.number {
		return tooOld(se, number, tr.number)
	}
	active := int64(-1)
	if tr.state != noTransaction {
		active = tr.number
	}
	return mongoerr.New(mongoerr.NoSuchTransaction, "Given transaction number %d does not match any in-progress transactions. The active transaction number is %d", number, active)
}

// over is the error for a transaction that has ended.
func (tr *transaction) over(number int64) error {
	if tr.state == committed {
		return mongoerr.New(mongoerr.TransactionCommitted, "Transaction with { txnNumber: %d } has been committed.", number)
	}
	return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", number)
}

// abortTransaction aborts the session's transaction if it is in progress. The caller has
// the session's turn.
func (d *Dispatcher) abortTransaction(se *Session) {
	tr := &se.transaction
	if tr.state != inProgress {
		return // of one that is prepared only its coordinator decides
	}
	d.Cursors.KillTransaction(se.ID, tr.number)
	tr.t.AbortAndDrop(context.Background())
	d.Transactions.aborted.Add(1)
	d.endTransaction(se, aborted)
}

// endTransaction notes that the transaction of a session has ended.
func (d *Dispatcher) endTransaction(se *Session, as transactionState) {
	tr := &se.transaction
	for _, timer := range []*time.Timer{tr.timer, tr.idle} {
		if timer != nil {
			timer.Stop()
		}
	}
	if tr.x != nil {
		tr.x.End()
	}
	se.shown.Store(nil)
	d.Metrics.transactions.add(time.Since(tr.shown.begun))
	tr.state, tr.t, tr.x, tr.timer, tr.idle, tr.shown = as, nil, nil, nil, nil, nil
	d.Transactions.open.Add(-1)
}

// abandonTransaction aborts the transaction of a session that has been ended or killed,
// unless an operation of the session runs.
func (d *Dispatcher) abandonTransaction(se *Session) {
	if d.Abandon != nil {
		d.Abandon(se.ID)
	}
	if se.tryTake() {
		d.abortTransaction(se)
		se.leave()
	}
}

// abandonIdle aborts a transaction of which no statement has come for too long.
func (d *Dispatcher) abandonIdle(se *Session, t *catalog.Transaction) {
	if !se.tryTake() {
		return // a statement has come
	}
	defer se.leave()
	if se.transaction.t == t {
		d.abortTransaction(se)
	}
}

// expireTransaction aborts a transaction that is too old: first its running statement.
func (d *Dispatcher) expireTransaction(se *Session, t *catalog.Transaction) {
	for _, op := range d.Clients.Ops() {
		if op.Session == se && op.InTransaction() && !op.endsTransaction() {
			op.kill(errTransactionExpired)
		}
	}
	if se.take(context.Background()) != nil {
		return
	}
	defer se.leave()
	if se.transaction.t == t {
		d.abortTransaction(se)
	}
}

var errTransactionExpired = mongoerr.New(mongoerr.TransactionExceededLifetimeLimitSeconds, "operation was interrupted because the transaction exceeded the configured 'transactionLifetimeLimitSeconds'")

// CommitTransaction commits the transaction of op, which is in the session's turn. A
// commit that is sent again is answered as the first was.
//
// Errors: 112, 251, those of catalog.Transaction.Commit.
func (op *Op) CommitTransaction(ctx context.Context) error {
	d, se := op.Dispatcher, op.Session
	tr := &se.transaction
	if at := op.commitTime(); at != 0 || tr.state == prepared && tr.number == op.Generic.TxnNumber {
		return op.commitPrepared(ctx, at)
	}
	if tr.state != committed || tr.number != op.Generic.TxnNumber {
		if known, err := op.committedBefore(); known || err != nil {
			return err
		}
	}
	switch err := tr.continues(op); {
	case mongoerr.Is(err, mongoerr.TransactionCommitted):
		return nil
	case err != nil:
		return err
	}
	if err := op.enterLast(); err != nil {
		return err
	}
	last := &lastCommitted{writeConcern: defaultWriteDoc}
	if v := op.Generic.WriteConcern; v.Type == bson.TypeDocument {
		last.writeConcern = v.Doc().Clone()
	}
	last.operations, last.bytes = tr.t.Written()
	d.Transactions.active.Add(1)
	tr.shown.enter(op.Client)
	err := op.mayCommit(tr.t)
	if err == nil {
		err = tr.t.Commit(ctx, op.WriteConcern.Durability())
	}
	d.Transactions.active.Add(-1)
	tr.t.Leave()
	if err != nil {
		tr.t.AbortAndDrop(context.Background())
		d.Transactions.aborted.Add(1)
		d.endTransaction(se, aborted)
		return err
	}
	d.Transactions.committed.Add(1)
	d.Transactions.last.Store(last)
	d.endTransaction(se, committed)
	return nil
}

// overtaken aborts the session's transaction if a move has brought the session's records of
// a newer number: its own would take their place. Errors: 225.
func (d *Dispatcher) overtaken(se *Session) error {
	number := se.transaction.number
	newest, err := se.newest.Txn(d.Member.Catalog(), retryable.Session(se.ID))
	if err == nil && newest > number {
		d.abortTransaction(se)
		err = tooOld(se, number, newest)
	}
	return err
}

// enterLast enters the transaction of op, which is in progress, for the last time: it is
// prepared or committed next, and its cursors end. Errors: those of overtaken; 251 if it has
// ended meanwhile.
func (op *Op) enterLast() error {
	d, se := op.Dispatcher, op.Session
	tr := &se.transaction
	if err := d.overtaken(se); err != nil {
		return err
	}
	if !tr.t.Enter() {
		d.abortTransaction(se)
		return tr.over(op.Generic.TxnNumber)
	}
	d.Cursors.KillTransaction(se.ID, tr.number)
	return nil
}

// mayCommit returns the error for a transaction that has written where user writes have
// been blocked since: 371.
func (op *Op) mayCommit(t *catalog.Transaction) error {
	for db := range t.Databases() {
		if err := op.Dispatcher.MayWrite(db); err != nil && (op.Session.transaction.bound || !op.BypassesBlock()) {
			return err
		}
	}
	return nil
}

// committedBefore reports whether the transaction of op was committed, perhaps by another
// primary, and is not known in memory.
func (op *Op) committedBefore() (bool, error) {
	se, c, number := op.Session, op.Dispatcher.Member.Catalog(), op.Generic.TxnNumber
	if se.transaction.state == inProgress && se.transaction.number == number {
		return false, nil
	}
	newest, err := se.newest.Txn(c, retryable.Session(se.ID))
	if err != nil || newest != number {
		return false, err
	}
	x, err := c.BeginExecution(&se.newest, retryable.Session(se.ID), number)
	if err != nil {
		return false, err
	}
	defer x.End()
	run, ok, err := x.Executed(0)
	return ok && run.Kind == retryable.Committed, err
}

// AbortTransaction aborts the transaction of op, which is in the session's turn. One that is
// prepared is aborted by its coordinator only, which names itself.
//
// Errors: 251 if there is none in progress, 256 if it was committed, 267.
func (op *Op) AbortTransaction(ctx context.Context) error {
	tr := &op.Session.transaction
	if coordinator := op.Args.Str("coordinator"); coordinator != "" {
		return op.abortPrepared(ctx, coordinator)
	}
	if err := tr.continues(op); err != nil {
		return err
	}
	op.Dispatcher.abortTransaction(op.Session)
	return nil
}
