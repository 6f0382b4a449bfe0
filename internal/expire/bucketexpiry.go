package expire

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// BucketExpiry removes the measurements of a time-series collection that are
// due by a rule: a bucket at a time, when its last measurement is due; with the
// rule's setting exact, each measurement when it is due itself. Measurements
// that are in no bucket yet are treated as if they were.
type BucketExpiry struct {
	Rule measurements.Rule
	// Now is the instant of the visit, in milliseconds.
	Now int64
	Limits
}

// Statement is the visit as currentOp and the profiler show it.
func (d *BucketExpiry) Statement(o *schema.Timeseries) bson.Doc {
	return new(bson.Builder).Doc("q", match.Serialize(d.Rule.DueNow(o, d.Now))).Int32("limit", 0).Finish()
}

// bucketVisit is a running BucketExpiry.
type bucketVisit struct {
	*BucketExpiry
	x     *exec.Executor
	c     *catalog.Collection
	upTo  int64
	begun time.Time
	last  time.Time // when a unit was last counted
	done  Visited
}

// errVisitFull ends a visit at one of its limits.
var errVisitFull = errors.New("expire: a visit is at its limit")

// Run runs a visit. With an error it returns what was done until then; it counts
// buckets.
func (d *BucketExpiry) Run(ctx context.Context, x *exec.Executor, c *catalog.Collection) (Visited, error) {
	v := bucketVisit{BucketExpiry: d, x: x, c: c, upTo: d.Rule.Before(d.Now), begun: time.Now(), last: time.Now()}
	v.done.Stats = func() bson.Doc { return new(bson.Builder).String("stage", "BATCHED_DELETE").Finish() }
	err := v.open(ctx)
	if err == nil {
		err = v.buckets(ctx)
	}
	if errors.Is(err, errVisitFull) || errors.Is(err, catalog.ErrNoPermit) {
		v.done.More, err = true, nil
	}
	return v.done, err
}

// count counts what a committed unit did.
func (v *bucketVisit) count(gone Batch) error {
	v.done.Docs += gone.Docs
	v.done.Bytes += gone.Bytes
	v.done.KeysDeleted += gone.KeysDeleted
	if gone.Docs > 0 && v.Progress != nil {
		gone.Time = time.Since(v.last)
		if err := v.Progress(gone); err != nil {
			return err
		}
		v.last = time.Now()
	}
	if v.full(0, 0) {
		return errVisitFull
	}
	return nil
}

// full reports whether the visit would reach a limit with so much more.
func (v *bucketVisit) full(docs, bytes int64) bool {
	return v.MaxDocs > 0 && v.done.Docs+docs >= v.MaxDocs || v.MaxBytes > 0 && v.done.Bytes+bytes >= v.MaxBytes ||
		v.MaxTime > 0 && time.Since(v.begun) >= v.MaxTime
}

