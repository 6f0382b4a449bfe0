package exec

import (
	"bytes"
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/exec/unpack"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// InsertMeasurements adds measurements to a time-series collection, in a unit
// of their own.
func (w *Writer) InsertMeasurements(ctx context.Context, c *catalog.Collection, ms []timeseries.Measurement) error {
	return w.alone(ctx, func() error {
		err := w.x.Catalog.SealOldest(ctx, c, len(ms)+1)
		if err == nil {
			err = w.x.Catalog.FlushStep(ctx, c)
		}
		if err == nil {
			err = w.unit.InsertMeasurements(ctx, c, ms)
		}
		return err
	})
}

// RestoreBuckets is catalog.Unit.RestoreBuckets, in a unit of their own.
func (w *Writer) RestoreBuckets(ctx context.Context, c *catalog.Collection, buckets []catalog.RestoredBucket, ordered bool) (errs []error, err error) {
	err = w.alone(ctx, func() (err error) {
		errs, err = w.unit.RestoreBuckets(ctx, c, buckets, ordered)
		return err
	})
	return errs, err
}

// alone runs write while the writer's unit is a new one, and again with another one where it
// met a lock that it could not wait for.
func (w *Writer) alone(ctx context.Context, write func() error) error {
	for {
		if err := w.flush(ctx); err != nil {
			return err
		}
		err := write()
		if err == nil {
			return nil
		}
		w.giveUp()
		if !errors.Is(err, storage.ErrLockBusy) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// deleteMeasurements is Delete on a time-series collection. A query on a snapshot finds
// the affected buckets and sources; these are read again, completely, under their locks.
func (w *Writer) deleteMeasurements(ctx context.Context, c *catalog.Collection, s *Delete) (*Written, error) {
	out := &Written{deletes: true}
	if !s.Multi {
		return out, w.under(w.deleteMeasurement(ctx, c, s, out))
	}
	if s.Query.Paths == nil {
		s.Query.Paths = []string{} // except those that the filter reads
	}
	for attempt := 0; ; attempt++ {
		lost, err := w.deletePass(ctx, c, s, out)
		if err != nil || !lost || attempt == maxRestarts {
			return out, w.under(err)
		}
		out.Conflicts++
	}
}

// deletePass deletes the matches of one snapshot; lost says that some of them have moved
// since.
func (w *Writer) deletePass(ctx context.Context, c *catalog.Collection, s *Delete, out *Written) (lost bool, err error) {
	if err := w.show(ctx); err != nil {
		return false, err
	}
	r, err := w.x.start(ctx, c, s.Query, nil)
	if err != nil {
		return false, err
	}
	defer r.close()
	defer w.account(r, out)
	var row stage.Row
	var place unpack.Place
	found := int64(0)
	apply := func() error {
		if found == 0 {
			return nil
		}
		n, err := w.deleteAt(ctx, c, place, s.Query, r.source.visibility)
		out.Deleted += n
		lost = lost || n < found
		return err
	}
	for {
		ok, err := r.next(ctx, &row)
		if err != nil {
			return false, err
		}
		if !ok {
			return lost, apply()
		}
		if p := unpack.PlaceOf(row.Record); !bytes.Equal(p, place) {
			if err := apply(); err != nil {
				return false, err
			}
			place, found = p, 0
		}
		found++
	}
}

// account adds the counters and the plan of a query.
func (w *Writer) account(r *running, out *Written) {
	k, d := totals(r.winner.stage)
	out.Keys, out.Docs = out.Keys+k, out.Docs+d
	out.Summary, out.FromTrial = Summary(r.winner.node), r.tried
	out.Sorted, out.Spilled = sorting(r.winner.stage)
	out.node, out.stage = r.winner.node, r.winner.stage
}

// deleteAt deletes the matching measurements of one bucket or source that are not hidden, and
// returns their number.
func (w *Writer) deleteAt(ctx context.Context, c *catalog.Collection, place unpack.Place, q *Query, h *visibility) (n int64, err error) {
	env := matchEnv(q.Env)
	return w.removeAt(ctx, c, place, func(d bson.Doc) (bool, error) {
		gone, err := q.Filter.MatchEnv(d, env)
		return gone && !h.hidesMeasurement(d), err
	})
}

// removeAt removes the measurements of one bucket or source for which goes returns true.
func (w *Writer) removeAt(ctx context.Context, c *catalog.Collection, place unpack.Place, goes func(bson.Doc) (bool, error)) (n int64, err error) {
	if place.IsOpen() {
		if err := w.show(ctx); err != nil {
			return 0, err
		}
		err = w.x.Catalog.EditOpen(ctx, c, place.Key(), w.durability, w.guard, func(ms []timeseries.Measurement) ([]timeseries.Measurement, error) {
			n = 0
			var keep []timeseries.Measurement
			for _, m := range ms {
				gone, err := goes(m.Doc)
				if err != nil {
					return nil, err
				}
				if gone {
					n++
				} else {
					keep = append(keep, m)
				}
			}
			if n == 0 {
				return ms, nil
			}
			return keep, nil
		})
		return n, err
	}
	err = w.Do(ctx, func(u *catalog.Unit) error {
		n = 0
		doc, err := u.LockRecord(ctx, c, place.Key())
		if err != nil || doc == nil || c.Sharding().Hides(doc) {
			return err
		}
		n, err = removeFromBucket(ctx, u, c, place.Key(), doc, goes)
		return err
	})
	return n, err
}

// removeFromBucket rewrites a locked bucket without the measurements for which goes
// returns true. It removes a bucket that becomes empty.
func removeFromBucket(ctx context.Context, u *catalog.Unit, c *catalog.Collection, record catalog.RecordKey, doc bson.Doc, goes func(bson.Doc) (bool, error)) (n int64, err error) {
	o := c.Settings.Timeseries
	b, err := timeseries.Open(doc, o)
	if err != nil {
		return 0, errors.Join(storage.ErrCorruption, err)
	}
	rows, err := b.Rows(nil)
	if err != nil {
		return 0, errors.Join(storage.ErrCorruption, err)
	}
	var keep []bson.Doc
	for i := range rows.Count {
		d := rows.Doc(i)
		gone, err := goes(d)
		if err != nil {
			return 0, err
		}
		if gone {
			n++
		} else {
			keep = append(keep, d.Clone())
		}
	}
	switch {
	case n == 0:
		return 0, nil
	case len(keep) == 0:
		err = u.Delete(ctx, c, record, doc)
	default:
		err = u.Update(ctx, c, record, doc, timeseries.Pack(doc.Lookup("_id").ObjectID(), b.Start, b.Meta, keep, o))
	}
	if err == nil {
		u.AddMeasured(c, -n)
	}
	return n, err
}

// deleteMeasurement deletes the first measurement that a query finds.
func (w *Writer) deleteMeasurement(ctx context.Context, c *catalog.Collection, s *Delete, out *Written) error {
	for attempt := 0; attempt <= maxRestarts; attempt++ {
		place, doc, err := w.firstMeasurement(ctx, c, s.Query, out)
		if err != nil || doc == nil {
			return err
		}
		if place.IsOpen() && w.Execution != nil {
			// Open measurements are removed in a unit of their own, which would not
			// contain the record.
			if err := w.sealAll(ctx, c); err != nil {
				return err
			}
			continue
		}
		done := false
		n, err := w.removeAt(ctx, c, place, func(d bson.Doc) (bool, error) {
			if done || !bytes.Equal(d, doc) {
				return false, nil
			}
			done = true
			return true, nil
		})
		if err != nil {
			return err
		}
		if n > 0 {
			out.Deleted = 1
			if s.Keep {
				out.Old = doc
			}
			return nil
		}
		out.Conflicts++
	}
	return nil
}

// firstMeasurement finds the first match of a query, and its bucket or source; nil for none.
func (w *Writer) firstMeasurement(ctx context.Context, c *catalog.Collection, q *Query, out *Written) (place unpack.Place, doc bson.Doc, err error) {
	if err := w.show(ctx); err != nil {
		return nil, nil, err
	}
	if q.Limit == 0 {
		q.Limit = 1
	}
	r, err := w.x.start(ctx, c, q, nil)
	if err != nil {
		return nil, nil, err
	}
	defer r.close()
	defer w.account(r, out)
	var row stage.Row
	ok, err := r.next(ctx, &row)
	if err != nil || !ok {
		return nil, nil, err
	}
	return unpack.PlaceOf(row.Record), row.Doc.Clone(), nil
}

// updateMeasurements is Update on a time-series collection. Filter and modification are on
// the meta value only, and all matches are changed. Open measurements are sealed first, so
// that the buckets of one snapshot are complete. What is hidden in a bucket that is changed goes:
// the rule that hides it may not be one of the new meta value.
func (w *Writer) updateMeasurements(ctx context.Context, c *catalog.Collection, s *Update) (*Written, error) {
	out := &Written{}
	if err := w.sealAll(ctx, c); err != nil {
		return out, err
	}
	buckets := c.Buckets()
	o := c.Settings.Timeseries
	// Expressions and schemas are evaluated on the meta value alone, below.
	var asked []match.Node
	for _, n := range match.Conjuncts(s.Query.Filter.Root()) {
		if plan.OnMeta(n, o) {
			asked = append(asked, n)
		}
	}
	filter, err := match.Parse(o.BucketFilter(match.Serialize(match.AndOf(asked...))), &match.Options{Collator: s.Query.Collator})
	if err != nil {
		return out, err
	}
	menv := matchEnv(s.Query.Env)
	var in source
	in.loadTimeseriesVisibility(w.x.Catalog, c)
	q := &Query{}
	q.Env = s.Query.Env
	q.Filter, q.Collation, q.Collator, q.NoScan = filter, s.Query.Collation, s.Query.Collator, s.Query.NoScan
	if q.Hint, err = bucketHint(c, s.Query.Hint); err != nil {
		return out, err
	}
	err = w.each(ctx, buckets, q, true, false, out, metaEffect(func(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc) (bool, error) {
		b, err := timeseries.Open(doc, o)
		if err != nil {
			return false, errors.Join(storage.ErrCorruption, err)
		}
		shown, hidden, err := in.visibility.shownOf(doc, b.Meta)
		if err != nil {
			return false, errors.Join(storage.ErrCorruption, err)
		}
		if shown == nil {
			return false, nil
		}
		before := new(bson.Builder).Value(o.MetaField, b.Meta).Finish()
		matches, index, err := s.Query.Filter.MatchArrayIndex(before, menv)
		if err != nil || !matches {
			return false, err
		}
		count := int64(b.Count - hidden)
		out.Matched += count
		after, changed, err := s.Update.Apply(before, &update.Context{ArrayIndex: index, Env: s.Query.Env})
		if err != nil || !changed {
			return false, err
		}
		next := timeseries.WithMeta(shown, timeseries.NormalMeta(after.Lookup(o.MetaField)))
		if err := u.Update(ctx, buckets, record, doc, next); err != nil {
			return false, err
		}
		if hidden > 0 {
			u.AddMeasured(buckets, -int64(hidden))
		}
		out.Modified += count
		return false, nil
	}))
	return out, err
}

// sealAll seals all open measurements of a collection.
func (w *Writer) sealAll(ctx context.Context, c *catalog.Collection) error {
	if err := w.show(ctx); err != nil {
		return err
	}
	return w.x.Catalog.SealAll(ctx, c)
}

// metaEffect is the effect of an update of meta values on a bucket.
type metaEffect func(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc) (done bool, err error)

func (f metaEffect) apply(u *catalog.Unit, record catalog.RecordKey, doc bson.Doc, _ string) (bool, error) {
	return f(u, record, doc)
}
