package catalog

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The coordinator's own part of a transaction over shards need not be prepared: the others have
// said yes before it commits, and it commits with the decision, in one unit, or the decision is to
// abort. So it is an entry of the log less, and its writes are made once less
// (docs/rfcs/0029-transactions-over-shards.md).

// maxLastBytes bounds a part that commits so: its batch, and the documents that it has written with
// those that were there before, which the log may tell, too. With the decision it is one entry of
// the log for sure.
const maxLastBytes = 1 << 20

// CommitsLast reports whether the transaction, which is in use, can be committed by CommitLast with
// a write into the collection beside. If not, Prepare says why, or it is large, or that collection
// has an index besides that on _id: its entry would have the time that the document has at first.
func (t *Transaction) CommitsLast(beside *Collection) bool {
	if len(t.writes) == 0 || len(t.created) > 0 || t.draft.u.Size() > maxLastBytes || t.bytes > maxLastBytes || len(beside.Indexes()) > 1 {
		return false
	}
	if t.also != nil && len(t.also.body) > maxLastBytes {
		return false
	}
	for i := range t.writes {
		if mayPrepare(t.writes[i].coll) != nil {
			return false
		}
	}
	return true
}

// CommitLast commits the transaction, which is in use, and with it what its coordinator writes into
// the collection beside: with adds that to the unit. It ends the transaction, whatever happens. It
// waits for gates as Prepare does, so that no two transactions wait for each other for ever. Where
// it fails and has not proposed the unit, nothing has happened, and never will.
//
// Errors: those of with, 24 if DDL takes too long, and those of Commit.
func (t *Transaction) CommitLast(ctx context.Context, beside *Collection, with func(*Unit) error) (proposed bool, err error) {
	defer t.end()
	u := t.draft
	u.leaveGates()
	if err := u.u.Loosen(); err != nil {
		return false, err
	}
	wait := max(t.lockWait, minPrepareWait)
	soon, end := context.WithTimeoutCause(ctx, wait, LockTimeout("the locks of a transaction over shards", wait))
	defer end()
	err = t.untilOpen(soon, u, func() (closed *Collection, err error) {
		defer u.leaveGates()
		u.redraft(t)
		if err := with(u); err != nil { // first, as where the part was prepared
			return beside, err
		}
		if closed, err = t.write(soon, u); err != nil {
			return closed, err
		}
		if err := t.noteAlso(u); err != nil {
			return nil, err
		}
		t.x.Did(retryable.Committed, 0, bson.Empty)
		proposed = true
		return nil, t.x.Commit(ctx, u, storage.Journaled)
	})
	return proposed, err
}
