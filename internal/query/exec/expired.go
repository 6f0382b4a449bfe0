package exec

import (
	"bytes"
	"context"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
)

// BatchedDelete removes, oldest first, the documents that have a date at or
// before an instant in the first field of an index: what the TTL monitor runs.
// Zero limits are none.
type BatchedDelete struct {
	Index *catalog.Index
	// From and UpTo are the first and the last date that goes, in milliseconds
	// since 1970.
	From, UpTo int64
	// MaxDocs and MaxTime end the visit; more may then be left.
	MaxDocs int64
	MaxTime time.Duration
	// BatchDocs, BatchBytes and BatchTime end a batch, which commits as one. One
	// document a batch where Single is set.
	BatchDocs, BatchBytes int64
	BatchTime             time.Duration
	Single                bool
	// After is where a visit before ended, its Visited.Place: entries before it
	// are left out. To step over what that visit has deleted is most of the work
	// where much is due. Nil for the beginning.
	After []byte
	// Progress is called after each batch, with what it did.
	Progress func(Batch)
}

// Batch is what one batch of a BatchedDelete did.
type Batch struct {
	Docs, Bytes int64
	KeysDeleted int64 // index entries
	Time        time.Duration
	Refetched   int64 // documents that were looked at again and had changed
}

// Visited is what a whole visit did.
type Visited struct {
	// More says that it ended at a limit.
	More bool
	// Place is the entry of the index at which it ended there.
	Place                      []byte
	Docs, KeysDeleted          int64
	KeysExamined, DocsExamined int64
	// Stats is its plan with the counters, as explain prints them.
	Stats func() bson.Doc
}

// Plan is the visit as explain prints it.
func (d *BatchedDelete) Plan(ix *plan.Index) plan.Node {
	bounds := []plan.Intervals{{{Lo: bson.Date(d.From), Hi: bson.Date(d.UpTo), LoInc: true, HiInc: true}}}
	scan := &plan.IndexScan{Index: ix, Bounds: bounds, Backward: ix.Parts[0].Descending, Dedup: ix.IsMultikey()}
	return &plan.Write{Input: &plan.Fetch{Input: scan}, Kind: "BATCHED_DELETE"}
}

// Statement is the visit as currentOp and the profiler show it: a delete by a
// hinted index.
func (d *BatchedDelete) Statement() bson.Doc {
	return new(bson.Builder).Doc("q", d.due()).Int32("limit", 0).Doc("hint", d.Index.Key).Finish()
}

func (d *BatchedDelete) due() bson.Doc {
	var b bson.Builder
	b.OpenDoc(d.Index.Parts[0].Path).Date("$gte", d.From).Date("$lte", d.UpTo).Close()
	return b.Finish()
}

// recheck is the filter that a document still passes when its turn comes: its
// date may have been moved since the scan saw it.
func (d *BatchedDelete) recheck() (*match.Filter, error) {
	return match.Parse(d.due(), nil)
}

// Summary is the visit's plan as planSummary shows it.
func (d *BatchedDelete) Summary() string {
	return Summary(&plan.IndexScan{Index: &plan.Index{Index: d.Index.Index}})
}

// DeleteExpired runs a visit. What it returns with an error is what was done
// until then.
func (x *Executor) DeleteExpired(ctx context.Context, c *catalog.Collection, d *BatchedDelete) (Visited, error) {
	filter, err := d.recheck()
	if err != nil {
		return Visited{}, err
	}
	snapshot := x.Catalog.Engine().NewSnapshot()
	defer snapshot.Close()
	ix := &plan.Index{Index: d.Index.Index, Multikey: d.Index.Multikey(), Handle: d.Index}
	root := d.Plan(ix)
	b := builder{source: newSource(c, snapshot)}
	scan := b.build(root.Inputs()[0].Inputs()[0]).(*indexScan)
	scan.ranges.startAt(d.After, scan.backward)
	v := visit{d: d, c: c, filter: filter, root: root, scan: scan, w: x.NewWriter(storage.Buffered)}
	defer v.scan.Close()
	defer v.w.Abort()
	more, err := v.run(ctx)
	var place []byte
	if more {
		place = bytes.Clone(scan.it.Key())
	}
	return Visited{
		More: more, Place: place, Docs: v.done.Docs, KeysDeleted: v.done.KeysDeleted,
		KeysExamined: v.scan.Stats().KeysExamined, DocsExamined: v.fetch.DocsExamined,
		Stats: func() bson.Doc { return plan.Explain(root, v.counters()) },
	}, err
}

