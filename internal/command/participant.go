package command

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/waits"
)

// A transaction over several shards has a participant on each of them: a transaction of that
// shard's primary, which its coordinator prepares and then commits or aborts
// (docs/rfcs/0029-transactions-over-shards.md). Once it is prepared it lives in the catalog,
// and the session only points to it: it outlives sessions and primaries.

var (
	errPrepared = mongoerr.New(mongoerr.PreparedTransactionInProgress, "Cannot call any operation other than abort, prepare or commit on a prepared transaction")
	// errNotCoordinator refuses what only servers of the cluster may say.
	errNotCoordinator = mongoerr.New(mongoerr.Unauthorized, "only the coordinator of a transaction prepares and decides it")
)

// takeTurn takes the turn of op's session. A session's newer number waits until what is
// prepared of an older one is decided. Errors: the cause of ctx's end.
func (d *Dispatcher) takeTurn(ctx context.Context, op *Op) error {
	se := op.Session
	op.SetWaitingForLock(true)
	defer op.SetWaitingForLock(false)
	op.waits().Begin(waits.Lock)
	defer op.waits().End(waits.Lock)
	for {
		if err := se.take(ctx); err != nil {
			return err
		}
		d.meetPrepared(se)
		tr := &se.transaction
		if tr.state != prepared || op.Generic.TxnNumber <= tr.number || op.InTransaction() && op.endsTransaction() {
			return nil
		}
		over := tr.t.Over()
		se.leave()
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// meetPrepared makes the session's prepared transaction, if there is one, its newest, and
// forgets one that this member has let go. The caller has the session's turn.
func (d *Dispatcher) meetPrepared(se *Session) {
	tr, t := &se.transaction, d.Member.Catalog().Prepared(retryable.Session(se.ID))
	if tr.state == prepared && tr.t != t {
		d.endTransaction(se, noTransaction)
	}
	if t == nil || tr.t == t {
		return
	}
	d.abortTransaction(se)
	shown := &shownTransaction{number: t.Txn(), begun: time.Now()}
	shown.since.Store(-1)
	shown.prepared()
	*tr = transaction{number: t.Txn(), state: prepared, t: t, shown: shown}
	se.shown.Store(shown)
	d.Transactions.open.Add(1)
}

// commitTime is the time at which op commits a prepared transaction, 0 for none.
func (op *Op) commitTime() uint64 {
	if v := op.Args.Value("commitTimestamp"); v.Type == bson.TypeTimestamp {
		return v.Timestamp()
	}
	return 0
}

// mayDecide reports whether the client may speak as a coordinator.
func (op *Op) mayDecide() bool {
	return op.Dispatcher.Authorize == nil || op.Client.Internal || op.Client.mayAll(decides)
}

// decides is the privilege of the parts of a cluster.
var decides = []auth.Need{auth.On(auth.Cluster, auth.Internal)}

// PrepareTransaction prepares the transaction of op, which is in the session's turn, and
// replies with the time; or with readOnly, where there was nothing to commit. beside is as for
// catalog.Transaction.Prepare.
//
// Errors: 13, 251, 256, those of catalog.Transaction.Prepare.
func (op *Op) PrepareTransaction(ctx context.Context, beside *catalog.Collection) error {
	d, se := op.Dispatcher, op.Session
	tr := &se.transaction
	switch same := tr.number == op.Generic.TxnNumber; {
	case !op.mayDecide():
		return errNotCoordinator
	case same && tr.state == prepared:
		return op.replyPrepared(tr.t.PrepareTime(), false)
	case same && tr.readOnly:
		return op.replyPrepared(uint64(d.Member.Shown().Time), true)
	}
	if err := tr.continues(op); err != nil {
		return err
	}
	if err := op.enterLast(); err != nil {
		return err
	}
	tr.t.SetLockWait(d.Transactions.wait())
	readOnly, err := false, op.mayCommit(tr.t)
	if err == nil {
		tr.shown.enter(op.Client)
		readOnly, err = tr.t.Prepare(ctx, op.Args.Str("coordinator"), beside)
		tr.shown.leave()
	}
	tr.t.Leave()
	switch {
	case err != nil:
		tr.t.AbortAndDrop(context.Background())
		d.Transactions.aborted.Add(1)
		d.endTransaction(se, aborted)
		return err
	case readOnly:
		d.Transactions.committed.Add(1)
		d.endTransaction(se, committed)
		tr.readOnly = true
		return op.replyPrepared(uint64(d.Member.Shown().Time), true)
	}
	tr.timer.Stop()
	tr.x.End()
	tr.state, tr.timer, tr.x = prepared, nil, nil
	tr.shown.prepared()
	d.Transactions.totalPrepared.Add(1)
	return op.replyPrepared(tr.t.PrepareTime(), false)
}

func (op *Op) replyPrepared(at uint64, readOnly bool) error {
	op.Reply.Timestamp("prepareTimestamp", at).Bool("readOnly", readOnly)
	return nil
}

// commitPrepared commits a prepared transaction at a time. One that is not there any more was
// committed: its record goes by the decision only.
//
// Errors: 13, 72, 251, those of catalog.Transaction.Decide.
func (op *Op) commitPrepared(ctx context.Context, at uint64) error {
	d, se, number := op.Dispatcher, op.Session, op.Generic.TxnNumber
	tr := &se.transaction
	same := tr.number == number
	switch {
	case !op.mayDecide():
		return errNotCoordinator
	case same && tr.state == prepared && at == 0:
		return mongoerr.New(mongoerr.InvalidOptions, "commitTransaction for a prepared transaction must have 'commitTimestamp'")
	case same && tr.state == prepared && at < tr.t.PrepareTime():
		return mongoerr.New(mongoerr.InvalidOptions, "'commitTimestamp' must be greater than or equal to 'prepareTimestamp'")
	case same && tr.state == prepared:
		return d.decide(ctx, se, at, nil)
	case same && tr.state == inProgress:
		return mongoerr.New(mongoerr.InvalidOptions, "commitTransaction for a transaction that is not prepared cannot have 'commitTimestamp'")
	}
	kind, newest, err := d.Member.Catalog().Outcome(&se.newest, retryable.Session(se.ID), number)
	switch {
	case err != nil || kind == retryable.Committed:
		return err
	case kind == retryable.Aborted, newest == number && same && tr.state == aborted:
		return mongoerr.New(mongoerr.NoSuchTransaction, "Transaction with { txnNumber: %d } has been aborted.", number)
	}
	if err := d.Member.ReadIndex(ctx); err != nil {
		return err
	}
	if txn, ok := d.Member.Catalog().PreparedRecord(retryable.Session(se.ID)); ok && txn == number {
		return repl.ErrNotPrimary // it is about to step up
	}
	return nil
}

// abortPrepared aborts a transaction in the name of its coordinator. Errors: 13, 72, 251, 256,
// those of catalog.Transaction.Decide.
func (op *Op) abortPrepared(ctx context.Context, coordinator string) error {
	d, se, number := op.Dispatcher, op.Session, op.Generic.TxnNumber
	tr := &se.transaction
	same := tr.number == number
	switch {
	case !op.mayDecide():
		return errNotCoordinator
	case same && tr.state == prepared && coordinator != tr.t.Coordinator():
		return mongoerr.New(mongoerr.InvalidOptions, "the coordinator of the transaction is %s, not %s", tr.t.Coordinator(), coordinator)
	case same && tr.state == prepared:
		return d.decide(ctx, se, 0, nil)
	case same && tr.state == inProgress:
		d.abortTransaction(se)
		return nil
	case same && (tr.readOnly || tr.state == aborted || tr.state == abortedPrepared):
		return nil
	}
	switch kind, _, err := d.Member.Catalog().Outcome(&se.newest, retryable.Session(se.ID), number); {
	case err != nil || kind == retryable.Aborted:
		return err
	case kind == retryable.Committed:
		return mongoerr.New(mongoerr.TransactionCommitted, "Transaction with { txnNumber: %d } has been committed.", number)
	}
	return noSuch(tr, number, se)
}

// decide commits the session's prepared transaction at a time, or aborts it where that is 0.
// The caller has the session's turn; with is as for catalog.Transaction.Decide.
func (d *Dispatcher) decide(ctx context.Context, se *Session, at uint64, with func(*catalog.Unit) error) error {
	tr := &se.transaction
	if !tr.t.Enter() {
		return repl.ErrNotPrimary // it was let go
	}
	// The entry's times are after that of the commit.
	err := d.Member.Clock().Observe(repl.Timestamp(at))
	last := &lastCommitted{writeConcern: defaultWriteDoc}
	last.operations, last.bytes = tr.t.Written()
	if err == nil {
		err = tr.t.Decide(ctx, &se.newest, at, with)
	}
	tr.t.Leave()
	switch {
	case err != nil:
		return err
	case at != 0:
		d.Transactions.committed.Add(1)
		d.Transactions.preparedCommitted.Add(1)
		d.Transactions.last.Store(last)
		d.endTransaction(se, committed)
	default:
		d.Transactions.aborted.Add(1)
		d.Transactions.preparedAborted.Add(1)
		d.endTransaction(se, abortedPrepared)
	}
	return nil
}

// PartState is where a transaction is on this participant.
type PartState uint8

// The states.
const (
	PartNone PartState = iota
	PartInProgress
	PartPrepared
	PartCommitted
	PartAborted
)

var partStates = [...]PartState{noTransaction: PartNone, inProgress: PartInProgress, prepared: PartPrepared, committed: PartCommitted, aborted: PartAborted, abortedPrepared: PartAborted}

// inTurn runs f in the turn of a session.
func (d *Dispatcher) inTurn(ctx context.Context, id SessionID, f func(*Session) error) error {
	se, err := d.Sessions.acquire(id, time.Now())
	if err != nil {
		return err
	}
	defer func() { d.Sessions.release(se, time.Now()) }()
	if err := se.take(ctx); err != nil {
		return err
	}
	defer se.leave()
	d.meetPrepared(se)
	return f(se)
}

// part returns where a transaction is: as a prepare record says, the memory, the session's
// record.
func (d *Dispatcher) part(se *Session, number int64) (PartState, error) {
	tr := &se.transaction
	if tr.number == number && (tr.state == prepared || tr.state == inProgress) {
		if tr.state == prepared || d.Member.Catalog().Current(tr.t) {
			return partStates[tr.state], nil
		}
		d.abortTransaction(se) // of an earlier term
	}
	switch kind, _, err := d.Member.Catalog().Outcome(&se.newest, retryable.Session(se.ID), number); {
	case err != nil:
		return PartNone, err
	case kind == retryable.Committed:
		return PartCommitted, nil
	case kind == retryable.Aborted:
		return PartAborted, nil
	}
	if tr.number == number {
		return partStates[tr.state], nil
	}
	return PartNone, nil
}

// Part returns where a transaction is on this participant, which is primary. Errors: those of
// the disk, the cause of ctx's end.
func (d *Dispatcher) Part(ctx context.Context, id SessionID, number int64) (state PartState, err error) {
	err = d.inTurn(ctx, id, func(se *Session) error {
		state, err = d.part(se, number)
		return err
	})
	return state, err
}

// AbortPart ends a transaction number of a session for good, unless it was committed: one that
// is in progress is aborted, and so is one that is prepared if takePrepared says so; that it
// is, is stored. It returns the state afterwards. still is called once the unit that does so
// has begun; after its error nothing is done. Errors: those of still and of commits, the cause
// of ctx's end.
func (d *Dispatcher) AbortPart(ctx context.Context, id SessionID, number int64, takePrepared bool, still func() error) (state PartState, err error) {
	err = d.inTurn(ctx, id, func(se *Session) error {
		if state, err = d.part(se, number); err != nil {
			return err
		}
		switch {
		case state == PartCommitted || state == PartPrepared && !takePrepared:
			return nil
		case state == PartPrepared:
			err = d.decide(ctx, se, 0, func(*catalog.Unit) error { return still() })
		default:
			if se.transaction.number == number {
				d.abortTransaction(se)
			}
			err = d.Member.Catalog().NoteAborted(ctx, &se.newest, retryable.Session(se.ID), number, still)
		}
		if err == nil {
			state = PartAborted
		}
		return err
	})
	return state, err
}

// HoldLast reports whether a transaction can be committed by CommitLast with a write into the
// collection beside. If so, no statement of it is executed any more. Errors: the cause of ctx's end.
func (d *Dispatcher) HoldLast(ctx context.Context, id SessionID, number int64, beside *catalog.Collection) (last bool, err error) {
	err = d.inTurn(ctx, id, func(se *Session) error {
		tr := &se.transaction
		if tr.state != inProgress || tr.number != number || !tr.t.Enter() {
			return nil
		}
		defer tr.t.Leave()
		if tr.last = tr.t.CommitsLast(beside); tr.last && tr.idle != nil {
			tr.idle.Stop()
		}
		last = tr.last
		return nil
	})
	return last, err
}

// CommitLast commits a transaction that is in progress, in one unit with what its coordinator
// writes into the collection beside, which has decided so; with is as for
// catalog.Transaction.CommitLast. Its time is above after. It passes the write gate as a statement
// does. never says of an error that the transaction has ended without a commit, for good; else the
// outcome is not known. Errors: 251 if it is not in progress here, 225, 371, those of
// catalog.Transaction.CommitLast, the cause of ctx's end.
func (d *Dispatcher) CommitLast(ctx context.Context, id SessionID, number int64, after uint64, beside *catalog.Collection, with func(*catalog.Unit) error) (never bool, err error) {
	err = d.inTurn(ctx, id, func(se *Session) error {
		pass, err := d.Gate.EnterWithin(ctx) // in its turn, as statements do: who waits at the gate may have the turn
		if err != nil {
			return err
		}
		defer pass.Leave()
		tr := &se.transaction
		if tr.state != inProgress || tr.number != number {
			never = tr.number != number || tr.state == aborted // and else it was committed: by whom?
			return noSuch(tr, number, se)
		}
		if err := d.overtaken(se); err != nil {
			never = mongoerr.Is(err, mongoerr.TransactionTooOld)
			return err
		}
		// One that is not held is another one of this number: the held one was aborted, and its first
		// statement came again.
		if !tr.last || !tr.t.Enter() {
			d.abortTransaction(se)
			never = true
			return tr.over(number)
		}
		d.Cursors.KillTransaction(se.ID, number)
		last := &lastCommitted{writeConcern: defaultWriteDoc}
		last.operations, last.bytes = tr.t.Written()
		err = d.mayCommitPart(tr)
		if err == nil {
			err = d.Member.Clock().Observe(repl.Timestamp(after))
		}
		proposed := false
		if err == nil {
			tr.t.SetLockWait(d.Transactions.wait())
			proposed, err = tr.t.CommitLast(ctx, beside, with)
		}
		tr.t.Leave()
		if err != nil {
			tr.t.AbortAndDrop(context.Background())
			d.Transactions.aborted.Add(1)
			d.endTransaction(se, aborted)
			never = !proposed || leavesNoTrace(err)
			return err
		}
		d.Transactions.committed.Add(1)
		d.Transactions.last.Store(last)
		d.endTransaction(se, committed)
		return nil
	})
	return never, err
}

// leavesNoTrace says of an error of a unit that was to be proposed that it is told before that: the
// disk is full, or the unit is larger than an entry of the log.
func leavesNoTrace(err error) bool {
	return mongoerr.Is(err, mongoerr.OutOfDiskSpace) || mongoerr.Is(err, mongoerr.TransactionTooLarge)
}

// mayCommitPart returns the error for a transaction that has written where user writes have been
// blocked since: 371.
func (d *Dispatcher) mayCommitPart(tr *transaction) error {
	for db := range tr.t.Databases() {
		if err := d.MayWrite(db); err != nil && tr.bound {
			return err
		}
	}
	return nil
}

// CommitPart commits a prepared transaction at a time, in one unit with what the coordinator
// writes, which has decided so; with is as for catalog.Transaction.Decide. It passes the write
// gate as a statement does. Errors: 251 if it is not prepared here, those of
// catalog.Transaction.Decide, the cause of ctx's end.
func (d *Dispatcher) CommitPart(ctx context.Context, id SessionID, number int64, at uint64, with func(*catalog.Unit) error) error {
	pass, err := d.Gate.EnterWithin(ctx)
	if err != nil {
		return err
	}
	defer pass.Leave()
	return d.inTurn(ctx, id, func(se *Session) error {
		if tr := &se.transaction; tr.state != prepared || tr.number != number {
			return noSuch(tr, number, se)
		}
		return d.decide(ctx, se, at, with)
	})
}
