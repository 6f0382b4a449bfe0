package catalog

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A unit of a replica set's primary that only updates documents in place hands their
// locks over as soon as the order of its effect is decided (Effect.Ordered). What it
// makes of the documents is pending until it is applied, and who takes a lock next is
// evaluated on that, or waits (docs/rfcs/0021-hot-documents.md).

// maxHotDocument is the size of a document, in bytes, up to which it is pending. Of
// greater ones the log takes less in a second than what is gained.
const maxHotDocument = 1 << 20

// errEvaluatedOnRefused says that an operation was evaluated on a write that came to
// nothing. It has left no trace itself.
var errEvaluatedOnRefused = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation depended on a write that the replica set did not accept").WithLabels("RetryableWriteError")

// pendingRead is a version of a document on which a unit is evaluated.
type pendingRead struct {
	pending.Version
	written bool // by the unit: it has a newer one itself
}

// keepsPending says whether an update leaves documents of the collection where they
// are, and other members have them.
func (c *Collection) keepsPending() bool { return c.FindsByID() && !c.Relaid() && !c.own() }

// versionKey makes u.key the key of a document's versions. identity is what it is
// locked by.
func (u *Unit) versionKey(c *Collection, identity []byte) {
	u.key = append(storage.AppendIdent(u.key[:0], c.Ident), identity...)
}

// read is the version of u.key on which the unit is evaluated, or nil.
func (u *Unit) read() *pendingRead {
	for i := range u.reads {
		if u.reads[i].Key == string(u.key) {
			return &u.reads[i]
		}
	}
	return nil
}

// version is the pending version of a document that the unit has just locked. Where it
// is not ok, the unit's reader has the truth: nothing is pending, or no more, or the unit
// has written the document since. Errors: the cause of ctx's end while it waited.
func (u *Unit) version(ctx context.Context, c *Collection, identity []byte) (v pending.Version, ok bool, err error) {
	if u.c.pending == nil {
		return v, false, nil
	}
	u.versionKey(c, identity)
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

// applied waits until nothing is pending of a document that is locked.
func (c *Catalog) applied(ctx context.Context, key []byte) error {
	for w := c.pending.Newest(key); w != nil; w = c.pending.Newest(key) {
		c.pending.Waited()
		if err := w.Wait(ctx); err != nil && !errors.Is(err, pending.ErrRefused) {
			return err
		}
	}
	return nil
}

// await waits until the unit's reader has the truth of a document that it has locked.
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

// isPending says whether something is pending of a document.
func (u *Unit) isPending(c *Collection, identity []byte) bool {
	if u.c.pending == nil {
		return false
	}
	u.versionKey(c, identity)
	return u.c.pending.Newest(u.key) != nil
}

// awaitHolder waits for what is pending of a document of another unit that has a key
// of an index in the store: it may have it no more. False where there is nothing.
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

// wrote says that the unit has written the document of its record.
func (u *Unit) wrote(c *Collection) {
	if len(u.reads) == 0 {
		return
	}
	u.versionKey(c, c.lockName(u.record))
	if r := u.read(); r != nil {
		r.written = true
	}
}

// pend notes what the unit has made of the document of its record, in place.
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

// ReadsPending says whether the unit is evaluated on documents as others leave them
// that have not been applied, or were not when it read them.
func (u *Unit) ReadsPending() bool { return len(u.reads) > 0 }

// Settle waits until all that the unit is evaluated on has been applied: for who tells
// of it without a commit of the unit. Errors: 11602 where some came to nothing, and the
// cause of ctx's end.
func (u *Unit) Settle(ctx context.Context) error {
	for i := range u.reads {
		if err := u.reads[i].Write.Wait(ctx); errors.Is(err, pending.ErrRefused) {
			return errEvaluatedOnRefused
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Ordered says that the place of the effect is decided: it takes effect before all
// effects that the committer is given from now on, and where it is refused, so are all
// of these that are of its Evaluation. A committer may say so once, before the effect
// is applied, and while nobody applies it.
func (e *Effect) Ordered() {
	if e.pends {
		e.u.ReleaseRecords()
	}
}

// Pending tells of what is pending, and how often others were evaluated on it. Zero on
// a standalone.
func (c *Catalog) Pending() pending.Stats {
	if c.pending == nil {
		return pending.Stats{}
	}
	return c.pending.Stats()
}
