package command

import (
	"context"
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// numbered is what a session has for its operations with a txnNumber, of which one
// runs at a time: another attempt at one waits until the first has ended.
type numbered struct {
	begun  sync.Once
	turn   chan struct{} // holds one value while an operation runs; made by begun
	newest catalog.Newest
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

// leave ends the turn.
func (n *numbered) leave() { <-n.turn }

// beginExecution has op, which the client has numbered, executed once, until done is
// called. Errors: 225 for a number below the session's newest, the cause of ctx's end.
func (d *Dispatcher) beginExecution(ctx context.Context, op *Op) (done func(), err error) {
	se, c, txn := op.Session, d.Member.Catalog(), op.Generic.TxnNumber
	op.SetWaitingForLock(true)
	err = se.take(ctx)
	op.SetWaitingForLock(false)
	if err != nil {
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
	x, err := c.BeginExecution(&se.newest, id, txn)
	if err != nil {
		return nil, err
	}
	op.Execution = x
	return func() { x.End(); se.leave() }, nil
}
