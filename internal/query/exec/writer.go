package exec

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// MaxUnitDocs and maxUnitBytes bound what a statement that writes many
	// documents commits at once.
	MaxUnitDocs  = 1000
	maxUnitBytes = 4 << 20
)

// Writer groups the writes of one command into units. Each document is written
// whole or not at all; a unit that is full, or that would have to wait for a
// lock while it holds others, is committed and the next one begun.
type Writer struct {
	// Doing is what a statement is said to have been doing where it fails while it
	// runs ("Plan executor error during findAndModify"); "" for nothing.
	Doing string
	// Execution records what statements do that a client may send again; nil for none.
	Execution *catalog.Execution
	// Tell is told of each document that was changed, and how: "insert", "update" or "remove". It
	// is not committed yet, and only valid during the call. Nil for nobody.
	Tell  func(c *catalog.Collection, how string, doc bson.Doc)
	guard *catalog.Guard

	memory   memory.Account
	document memory.Holding  // of the current document
	ctx      context.Context // of the current write

	x          *Executor
	txn        *catalog.Transaction // whose statement it is, or nil
	onPending  bool                 // units are evaluated on pending versions of documents
	unit       *catalog.Unit
	durability storage.Durability
	inserts    Written

	room  catalog.Unit   // memory of unit
	found catalog.Locked // the document that a statement by _id has found
	next  []byte         // the new version of the current document
}

// under prefixes an error with Doing.
func (w *Writer) under(err error) error {
	if err == nil || w.Doing == "" {
		return err
	}
	return mongoerr.Under(err, w.Doing)
}

// NewWriter begins a group of writes, acknowledged as d says. The caller ends
// it with Commit or Abort.
func (x *Executor) NewWriter(d storage.Durability) *Writer {
	w := new(Writer)
	w.Begin(x, d)
	return w
}

// Begin makes w, which is new or released, what NewWriter returns.
func (w *Writer) Begin(x *Executor, d storage.Durability) {
	w.x, w.durability, w.onPending = x, d, true
	w.memory.Open(x.Memory)
	w.document = w.memory.Hold(w)
	w.begin()
}

// BeginIn makes w the writer of a statement of a transaction: Commit and Abort only end the
// statement.
func (w *Writer) BeginIn(x *Executor, t *catalog.Transaction) {
	w.x, w.txn, w.unit = x, t, t.Draft()
	w.memory.Open(x.Memory)
	w.document, w.unit.Memory = w.memory.Hold(w), w.memory.Hold(w)
}

// leave ends a statement of a transaction.
func (w *Writer) leave() {
	if w.unit != nil {
		w.unit.Memory, w.unit = memory.Holding{}, nil
		w.txn.LeaveGates()
	}
}

// maxKeptDocument bounds the memory for a document that is kept for the next writer, in
// bytes.
const maxKeptDocument = 64 << 10

// Release makes a writer that has ended ready for another Begin; what its statements
// returned is over as well. It keeps memory for documents.
func (w *Writer) Release() {
	found, next := w.found, w.next
	*w = Writer{}
	if found.Size() <= maxKeptDocument {
		w.found = found
	}
	if cap(next) <= maxKeptDocument {
		w.next = next
	}
}

// NewUnmeteredWriter is NewWriter without an account of memory: expiry goes on where there
// is none left. It removes nothing that was not applied.
func (x *Executor) NewUnmeteredWriter(d storage.Durability) *Writer {
	w := &Writer{x: x, durability: d}
	w.begin()
	return w
}

// begin starts the next unit.
func (w *Writer) begin() {
	w.unit = &w.room
	w.unit.Begin(w.x.Catalog)
	w.unit.Memory, w.unit.OnPending, w.unit.Guard = w.memory.Hold(w), w.onPending, w.guard
}

// SetGuard sets the statements' view of the ownership; nil for no checks.
func (w *Writer) SetGuard(g *catalog.Guard) {
	w.guard = g
	if w.unit != nil { // also the draft of a transaction, for this statement
		w.unit.Guard = g
	}
}

// copiesWritten is the number of copies of a document in memory while it is written: the
// old version, the new one, and in the batch, two of which may just have grown.
const copiesWritten = 5

// Context is how long the writer may wait for memory.
func (w *Writer) Context() context.Context { return w.ctx }

// expect waits for the memory to write a document if the collection's documents are large.
func (w *Writer) expect(ctx context.Context, c *catalog.Collection) error {
	w.ctx = ctx
	return w.hold(averageSize(c))
}

// hold reserves the memory to write a document of the given size.
func (w *Writer) hold(size int) error {
	if size <= largeDocument {
		return nil
	}
	w.x.Memory.Settle(copiesWritten * size)
	return w.document.Set(copiesWritten * size)
}

// Commit makes what is pending visible and durable.
func (w *Writer) Commit(ctx context.Context) error {
	defer w.memory.Close()
	if w.unit == nil {
		return nil
	}
	if w.txn != nil {
		w.leave()
		return nil
	}
	u := w.unit
	w.unit = nil
	return w.commit(ctx, u, w.durability)
}

