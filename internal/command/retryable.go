package command

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// numbered is a session's state for its operations with a txnNumber. One of them runs at
// a time: a retry waits until the first attempt has ended.
type numbered struct {
	begun       sync.Once
	turn        chan struct{} // holds one value while an operation runs; made by begun
	newest      catalog.Newest
	transaction transaction
	// shown is the open transaction as others may see it at any time; nil for none.
	shown atomic.Pointer[shownTransaction]
	// wanted tells an operation that waits for the end of a critical section, with which it
	// has nothing done, that the session's turn is wanted.
	wanted catalog.Notifier
}

// wantedPause is how long a wanted turn is waited for before that is told again.
const wantedPause = 5 * time.Millisecond

// want is take, and tells the operation that has the turn.
func (n *numbered) want(ctx context.Context) error {
	for {
		soon, end := context.WithTimeout(ctx, wantedPause)
		err := n.take(soon)
		end()
		if err == nil || ctx.Err() != nil {
			return err
		}
		n.wanted.Broadcast()
	}
}

// Wanted returns a channel that is closed when another shard's records of the operation's session
// are to be adopted: an operation that waits, and has done nothing yet, should end as stale.
// It is nil for an operation that does not have the turn of a session.
func (op *Op) Wanted() <-chan struct{} {
	if op.Session == nil || op.Execution == nil {
		return nil
	}
	return op.Session.wanted.Next()
}

// take waits for the session's turn. Errors: the cause of ctx's end.
func (n *numbered) take(ctx context.Context) error {
	n.begun.Do(func() { n.turn = make(chan struct{}, 1) })
	select {
	case n.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tryTake takes the turn if no operation has it.
func (n *numbered) tryTake() bool {
	n.begun.Do(func() { n.turn = make(chan struct{}, 1) })
	select {
	case n.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// leave ends the turn.
func (n *numbered) leave() { <-n.turn }

// beginExecution makes op, which has a txnNumber, execute once, until done is called.
// Errors: 225 for a number below the session's newest, the cause of ctx's end.
func (d *Dispatcher) beginExecution(ctx context.Context, op *Op) (done func(), err error) {
	se, c, txn := op.Session, d.Member.Catalog(), op.Generic.TxnNumber
	if err := d.takeTurn(ctx, op); err != nil {
		return nil, err
	}
	defer func() {
		if done == nil {
			se.leave()
		}
	}()
	id := retryable.Session(se.ID)
	newest, err := se.newest.Txn(c, id)
	if err != nil {
		return nil, err
	}
	if txn < newest {
		return nil, mongoerr.New(mongoerr.TransactionTooOld, "Retryable write with txnNumber %d is prohibited on session %s because a newer "+
			"retryable write with txnNumber %d has already started on this session.", txn, se.ID, newest)
	}
	if tr := &se.transaction; tr.state != noTransaction && tr.number == txn {
		return nil, mongoerr.New(mongoerr.ConflictingOperationInProgress, "Cannot run a retryable write with txnNumber %d, which is that of a transaction of the session", txn)
	}
	d.abortTransaction(se)
	x, err := c.BeginExecution(&se.newest, id, txn)
	if err != nil {
		return nil, err
	}
	op.Execution = x
	return func() { x.End(); se.leave() }, nil
}

// Adopt records what a session has executed on another shard (catalog.Adopt), in the
// session's turn. Errors: those of commits, the cause of ctx's end.
func (d *Dispatcher) Adopt(ctx context.Context, s retryable.Session, r *retryable.Record) error {
	se, err := d.Sessions.acquire(SessionID(s), time.Now())
	if err != nil {
		return err
	}
	defer func() { d.Sessions.release(se, time.Now()) }()
	if err := se.want(ctx); err != nil {
		return err
	}
	defer se.leave()
	return d.Member.Catalog().Adopt(ctx, &se.newest, s, r)
}

// FailStatement is for a statement of a retryable write that is about to be executed:
// the error with which the fail point has it fail, or nil.
func (op *Op) FailStatement() error {
	f := op.Dispatcher.FailWrite
	if f == nil {
		return nil
	}
	fail, on := f.hit(op)
	if !on {
		return nil
	}
	op.hangsUp = op.hangsUp || fail.close
	if fail.before == 0 {
		return nil
	}
	return mongoerr.New(fail.before, "Failing write for %s:%d due to failpoint. The write must not be reflected.", op.Session.ID, op.Generic.TxnNumber)
}

// forgetSessions removes, on the primary, the records of sessions that have executed
// nothing for SessionTimeout and are not in use. No driver retries a statement after
// that.
func (d *Dispatcher) forgetSessions(ctx context.Context, now time.Time) {
	if d.Member == nil || d.Member.Writable() != nil {
		return
	}
	ctx, leave, err := d.Member.Enter(ctx)
	if err != nil {
		return
	}
	defer leave()
	n, err := d.Member.Catalog().ForgetSessions(ctx, now.Add(-SessionTimeout).UnixMilli(), func(s retryable.Session) func() {
		return d.Sessions.reserve(SessionID(s))
	})
	if err != nil && ctx.Err() == nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "Cannot remove the records of idle sessions", slog.String("c", "CONTROL"),
			slog.Int("id", logForget), slog.String("error", err.Error()))
	}
	j := &d.Sessions.jobs
	j.forgets.Add(1)
	j.lastForgets.Store(now.UnixMilli())
	j.lastForgetsTook.Store(time.Since(now).Milliseconds())
	j.lastForgotten.Store(int64(n))
}
