package expire

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
)

// BatchedDelete removes, oldest first, the documents that are due by a rule.
// The TTL monitor runs it. A limit of zero is none.
type BatchedDelete struct {
	Rule *catalog.Rule
	// Now is the instant against which documents are checked, in milliseconds since
	// 1970.
	Now int64
	// Since skips what was already due at that instant; the smallest number skips
	// nothing.
	Since int64
	Limits
	// BatchDocs, BatchBytes and BatchTime end a batch. Small batches commit
	// together; where Single is set, each document commits alone.
	BatchDocs, BatchBytes int64
	BatchTime             time.Duration
	Single                bool
	// After is where the previous visit ended, its Visited.Place: entries before it
	// are skipped. Where much is due, stepping over what that visit has deleted is
	// most of the work. Nil for the beginning.
	After []byte
}

// Limits end a visit; more may then be left. Zero is no limit.
type Limits struct {
	MaxDocs, MaxBytes int64 // documents are buckets in a time-series collection
	MaxTime           time.Duration
	// Permit is checked in each unit before anything is removed. Where it no longer
	// holds, the visit ends as at a limit. Nil always holds.
	Permit *catalog.Permit
	// Progress is called after each commit with what that did. It may block, as no
	// unit is open then. Its error ends the visit.
	Progress func(Batch) error
}

// Batch is what was done in one commit, by batches of a BatchedDelete or a unit
// of a BucketExpiry.
type Batch struct {
	Batches     int64 // of BatchDocs documents
	Docs, Bytes int64 // documents are buckets in a time-series collection
	// Measurements is how many were in those; 0 in other collections.
	Measurements int64
	KeysDeleted  int64 // index entries
	Time         time.Duration
	Refetched    int64 // documents that had changed when they were checked again
}

// Visited is what a whole visit did.
type Visited struct {
	// More says that it ended at a limit.
	More bool
	// Place is the entry of the index at which it ended there.
	Place                      []byte
	Docs, Bytes, KeysDeleted   int64
	KeysExamined, DocsExamined int64
	// Stats is its plan with the counters, as explain prints them.
	Stats func() bson.Doc
}

// Statement is the visit as currentOp and the profiler show it: a delete by a
// hinted index. The smallest Date, from which on mongod shows it, is left out:
// drivers have no Date for it, and fail on all that comes with it.
func (d *BatchedDelete) Statement() bson.Doc {
	var b bson.Builder
	b.OpenDoc("q")
	for _, r := range d.Rule.RangesBetween(d.Since, d.Now)[:1] {
		b.OpenDoc(d.Rule.Index.Parts[0].Path)
		if r.From.Type != bson.TypeDate || r.From.Date() != math.MinInt64 {
			b.Value("$gte", r.From)
		}
		b.Value("$lte", r.To).Close()
	}
	return b.Close().Int32("limit", 0).Doc("hint", d.Rule.Index.Key).Finish()
}

// Summary is the visit's plan as planSummary shows it.
func (d *BatchedDelete) Summary() string {
	return exec.Summary(&plan.IndexScan{Index: &plan.Index{Index: d.Rule.Index.Index}})
}

// Run runs a visit. With an error it returns what was done until then.
func (d *BatchedDelete) Run(ctx context.Context, x *exec.Executor, c *catalog.Collection) (Visited, error) {
	scan := x.ScanRule(c, d.Rule, d.Rule.RangesBetween(d.Since, d.Now), d.After)
	v := deleteVisit{d: d, c: c, scan: scan, w: x.NewUnmeteredWriter(storage.Buffered)}
	defer scan.Close()
	defer v.w.Abort()
	more, err := v.run(ctx)
	if errors.Is(err, catalog.ErrNoPermit) {
		more, err = true, nil
	}
	var place []byte
	if more {
		place = scan.Place()
	}
	return Visited{
		More: more, Place: place, Docs: v.done.Docs, Bytes: v.done.Bytes, KeysDeleted: v.done.KeysDeleted,
		KeysExamined: scan.Stats().KeysExamined, DocsExamined: v.fetch.DocsExamined,
		Stats: func() bson.Doc { return scan.Explain(&v.fetch, &v.write) },
	}, err
}

