package catalog

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/waits"
)

// A unit of a replica set's primary that only updates documents in place hands their
// locks over as soon as the order of its effect is decided (Effect.Ordered). The new
// versions of the documents are pending until the effect is applied, and the next
// holder of a lock is evaluated on them, or waits (docs/rfcs/0021-hot-documents.md).

// maxHotDocument is the largest size of a pending document, in bytes. With larger ones
// the log is the bottleneck.
const maxHotDocument = 1 << 20

// errEvaluatedOnRefused says that an operation was evaluated on a write that was
// refused. The operation has left no trace itself.
var errEvaluatedOnRefused = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation depended on a write that the replica set did not accept").WithLabels("RetryableWriteError")

// errEvaluationOver says that an operation was evaluated on a member that has ceased to be
// the primary since: what was on its way was applied, or not, while the operation read. It
// has left no trace itself.
var errEvaluationOver = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted because this member is no longer the primary that began it").WithLabels("RetryableWriteError")

// pendingRead is a pending version of a document on which a unit is evaluated.
type pendingRead struct {
	pending.Version
	written bool // by the unit itself, which has a newer one
}

// keepsPending reports whether updates change documents of the collection in place, and
// the collection is replicated.
func (c *Collection) keepsPending() bool { return c.FindsByID() && !c.Relaid() && !c.own() }

// versionKey makes u.key the key of a document's versions. identity is its lock
// name.
func (u *Unit) versionKey(c *Collection, identity []byte) {
	u.key = append(storage.AppendIdent(u.key[:0], c.Ident), identity...)
}

// read returns the version of u.key on which the unit is evaluated, or nil.
func (u *Unit) read() *pendingRead {
	for i := range u.reads {
		if u.reads[i].Key == string(u.key) {
			return &u.reads[i]
		}
	}
	return nil
}

// version returns the pending version of a document that the unit has just locked. Where
// ok is false, the unit's reader has the newest version: nothing is pending, or no
// longer, or the unit has written the document since. Errors: the cause of ctx's end
// while it waited.
func (u *Unit) version(ctx context.Context, c *Collection, identity []byte) (v pending.Version, ok bool, err error) {
	if u.c.pending == nil {
		return v, false, nil
	}
	u.versionKey(c, identity)
	if u.txn != nil {
		return v, false, u.overtaken(c, identity)
	}
	if r := u.read(); r != nil {
		return r.Version, !r.written, nil
	}
	if u.OnPending {
		if v, ok = u.c.pending.Read(u.key, u.e.at); ok {
			u.reads = append(u.reads, pendingRead{Version: v})
			return v, true, nil
		}
	}
	return v, false, u.c.applied(ctx, u.key)
}

// overtaken reports, of a document that a transaction has just locked, that a later version
// is pending, or was applied since the lock was taken. Error 112.
func (u *Unit) overtaken(c *Collection, identity []byte) error {
	if u.c.pending.Newest(u.key) != nil {
		return storage.ErrConflict
	}
	return u.u.CheckConflict(storage.LockRecord, c.Ident, identity)
}

// applied waits until nothing is pending of a document that is locked.
func (c *Catalog) applied(ctx context.Context, key []byte) error {
	for w := c.pending.Newest(key); w != nil; w = c.pending.Newest(key) {
		c.pending.Waited()
		of := waits.Of(ctx)
		of.Begin(waits.Conflict)
		err := w.Wait(ctx)
		of.End(waits.Conflict)
		if err != nil && !errors.Is(err, pending.ErrRefused) {
			return err
		}
	}
	return nil
}

// await waits until the unit's reader has the newest version of a document that it
// has locked.
func (u *Unit) await(ctx context.Context, c *Collection, identity []byte) error {
	if u.c.pending == nil {
		return nil
	}
	u.versionKey(c, identity)
	if r := u.read(); r != nil && r.written {
		return nil
	}
	return u.c.applied(ctx, u.key)
}

// isPending reports whether a document has a pending version.
func (u *Unit) isPending(c *Collection, identity []byte) bool {
	if u.c.pending == nil {
		return false
	}
	u.versionKey(c, identity)
	return u.c.pending.Newest(u.key) != nil
}

// awaitHolder waits for the pending version of another unit's document that has an
// index key in the store: the new version may not have the key. False if nothing
// is pending.
func (u *Unit) awaitHolder(ctx context.Context, c *Collection, holder RecordKey) (bool, error) {
	if u.c.pending == nil {
		return false, nil
	}
	u.versionKey(c, c.lockName(holder))
	w := u.c.pending.Newest(u.key)
	if w == nil {
		return false, nil
	}
	u.c.pending.Waited()
	if err := w.Wait(ctx); err != nil && !errors.Is(err, pending.ErrRefused) {
		return false, err
	}
	return true, nil
}

// wrote records that the unit has written the document of its record.
func (u *Unit) wrote(c *Collection) {
	if len(u.reads) == 0 {
		return
	}
	u.versionKey(c, c.lockName(u.record))
	if r := u.read(); r != nil {
		r.written = true
	}
}

// pend notes the new version of the document of the unit's record, updated in
// place.
func (u *Unit) pend(c *Collection, doc bson.Doc) {
	if !u.OnPending || u.c.pending == nil {
		return
	}
	u.wrote(c)
	e := u.e
	if e.keeps || len(doc) > maxHotDocument || !c.keepsPending() {
		e.keeps = true
		return
	}
	if e.write == nil {
		e.write = new(pending.Write)
	}
	u.versionKey(c, c.lockName(u.record))
	e.keeps = !e.write.Put(u.key, u.record, doc)
}

// ReadsPending reports whether the unit is evaluated on versions of documents that
// have not been applied, or had not been when it read them.
func (u *Unit) ReadsPending() bool { return len(u.reads) > 0 }

// Settle waits until everything on which the unit is evaluated has been applied: it is
// for callers that report what they read without a commit of the unit. Errors: 11602
// where some of it was refused or the evaluation is over, and the cause of ctx's end.
func (u *Unit) Settle(ctx context.Context) error {
	for i := range u.reads {
		if err := u.reads[i].Write.Wait(ctx); errors.Is(err, pending.ErrRefused) {
			return errEvaluatedOnRefused
		} else if err != nil {
			return err
		}
	}
	if u.over() {
		return errEvaluationOver
	}
	return nil
}

// over reports, of a unit of clients' statements, that what it has read need not be of one
// state. A deposed primary's writes whose outcome is not known have no locks any more, and
// are applied beside it where they were in the log. A transaction reads a fixed state.
func (u *Unit) over() bool {
	if !u.OnPending || u.txn != nil || u.e.own || len(u.gates) == 0 || u.c.evaluator == nil {
		return false
	}
	now := u.c.evaluate()
	return u.e.at.Term == 0 || now.Term != u.e.at.Term || now.Epoch != u.e.at.Epoch
}

// Ordered says that the order of the effect is decided: it takes effect before all
// effects that the committer is given from now on, and if it is refused, so are all
// of these with the same Evaluation. A committer may call it once, before the effect
// is applied.
func (e *Effect) Ordered() {
	if e.pends {
		e.u.ReleaseRecords()
	}
}

// Pending returns counts of what is pending, and of evaluations on it. Zero on a
// standalone.
func (c *Catalog) Pending() pending.Stats {
	if c.pending == nil {
		return pending.Stats{}
	}
	return c.pending.Stats()
}
