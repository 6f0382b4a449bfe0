package forecast

import (
	"context"
	"errors"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// OfBuckets makes a forecast for a rule of a time-series collection from the
// statistics of its buckets, without unpacking them. Documents are
// measurements; they are due with the last one of their bucket, even where the
// rule is exact. Those that are in no bucket yet are counted as if they were.
func OfBuckets(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *measurements.Rule, now int64) (*Forecast, error) {
	f := newForecast(now)
	f.Sized, f.Bucketed = true, true
	snapshot, open, err := x.Catalog.MeasurementView(c)
	if err != nil {
		return nil, err
	}
	defer snapshot.Close()
	buckets := c.Buckets()
	it, err := snapshot.NewIter(buckets.Ident, nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	o := c.Settings.Timeseries
	for ok, n := it.First(), 0; ok; ok, n = it.Next(), n+1 {
		if n%interruptEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		doc, err := it.Value()
		if err != nil {
			return nil, err
		}
		b, err := timeseries.Open(doc, o)
		if err != nil {
			return nil, errors.Join(storage.ErrCorruption, err)
		}
		f.count(lastDue(r, o, b.Meta, b.Last), Tally{Documents: int64(b.Count), Bytes: int64(len(doc)), Buckets: 1})
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	return f, f.countOpen(ctx, c.NewOpenReader(snapshot), open, r, o)
}

// countOpen counts open measurements, by the buckets that they would be in, and
// closes their reader.
func (f *Forecast) countOpen(ctx context.Context, reader *measurements.Reader, open []measurements.Source, r *measurements.Rule, o *schema.Timeseries) (err error) {
	defer func() {
		if cerr := reader.Close(); err == nil {
			err = cerr
		}
	}()
	for i := range open {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ms, err := reader.Read(&open[i], math.MinInt64, math.MaxInt64)
		if err != nil {
			return err
		}
		if len(ms) == 0 {
			continue
		}
		for _, piece := range timeseries.Cut(ms, o) {
			t := Tally{Documents: int64(len(piece))}
			for _, m := range piece {
				t.Bytes += int64(len(m.Doc))
			}
			f.count(lastDue(r, o, open[i].Meta, piece[len(piece)-1].Time), t)
		}
	}
	return nil
}

// lastDue returns when measurements with a meta value are due by a rule, given
// the time of the last one.
func lastDue(r *measurements.Rule, o *schema.Timeseries, meta bson.Value, last int64) int64 {
	var b bson.Builder
	b.Date(o.TimeField, last)
	if o.MetaField != "" {
		b.Value(o.MetaField, meta)
	}
	return r.Due(o, b.Finish())
}
