package catalog

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// emptyWindows is how many windows without documents make their removal
// worthwhile by itself: each visit reads all of them.
const emptyWindows = 1000

// DropBuckets removes, without a write for each, the buckets of a time-series collection
// that are due at an instant by its own expireAfterSeconds, except those that end in the
// window of that instant, which is 256 ms wide. They are removed in one step with their
// counts. Open measurements stay. Where a sweep is needed first, it calls pause as Sweep
// does, and between two units rest with how long the one before took; its error ends the
// removal. REQUIRES: IsTimeseries.
func (c *Catalog) DropBuckets(ctx context.Context, coll *Collection, r *measurements.Rule, now int64, permit *Permit, pause, rest func(time.Duration) error) (d Dropped, err error) {
	if err := invariant.Require(coll.IsTimeseries(), "catalog: DropBuckets is of a time-series collection"); err != nil {
		return d, err
	}
	l, at := coll.live, c.evaluate()
	upTo := r.Before(now)
	if upTo == math.MinInt64 {
		return d, nil
	}
	high := coll.sections.Before(upTo)
	l.dropping.Lock()
	defer l.dropping.Unlock()
	sum, windows, err := coll.sumUpTo(c.engine, high)
	if err != nil || sum[windowDocs] == 0 && windows < emptyWindows {
		return d, err
	}
	if l.sinks(high) {
		// There is one low water. Where the time to live was shorter before, dead
		// entries below the old mark must be swept before it may sink.
		if _, err := c.Sweep(ctx, coll, pause); err != nil {
			return d, err
		}
	}
	for more := true; more; {
		begun := time.Now()
		if more, err = c.dropBucketPart(ctx, coll, at, high, r.Name, permit, &d); err != nil {
			return d, err
		}
		if more {
			if err := rest(time.Since(begun)); err != nil {
				return d, err
			}
		}
	}
	return d, nil
}

// dropBucketPart drops the next part of the buckets below a mark: all of them or, where
// each is listed, about as many as listedAtOnce. more says that there is a next part.
func (c *Catalog) dropBucketPart(ctx context.Context, coll *Collection, at Evaluation, high LowWater, rule string, permit *Permit, d *Dropped) (more bool, err error) {
	l := coll.live
	err = permit.Unit(func() error {
		l.gate.Lock()
		defer l.gate.Unlock()
		coll := coll.Latest()
		if coll == nil || l.sinks(high) || coll.sharding.Moves() { // what lies there may be another shard's
			d.More = coll != nil
			return nil
		}
		if err := permit.Check(coll); err != nil {
			return err
		}
		upTo := high
		if c.lists(coll) {
			part, err := coll.part(c.engine, LowWater{}, high, listedAtOnce)
			if err != nil {
				return err
			}
			if low := l.lowWater.Load(); !part.Sinks(low) {
				upTo = part
			} else if !high.Sinks(low.Max(part)) {
				upTo = low.Max(part) // buckets below the low water were sealed late
			}
		}
		gone, err := c.dropBucketsBelow(ctx, coll, at, upTo, rule)
		d.add(gone)
		d.Measurements += gone.Measurements
		more = err == nil && upTo != high
		return err
	})
	return more, err
}

// dropBucketsBelow drops the buckets in the windows below a mark. REQUIRES: the gate
// is closed.
func (c *Catalog) dropBucketsBelow(ctx context.Context, coll *Collection, at Evaluation, high LowWater, rule string) (d Dropped, err error) {
	if err := coll.live.gate.requireClosed(); err != nil {
		return d, err
	}
	sum, _, err := coll.sumUpTo(c.engine, high)
	if err != nil {
		return d, err
	}
	if sum[windowDocs] == 0 {
		return Dropped{}, c.forgetWindows(ctx, coll, at, LowWater{}, high)
	}
	var list *idList
	if c.lists(coll) {
		if list, err = coll.listSpans(c.engine, LowWater{}, high, nil); err != nil {
			return d, err
		}
		invariant.Check(int64(list.n) == sum[windowDocs], "catalog: a list has the buckets that a drop takes")
	}
	high = high.AfterDrop(coll.live.lowWater.Load())
	// From the first one on: some are sealed below the low water.
	if err := c.dropRange(ctx, coll, at, LowWater{}, high, sum, rule, list); err != nil {
		return Dropped{}, err
	}
	d.Docs, d.Bytes, d.Measurements = sum[windowDocs], sum[windowSize], sum[windowThird]
	for _, ix := range coll.indexes {
		if ix.hasEntries() {
			d.Keys += sum[windowDocs]
		}
	}
	return d, nil
}

// sinks reports whether the low water would drop to a mark while indexes still have dead
// entries above it.
func (l *live) sinks(to LowWater) bool {
	low := l.lowWater.Load()
	return to.Sinks(low) && l.swept.Load() != low
}

// sumUpTo adds up the windows below one; n is their number.
func (c *Collection) sumUpTo(r storage.Reader, high LowWater) (sum [windowSums]int64, n int64, err error) {
	// From the first one on: some are sealed below the low water.
	err = c.eachWindow(r, LowWater{}, high, func(w windowSum) bool {
		n++
		for i := range sum {
			sum[i] += w.d[i]
		}
		return true
	})
	return sum, n, err
}

// forgetWindows removes the sums of empty windows, from one mark up to another.
// REQUIRES: the gate is closed.
func (c *Catalog) forgetWindows(ctx context.Context, coll *Collection, at Evaluation, from, upTo LowWater) error {
	if err := coll.live.gate.requireClosed(); err != nil {
		return err
	}
	e := c.begin(coll, at)
	u := e.u
	defer u.Abort()
	for _, span := range from.Spans(upTo) {
		if err := u.DeleteRange(storage.IdentWindows, windowKey(nil, coll.Ident, span.From), windowKey(nil, coll.Ident, span.To)); err != nil {
			return err
		}
	}
	u.Frees()
	e.note(&forgottenNote{of(coll)})
	return c.commit(ctx, e, storage.Buffered)
}

// FirstEnd returns the end of the bucket that ends first after a time, by the record
// keys, in milliseconds; schema.Never if there is none. REQUIRES: IsTimeseries.
func (c *Catalog) FirstEnd(coll *Collection, after int64) (int64, error) {
	if err := invariant.Require(coll.IsTimeseries(), "catalog: FirstEnd is of a time-series collection"); err != nil {
		return 0, err
	}
	it, err := c.engine.NewIter(coll.Ident, keystring.Successor(keystring.Append(nil, bson.Date(after), false, nil)), nil)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.First() {
		return schema.Never, it.Err()
	}
	return layout.BucketEnd(it.Key()), nil
}

// SweepByTime removes the dead entries at the beginning of indexes that are ordered by
// time first, where a search for old measurements would step over them. It calls pause
// as Sweep does. REQUIRES: IsTimeseries.
func (c *Catalog) SweepByTime(ctx context.Context, coll *Collection, pause func(time.Duration) error) error {
	if err := invariant.Require(coll.IsTimeseries(), "catalog: SweepByTime is of a time-series collection"); err != nil {
		return err
	}
	if coll = coll.Latest(); coll == nil {
		return nil
	}
	for _, ix := range coll.indexes {
		if !ix.hasEntries() || !strings.HasPrefix(ix.Form.Parts[0].Path, "control.") {
			continue
		}
		w := sweeper{c: c, coll: coll, ix: ix, at: c.evaluate(), gone: coll.live.gone(), s: &Swept{}}
		if err := w.first(ctx, nil, pause); err != nil {
			return err
		}
	}
	return nil
}