// deleteVisit is a running BatchedDelete.
type deleteVisit struct {
	d       *BatchedDelete
	c       *catalog.Collection
	scan    *exec.RuleScan
	fetch   stage.Stats // of reading the documents again, under their locks
	write   stage.Stats // of deleting: a unit of work is a document deleted
	w       *exec.Writer
	atOnce  int64 // how many records are taken at once; 0 as the batches say
	done    Batch // the sum of the batches
	batch   Batch
	started time.Time           // of the batch
	group   []catalog.RecordKey // what is next, sorted
	keys    []byte              // backing of group
}

const (
	// maxGroupDocs is how many documents are taken at once where batches are
	// smaller.
	maxGroupDocs = 100
	// yieldDocs is how many are deleted before others get the processor.
	yieldDocs = 10
)

func (v *deleteVisit) run(ctx context.Context) (more bool, err error) {
	begun := time.Now()
	v.started = begun
	for {
		ended, err := v.gather(ctx)
		if err != nil {
			return false, err
		}
		for len(v.group) > 0 {
			err := v.d.Permit.Unit(func() error {
				if err := v.removeSome(ctx); err != nil {
					return err
				}
				return v.w.Commit(ctx)
			})
			if err != nil {
				return false, err
			}
			if err := v.committed(); err != nil {
				return false, err
			}
		}
		if ended {
			return false, nil
		}
		if v.d.MaxDocs > 0 && v.write.Works >= v.d.MaxDocs || v.d.MaxBytes > 0 && v.done.Bytes >= v.d.MaxBytes || v.d.MaxTime > 0 && time.Since(begun) >= v.d.MaxTime {
			return true, nil
		}
	}
}

// gather collects the records of the next batches, in their order.
func (v *deleteVisit) gather(ctx context.Context) (ended bool, err error) {
	n := v.groupDocs()
	v.group, v.keys = v.group[:0], v.keys[:0]
	var row stage.Row
	for len(v.group) < n && !ended {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		state, err := v.scan.Work(ctx, &row)
		if err != nil {
			return false, err
		}
		ended = state == stage.EOF
		if state == stage.Advanced {
			from := len(v.keys)
			v.keys = append(v.keys, row.Record...)
			v.group = append(v.group, v.keys[from:])
		}
	}
	slices.SortFunc(v.group, func(a, b catalog.RecordKey) int { return bytes.Compare(a, b) })
	v.group = slices.CompactFunc(v.group, func(a, b catalog.RecordKey) bool { return bytes.Equal(a, b) })
	return ended, nil
}

// groupDocs is how many records are taken at once. Batches that are smaller
// than maxGroupDocs commit together: a commit of ten documents costs as much as
// their deletion.
func (v *deleteVisit) groupDocs() int {
	n := int64(exec.MaxUnitDocs)
	switch {
	case v.atOnce > 0:
		n = v.atOnce
	case v.d.Single:
		return 1
	case v.d.BatchDocs > 0:
		n = min(v.d.BatchDocs*max(1, maxGroupDocs/v.d.BatchDocs), exec.MaxUnitDocs)
	}
	if v.d.MaxDocs > 0 {
		n = max(1, min(n, v.d.MaxDocs-v.write.Works))
	}
	if docs := v.c.Count(); v.d.MaxBytes > 0 && docs > 0 {
		n = max(1, min(n, (v.d.MaxBytes-v.done.Bytes)/max(1, v.c.DataSize()/docs)))
	}
	return int(n)
}

