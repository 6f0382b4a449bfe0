package exec

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// maxUnitDocs and maxUnitBytes bound what a statement that writes many
	// documents commits at once.
	maxUnitDocs  = 1000
	maxUnitBytes = 4 << 20
)

// Writer groups the writes of one command into units. Each document is written
// whole or not at all; a unit that is full, or that would have to wait for a
// lock while it holds others, is committed and the next one begun.
type Writer struct {
	// Doing is what a statement is said to have been doing where it fails while it
	// runs ("Plan executor error during findAndModify"); "" for nothing.
	Doing string

	x          *Executor
	unit       *catalog.Unit
	durability storage.Durability
	inserts    Written
}

// under puts Doing in front of an error.
func (w *Writer) under(err error) error {
	if err == nil || w.Doing == "" {
		return err
	}
	return mongoerr.Under(err, w.Doing)
}

// NewWriter begins a group of writes, acknowledged as d says. The caller ends
// it with Commit or Abort.
func (x *Executor) NewWriter(d storage.Durability) *Writer {
	return &Writer{x: x, unit: x.Catalog.Begin(), durability: d}
}

// Commit makes what is pending visible and durable.
func (w *Writer) Commit(ctx context.Context) error {
	if w.unit == nil {
		return nil
	}
	u := w.unit
	w.unit = nil
	return u.Commit(ctx, w.durability)
}

// Abort drops what is pending; what was committed on the way stays.
func (w *Writer) Abort() {
	if w.unit != nil {
		w.unit.Abort()
		w.unit = nil
	}
}

// flush commits what is pending and begins the next unit. It does not wait for
// the disk: the last Commit does, for all before it.
func (w *Writer) flush(ctx context.Context) error {
	if w.unit != nil {
		u := w.unit
		w.unit = nil
		if err := u.Commit(ctx, storage.Buffered); err != nil {
			return err
		}
	}
	w.unit = w.x.Catalog.Begin()
	return nil
}

// show makes what the statements before have written visible to the query of
// the next one.
func (w *Writer) show(ctx context.Context) error {
	if w.unit == nil || w.unit.Count() == 0 {
		return nil
	}
	return w.flush(ctx)
}

// do runs a write of one document in the current unit, and once more in a new
// one where the first would have had to wait for a lock.
func (w *Writer) do(ctx context.Context, write func(*catalog.Unit) error) error {
	if w.unit == nil {
		w.unit = w.x.Catalog.Begin()
	} else if w.unit.Count() >= maxUnitDocs || w.unit.Size() >= maxUnitBytes {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	err := write(w.unit)
	for errors.Is(err, storage.ErrLockBusy) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
		err = write(w.unit)
	}
	return err
}

// Insert adds a document that has an _id. Errors are those of catalog.Unit.
func (w *Writer) Insert(ctx context.Context, c *catalog.Collection, doc bson.Doc) error {
	err := w.do(ctx, func(u *catalog.Unit) error {
		return w.inserts.tally(u, func() error { return u.Insert(ctx, c, doc) })
	})
	if err == nil {
		w.inserts.KeysInserted += ownKeys(c)
	}
	return err
}

// KeysInserted counts the index entries of the documents that Insert added.
func (w *Writer) KeysInserted() int64 { return w.inserts.KeysInserted }