// open removes the due measurements that are in no bucket.
func (v *bucketVisit) open(ctx context.Context) error {
	o := v.c.Settings.Timeseries
	for _, s := range v.c.OpenSources() {
		if s.First > v.upTo {
			return nil
		}
		if !s.Due(v.upTo, v.Rule.Settings.Exact) || !v.Rule.Wants(o, &s) {
			continue
		}
		var gone Batch
		edit := func(ms []timeseries.Measurement) ([]timeseries.Measurement, error) {
			gone = Batch{}
			if err := v.Permit.Check(v.c.Latest()); err != nil {
				return nil, err
			}
			keep := ms
			for _, piece := range timeseries.Cut(ms, o) {
				n := duePart(piece, v.upTo, v.Rule.Settings.Exact)
				if n > 0 {
					gone.Docs++
					gone.Measurements += int64(n)
				}
				for _, m := range piece[:n] {
					gone.Bytes += int64(len(m.Doc))
				}
				if keep = keep[n:]; n < len(piece) {
					if len(keep) == len(ms) {
						v.c.NoteFirstEnd(s.Key, len(ms), piece[len(piece)-1].Time)
					}
					break
				}
			}
			return keep, nil
		}
		err := v.Permit.Unit(func() error { return v.x.Catalog.EditOpen(ctx, v.c, s.Key, storage.Buffered, nil, edit) })
		if err == nil {
			err = v.count(gone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// duePart returns how many of a bucket's measurements are due: all or none,
// unless the rule is exact.
func duePart(ms []timeseries.Measurement, upTo int64, exact bool) int {
	if ms[len(ms)-1].Time <= upTo {
		return len(ms)
	}
	n := 0
	for exact && ms[n].Time <= upTo {
		n++
	}
	return n
}

// buckets removes the buckets that are due.
func (v *bucketVisit) buckets(ctx context.Context) error {
	o := v.c.Settings.Timeseries
	buckets := v.c.Buckets()
	end := v.upTo
	if span := o.MaxSpanSeconds * 1000; v.Rule.Settings.Exact {
		end = min(end, math.MaxInt64-span) + span
	}
	var b bson.Builder
	b.OpenDoc("control.min."+o.TimeField).Date("$lte", v.upTo).Close()
	b.OpenDoc("control.max."+o.TimeField).Date("$lte", end).Close()
	filter, err := v.Rule.Buckets(o, b.Finish())
	if err != nil {
		return err
	}
	q := &exec.Query{Query: plan.Query{Filter: filter, NoExpress: true}}
	q.Collation, q.Collator = v.Rule.Collation()
	found, err := v.x.Find(ctx, buckets, q)
	if err != nil {
		return err
	}
	defer found.Close()
	w := v.x.NewUnmeteredWriter(storage.Buffered)
	defer w.Abort()
	err = v.removeBuckets(ctx, w, buckets, filter, found)
	v.done.KeysExamined, v.done.DocsExamined = found.Examined()
	return err
}

// removeBuckets removes the buckets that a query finds, some in each unit. The
// unit has ended when count makes the visit pause.
func (v *bucketVisit) removeBuckets(ctx context.Context, w *exec.Writer, buckets *catalog.Collection, filter *match.Filter, found *exec.Cursor) error {
	for ended := false; !ended; {
		var records []catalog.RecordKey
		for len(records) < maxGroupDocs && !ended {
			doc, err := found.Next(ctx)
			if err != nil {
				return err
			}
			if ended = doc == nil; !ended {
				records = append(records, catalog.RecordKey(slices.Clone(found.Record())))
			}
		}
		var gone Batch
		err := v.Permit.Unit(func() error { return v.removeUnit(ctx, w, buckets, filter, records, &gone) })
		if err == nil {
			err = v.count(gone)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeUnit removes, of some buckets, those that are still due and this shard's, until the visit
// reaches a limit, and commits.
func (v *bucketVisit) removeUnit(ctx context.Context, w *exec.Writer, buckets *catalog.Collection, filter *match.Filter, records []catalog.RecordKey, gone *Batch) error {
	for _, record := range records {
		if v.full(gone.Docs, gone.Bytes) {
			break
		}
		err := w.Do(ctx, func(u *catalog.Unit) error {
			doc, err := u.LockRecord(ctx, buckets, record)
			if err != nil || doc == nil {
				return err
			}
			if err := v.Permit.Check(v.c.Latest()); err != nil {
				return err
			}
			if still, err := filter.Match(doc); err != nil || !still || u.OwnedElsewhere(buckets, doc) {
				return err
			}
			return v.remove(ctx, u, buckets, record, doc, gone)
		})
		if err != nil {
			return err
		}
	}
	return w.Commit(ctx)
}

// remove removes a locked bucket, or its due measurements, and adds them to gone.
func (v *bucketVisit) remove(ctx context.Context, u *catalog.Unit, buckets *catalog.Collection, record catalog.RecordKey, doc bson.Doc, gone *Batch) error {
	b, err := timeseries.Open(doc, v.c.Settings.Timeseries)
	if err != nil {
		return errors.Join(storage.ErrCorruption, err)
	}
	n := int64(b.Count)
	if b.Last <= v.upTo {
		if err := u.Delete(ctx, buckets, record, doc); err != nil {
			return err
		}
		u.AddMeasured(buckets, -n)
		gone.KeysDeleted++
	} else {
		later, cut, err := timeseries.WithoutUpTo(doc, v.upTo, v.c.Settings.Timeseries)
		if err != nil {
			return errors.Join(storage.ErrCorruption, err)
		}
		if cut == 0 {
			return nil
		}
		n = int64(cut)
		u.AddMeasured(buckets, -n)
		if err := u.Update(ctx, buckets, record, doc, later); err != nil {
			return err
		}
	}
	gone.Docs++
	gone.Measurements += n
	gone.Bytes += int64(len(doc))
	return nil
}