// removeSome deletes the documents of the batch that are still due, until a
// limit of bytes or time ends it. Those that another unit has locked come last,
// and are waited for.
func (v *deleteVisit) removeSome(ctx context.Context) error {
	var busy []catalog.RecordKey
	var stop catalog.RecordKey
	err := v.w.Do(ctx, func(u *catalog.Unit) (err error) {
		busy, err = u.LockRecords(ctx, v.c, v.group, func(k catalog.RecordKey, doc bson.Doc) error {
			if v.batch.Docs > 0 && v.full() {
				stop = k
				return errBatchFull
			}
			return v.remove(ctx, u, k, doc)
		})
		return err
	})
	if errors.Is(err, errBatchFull) {
		at, _ := slices.BinarySearchFunc(v.group, stop, func(a, b catalog.RecordKey) int { return bytes.Compare(a, b) })
		for len(busy) > 0 && bytes.Compare(busy[len(busy)-1], stop) > 0 {
			busy = busy[:len(busy)-1]
		}
		v.group = append(busy, v.group[at:]...)
		return nil
	}
	if err != nil {
		return err
	}
	v.group = nil
	for _, k := range busy {
		if err := v.wait(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// errBatchFull ends a batch before its group is done.
var errBatchFull = errors.New("the batch is full")

// wait deletes one document that another unit had locked. What a transaction has locked is
// left to the next pass: nobody waits for a transaction.
func (v *deleteVisit) wait(ctx context.Context, k catalog.RecordKey) error {
	return v.w.Do(ctx, func(u *catalog.Unit) error {
		doc, err := u.LockRecord(ctx, v.c, k)
		if storage.IsHeld(err) {
			return nil
		}
		if err != nil || doc == nil {
			return err
		}
		return v.remove(ctx, u, k, doc)
	})
}

// remove deletes one locked document if it is still due and this shard's, and the rule is
// still in force.
func (v *deleteVisit) remove(ctx context.Context, u *catalog.Unit, record catalog.RecordKey, doc bson.Doc) error {
	if err := v.d.Permit.Check(v.c.Latest()); err != nil {
		return err
	}
	v.fetch.DocsExamined++
	if v.d.Rule.Due(doc) > v.d.Now || catalog.Due(v.c.Latest().Archiving(), doc) <= v.d.Now || u.OwnedElsewhere(v.c, doc) {
		v.fetch.Count(stage.NeedTime)
		v.batch.Refetched++
		return nil
	}
	v.fetch.Count(stage.Advanced)
	before := u.KeysDeleted()
	u.Expires = v.d.Rule
	if err := u.Delete(ctx, v.c, record, doc); err != nil {
		return err
	}
	if v.batch.Docs%yieldDocs == yieldDocs-1 {
		runtime.Gosched() // others who wait for a processor need not wait for the whole group
	}
	v.batch.KeysDeleted += u.KeysDeleted() - before
	v.write.Count(stage.NeedTime)
	v.batch.Docs++
	v.batch.Bytes += int64(len(doc))
	return nil
}

// full reports whether the batch has reached its limit of bytes or time.
func (v *deleteVisit) full() bool {
	d := v.d
	return d.BatchBytes > 0 && v.batch.Bytes >= d.BatchBytes || d.BatchTime > 0 && time.Since(v.started) >= d.BatchTime
}

// committed counts a batch, and reports it.
func (v *deleteVisit) committed() error {
	v.done.Docs += v.batch.Docs
	v.done.Bytes += v.batch.Bytes
	v.done.KeysDeleted += v.batch.KeysDeleted
	var err error
	if v.batch != (Batch{}) && v.d.Progress != nil {
		v.batch.Batches = 1
		if v.d.BatchDocs > 0 {
			v.batch.Batches = max(1, (v.batch.Docs+v.d.BatchDocs-1)/v.d.BatchDocs)
		}
		v.batch.Time = time.Since(v.started)
		err = v.d.Progress(v.batch)
	}
	v.batch, v.started = Batch{}, time.Now()
	return err
}