// commit commits a unit, with the record of what it does.
func (w *Writer) commit(ctx context.Context, u *catalog.Unit, d storage.Durability) error {
	if w.Execution != nil {
		return w.Execution.Commit(ctx, u, d)
	}
	return u.Commit(ctx, d)
}

// Abort drops what is pending; what was committed on the way stays.
func (w *Writer) Abort() {
	defer w.memory.Close()
	w.giveUp()
}

// giveUp drops the current unit.
func (w *Writer) giveUp() {
	if w.unit == nil {
		return
	}
	if w.txn != nil {
		w.leave()
		return
	}
	w.unit.Abort()
	w.unit = nil
	if w.Execution != nil {
		w.Execution.Drop()
	}
}

// flush commits the current unit and starts the next one. It does not wait for the disk:
// the last Commit does, for all before it.
func (w *Writer) flush(ctx context.Context) error {
	if w.unit != nil {
		u := w.unit
		w.unit = nil
		err := w.commit(ctx, u, storage.Buffered)
		if u.Memory.Release(); err != nil {
			return err
		}
	}
	w.begin()
	return nil
}

// show makes the writes of earlier statements, and the versions that they were evaluated
// on, visible to the next query.
func (w *Writer) show(ctx context.Context) error {
	if w.unit == nil || w.txn != nil || w.unit.Count() == 0 && !w.unit.ReadsPending() {
		return nil
	}
	return w.flush(ctx)
}

// Do runs a write of one document in the current unit, and once more in a new
// one where the first would have had to wait for a lock.
func (w *Writer) Do(ctx context.Context, write func(*catalog.Unit) error) error {
	w.ctx = ctx
	if w.unit == nil {
		w.begin()
	} else if w.txn == nil && (w.unit.Count() >= MaxUnitDocs || w.unit.Size() >= maxUnitBytes) {
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
	if x, plain := w.Execution, write; x != nil {
		write = func(u *catalog.Unit) error { return x.Write(u, plain) }
	}
	err := write(w.unit)
	for errors.Is(err, storage.ErrLockBusy) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.txn != nil {
			return storage.ErrConflict
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
		if err := storage.WaitBusy(ctx, err); err != nil {
			return err
		}
		err = write(w.unit)
	}
	if err != nil {
		if refused := w.unit.Settle(ctx); refused != nil {
			return refused // the error is about what was never committed, or never so at one time
		}
	}
	return err
}

// Insert adds a document that has an _id. Errors are those of catalog.Unit.
func (w *Writer) Insert(ctx context.Context, c *catalog.Collection, doc bson.Doc) error {
	w.ctx = ctx
	if err := w.hold(len(doc)); err != nil {
		return err
	}
	err := w.Do(ctx, func(u *catalog.Unit) error {
		return w.inserts.tally(u, func() error { return u.Insert(ctx, c, doc) })
	})
	if err == nil {
		w.inserts.KeysInserted += ownKeys(c)
		w.tell(c, "insert", doc)
	}
	return err
}

// tell tells of a document that was changed.
func (w *Writer) tell(c *catalog.Collection, how string, doc bson.Doc) {
	if w.Tell != nil {
		w.Tell(c, how, doc)
	}
}

// KeysInserted counts the index entries of the documents that Insert added.
func (w *Writer) KeysInserted() int64 { return w.inserts.KeysInserted }

// tally does a write and counts its index entries.
func (w *Written) tally(u *catalog.Unit, write func() error) error {
	inserted, deleted := u.KeysInserted(), u.KeysDeleted()
	err := write()
	w.KeysInserted += u.KeysInserted() - inserted
	w.KeysDeleted += u.KeysDeleted() - deleted
	return err
}

// ownKeys is how many index entries a record stands for: the one of _id, if the records
// are in its order without a clusteredIndex.
func ownKeys(c *catalog.Collection) int64 {
	if c.ClusteredByID() && c.Settings.Clustered == nil {
		return 1
	}
	return 0
}

// ExecStats is the tree of stages with their counters, as the profiler shows it.
func (w *Written) ExecStats() bson.Doc {
	kind, changed := "UPDATE", w.Modified
	if w.deletes {
		kind, changed = "DELETE", w.Deleted
	}
	if hack, ok := w.node.(*plan.IDHack); ok && w.Upserted.IsMissing() {
		n := &plan.Express{ID: hack.ID, Write: "EXPRESS_" + kind}
		return plan.Explain(n, countersOf(&eof{stats: stage.Stats{Node: n, Works: 1, KeysExamined: w.Keys, DocsExamined: w.Docs, EOF: true}}), plan.MaxExplain)
	}
	s := &wouldWrite{kind: kind, upserts: !w.Upserted.IsMissing(), matched: w.Matched + w.Deleted, changed: changed}
	s.input = w.stage
	if s.input == nil {
		s.input = &eof{stats: stage.Stats{Node: w.node, Works: 1, Advanced: w.Docs, KeysExamined: w.Keys, DocsExamined: w.Docs, EOF: true}}
	}
	n := &plan.Write{Input: s.input.Stats().Node, Kind: kind}
	s.stats = stage.Stats{Node: n, Works: s.input.Stats().Works + 1, NeedTime: s.input.Stats().Works, EOF: true}
	return plan.Explain(n, countersOf(s), plan.MaxExplain)
}