// visit is a BatchedDelete under way.
type visit struct {
	d       *BatchedDelete
	c       *catalog.Collection
	filter  *match.Filter
	root    plan.Node
	scan    *indexScan
	fetch   Stats // of reading the documents again, under their locks
	write   Stats // of deleting: a unit of work is a document deleted
	w       *Writer
	done    Batch // the sum of the batches
	batch   Batch
	started time.Time // of the batch
}

func (v *visit) run(ctx context.Context) (more bool, err error) {
	begun := time.Now()
	v.started = begun
	var row Row
	for {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		state, err := v.scan.Work(ctx, &row)
		if err != nil {
			return false, err
		}
		if state == EOF {
			return false, v.commit(ctx)
		}
		if state != Advanced {
			continue
		}
		if err := v.remove(ctx, row.Record); err != nil {
			return false, err
		}
		if v.full() {
			if err := v.commit(ctx); err != nil {
				return false, err
			}
		}
		if v.d.MaxDocs > 0 && v.write.Works >= v.d.MaxDocs || v.d.MaxTime > 0 && time.Since(begun) >= v.d.MaxTime {
			return true, v.commit(ctx)
		}
	}
}

// remove deletes one document if it is still due.
func (v *visit) remove(ctx context.Context, record catalog.RecordKey) error {
	return v.w.do(ctx, func(u *catalog.Unit) error {
		doc, err := u.LockRecord(ctx, v.c, record)
		if err != nil || doc == nil {
			return err
		}
		v.fetch.DocsExamined++
		due, err := v.due(doc)
		if err != nil {
			return err
		}
		if !due {
			v.fetch.count(NeedTime)
			v.batch.Refetched++
			return nil
		}
		v.fetch.count(Advanced)
		before := u.KeysDeleted()
		if err := u.Delete(ctx, v.c, record, doc); err != nil {
			return err
		}
		v.batch.KeysDeleted += u.KeysDeleted() - before
		v.write.count(NeedTime)
		v.batch.Docs++
		v.batch.Bytes += int64(len(doc))
		return nil
	})
}

// due says whether the document would still be found by the scan: by its date,
// and in a partial index by the index's filter.
func (v *visit) due(doc bson.Doc) (bool, error) {
	if due, err := v.filter.Match(doc); err != nil || !due || v.d.Index.Filter == nil {
		return due, err
	}
	return v.d.Index.Filter.Match(doc)
}

// counters prints the counters of the visit's plan.
func (v *visit) counters() plan.Counters {
	scan := countersOf(v.scan)
	return func(n plan.Node, b *bson.Builder, specific bool) {
		switch n := n.(type) {
		case *plan.Write:
			if specific {
				b.Int("nWouldDelete", v.write.Works)
				return
			}
			v.write.write(b)
		case *plan.Fetch:
			if specific {
				b.Int("docsExamined", v.fetch.DocsExamined).Int32("alreadyHasObj", 0)
				return
			}
			v.fetch.write(b)
		default:
			scan(n, b, specific)
		}
	}
}

func (v *visit) full() bool {
	d := v.d
	return d.Single || d.BatchDocs > 0 && v.batch.Docs >= d.BatchDocs || d.BatchBytes > 0 && v.batch.Bytes >= d.BatchBytes ||
		d.BatchTime > 0 && time.Since(v.started) >= d.BatchTime
}

func (v *visit) commit(ctx context.Context) error {
	if err := v.w.Commit(ctx); err != nil {
		return err
	}
	v.done.Docs += v.batch.Docs
	v.done.KeysDeleted += v.batch.KeysDeleted
	if v.batch != (Batch{}) && v.d.Progress != nil {
		v.batch.Time = time.Since(v.started)
		v.d.Progress(v.batch)
	}
	v.batch, v.started = Batch{}, time.Now()
	return nil
}

// FirstDate is the From of a BatchedDelete that takes every date there is.
const FirstDate = math.MinInt64
