package catalog

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A router moves a document to another shard, when an update changes its shard key, by a
// transaction of its own. The shard that had the document stores with the commit, as one unit,
// what became of the client's statement, under the client's session: so it is not executed
// again when the client sends it again.

// forOther is a statement of another session that a transaction executes.
type forOther struct {
	session   retryable.Session
	body      []byte // of the record
	txn       int64
	statement int32
}

// read reads the body; false if it is none of one statement.
func (f *forOther) read(body []byte) bool {
	if !retryable.ValidBody(body) {
		return false
	}
	r, err := retryable.Parse(retryable.AppendValue(nil, 0, 0, body))
	if err != nil || len(r.Runs) != 1 || r.Runs[0].Count != 1 {
		return false
	}
	f.body, f.txn, f.statement = body, r.Txn, r.Runs[0].First
	return true
}

// ExecuteFor has the transaction, which is in use, store with its commit what a statement of
// another session has come to. Nobody else does the same meanwhile. Errors: 256 if the statement
// was executed, 112, 225 if the session has begun something newer, 72 for a second one.
func (t *Transaction) ExecuteFor(ctx context.Context, s retryable.Session, txn int64, run retryable.Run) error {
	f := &forOther{session: s}
	r := retryable.Record{Txn: txn, Date: time.Now().UnixMilli(), Runs: []retryable.Run{run}}
	if t.also != nil || run.Count != 1 || run.Kind.OfTransaction() || !f.read(r.AppendBody(nil)) || uint64(f.number()) >= 1<<32-1 {
		return mongoerr.New(mongoerr.InvalidOptions, "a transaction executes one statement for another session")
	}
	key := retryable.AppendKey(nil, s, f.number())
	if _, err := t.draft.u.Lock(ctx, storage.LockUnique, storage.IdentSessions, key); err != nil {
		return err
	}
	done, newest := false, txn
	err := t.c.eachRecord(s, func(_ uint32, r *retryable.Record) error {
		newest = max(newest, r.Txn)
		for i := range r.Runs {
			done = done || r.Txn == txn && r.Runs[i].Has(f.statement)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case done:
		return mongoerr.New(mongoerr.TransactionCommitted, "the statement was executed before")
	case newest > txn:
		return mongoerr.New(mongoerr.TransactionTooOld, "the session has executed something newer")
	}
	t.also = f
	return nil
}

// number is the number of the record.
func (f *forOther) number() uint32 { return loneRecords + uint32(f.statement) }

// noteAlso adds the record to the unit of the commit, unless the session has executed something
// newer by now.
func (t *Transaction) noteAlso(u *Unit) error {
	f := t.also
	if f == nil {
		return nil
	}
	newest, err := new(Newest).Txn(t.c, f.session)
	if err != nil || newest > f.txn {
		return err
	}
	u.e.also = &executedNote{about: about{id: storage.IdentSessions}, session: f.session, number: f.number(), body: f.body}
	u.e.note(u.e.also)
	return nil
}
