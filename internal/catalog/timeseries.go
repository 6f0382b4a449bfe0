package catalog

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Package measurements keeps the measurements of a time-series collection that are
// in no bucket yet, and puts them into buckets. This file has the units and gates
// for it, and a collection's methods about its measurements.

// derived is what follows from a descriptor, and is made when it is first
// needed.
type derived struct {
	once    sync.Once
	buckets *Collection
	order   *Index
}

// IsTimeseries reports whether the namespace is a time-series collection, whose
// documents are measurements: most in buckets, the newest in a keyspace of
// their own.
func (c *Collection) IsTimeseries() bool {
	return c.Settings.Timeseries != nil && !c.Namespace.IsBuckets()
}

// SeenAsView reports whether clients see a view: it is one, or a time-series collection,
// which is a view of its buckets to MongoDB. Commands that need documents refuse both
// with error 166.
func (c *Collection) SeenAsView() bool { return c.IsView() || c.IsTimeseries() }

// Buckets returns the collection of a time-series collection's buckets, always
// the same one for a descriptor.
// REQUIRES: IsTimeseries.
func (c *Collection) Buckets() *Collection {
	if !invariant.Check(c.IsTimeseries(), "catalog: Buckets is of a time-series collection") {
		return c
	}
	c.derived.once.Do(func() {
		n := *c
		n.Namespace = c.Namespace.Buckets()
		if s, err := c.Settings.Timeseries.BucketOrder(); err == nil {
			c.derived.order = &Index{Index: s, Form: s, Ident: c.Ident, Records: true, Ready: true, live: &indexLive{}}
		}
		c.derived.buckets = &n
	})
	return c.derived.buckets
}

// Stored returns the collection of the documents that are stored: of a time-series
// collection that of its buckets, of any other c.
func (c *Collection) Stored() *Collection {
	if c.IsTimeseries() {
		return c.Buckets()
	}
	return c
}

// HoldsBuckets reports whether the documents are the buckets of a time-series
// collection.
func (c *Collection) HoldsBuckets() bool { return c.Open != 0 && c.Namespace.IsBuckets() }

// BucketOrder is the order of the records, if they are buckets, as an index;
// nil for any other collection. No list of indexes has it.
func (c *Collection) BucketOrder() *Index {
	if !c.HoldsBuckets() {
		return nil
	}
	return c.derived.order
}

// newTimeseries gives a new time-series collection its keyspaces, and the
// index that it starts with.
func (t *change) newTimeseries(coll *Collection) error {
	coll.Open = t.u.NewIdent(coll.identRange())
	if spec := coll.Settings.Timeseries.DefaultIndex(); spec != nil {
		s, err := schema.LoadIndex(spec)
		if err != nil {
			return err
		}
		ix, err := newIndex(coll, s, t.u.NewIdent(coll.identRange()), false, true)
		if err != nil {
			return err
		}
		coll.indexes = []*Index{ix}
	}
	return t.c.openLive(coll)
}

// InsertMeasurements adds measurements, which are staged (package measurements), with
// their documents' bytes; call Catalog.FlushStep first. The unit must not hold
// anything before. Errors: 26, and 171 and others of the keys that their buckets would
// have.
func (u *Unit) InsertMeasurements(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if c.sharding != nil {
		if err := u.checkPlaces(c, ms); err != nil {
			return err
		}
	}
	if err := u.enterStaging(ctx, c.live); err != nil {
		return err
	}
	if err := c.live.measurements.Stage(&tableUnit{u, c}, ms); err != nil {
		return err
	}
	u.docs += len(ms)
	if u.e.ops.on {
		at := place{uuid: c.UUID, ns: c.live.current.Load().Namespace, flags: placeSilent}
		for _, m := range ms {
			u.e.ops.add(OpInsert, at, m.Doc, noWrite)
		}
	}
	return nil
}

// checkPlaces rejects measurements of which another shard owns the buckets that they would
// begin. Errors: 61 for an array in the shard key, 13388.
func (u *Unit) checkPlaces(c *Collection, ms []timeseries.Measurement) error {
	for i := range ms {
		bucket := ms[i].Place(c.Settings.Timeseries)
		var room [64]byte
		if _, err := c.sharding.Key.Append(room[:0], bucket); err != nil {
			return err
		}
		if err := u.checkOwned(c, bucket); err != nil {
			return err
		}
	}
	return nil
}

// enterStaging keeps what is staged in a collection from being frozen until the unit
// ends.
func (u *Unit) enterStaging(ctx context.Context, l *live) error {
	if u.stagesIn == l {
		return nil
	}
	if err := l.staging.RLock(ctx); err != nil {
		return err
	}
	if u.stagesIn == nil {
		u.stagesIn = l
	} else {
		u.onEnd = append(u.onEnd, l.staging.RUnlock)
	}
	return nil
}

// AddMeasured adds n, which may be negative, to the count of measurements, after a
// change of how many are in a bucket.
func (u *Unit) AddMeasured(c *Collection, n int64) { c.live.measurements.AddCount(u.u, n) }

// tableUnit is a unit inside a time-series collection, for its table.
type tableUnit struct {
	u *Unit
	c *Collection // of the buckets
}

// Storage implements measurements.Unit.
func (t *tableUnit) Storage() *storage.Unit { return t.u.u }

// Note implements measurements.Unit.
func (t *tableUnit) Note(c measurements.Change) { t.u.e.note(&tableNote{of(t.c), c}) }

// Options implements measurements.Unit.
func (t *tableUnit) Options() *schema.Timeseries { return t.c.Settings.Timeseries }

// CheckMeta implements measurements.Unit.
func (t *tableUnit) CheckMeta(meta bson.Value) error { return checkBucketKeys(t.c.indexes, meta) }

// KeepOut implements measurements.Unit.
func (t *tableUnit) KeepOut() {
	t.c.live.staging.Lock()
	t.u.onEnd = append(t.u.onEnd, t.c.live.staging.Unlock)
}

// AddBucket implements measurements.Unit.
func (t *tableUnit) AddBucket(ctx context.Context, bucket bson.Doc) error {
	if err := t.u.addBucket(ctx, t.c, bucket); err != nil {
		return err
	}
	t.u.docs--
	return nil
}

// addBucket adds a new bucket, without the count of its measurements.
func (u *Unit) addBucket(ctx context.Context, c *Collection, bucket bson.Doc) error {
	u.placeBucket(c, bucket)
	if err := u.insert(ctx, c, bucket); err != nil {
		return err
	}
	if u.e.ops.on && c.sharding != nil { // a recipient of buckets follows the log
		u.e.ops.add(OpInsert, c.placeOps(), bucket, u.stored)
	}
	return nil
}

// runIn makes units inside a time-series collection that put measurements into buckets,
// for its table. They write nothing that a client has not written, and whoever holds the
// table's lock for flushing waits for them: so they do not wait for the end of a critical
// section.
func (c *Catalog) runIn(coll *Collection) measurements.Run {
	return c.runAs(coll, func(u *Unit) { u.Moving = true })
}

// runAs is runIn for units that begin sets up.
func (c *Catalog) runAs(coll *Collection, begin func(*Unit)) measurements.Run {
	return func(ctx context.Context, d storage.Durability, f func(measurements.Unit) error) error {
		return c.Run(ctx, d, func(u *Unit) error {
			begin(u)
			now, err := u.enter(ctx, coll)
			if err != nil {
				return err
			}
			return f(&tableUnit{u, now})
		})
	}
}

// FlushStep does an insert's share of flushing what is staged in a collection or,
// where too much is staged in all together, flushes the one that has most. The
// caller must not have a unit that holds anything. Errors: 26, and those of sealing.
func (c *Catalog) FlushStep(ctx context.Context, coll *Collection) error {
	if t := coll.live.measurements; t.FlushWanted() {
		if did, err := t.FlushStep(ctx, c.runIn(coll)); did || err != nil {
			return err
		}
	}
	if !c.staged.Over() {
		return nil
	}
	t := c.staged.Most(c.tables())
	if t == nil {
		return nil
	}
	l := c.liveOf(t.Ident())
	if l == nil {
		return nil // it was dropped
	}
	if err := t.Flush(ctx, c.runIn(l.current.Load())); !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return err
	}
	return nil
}

// tables are the tables of all time-series collections.
func (c *Catalog) tables() iter.Seq[*measurements.Table] {
	return func(yield func(*measurements.Table) bool) {
		c.uuids.Range(func(_, l any) bool {
			t := l.(*live).measurements
			return t == nil || yield(t)
		})
	}
}

// FlushStaged flushes what is staged in a collection, however little that is. The
// caller must not have a unit that holds anything. Errors: 26, and those of
// sealing.
func (c *Catalog) FlushStaged(ctx context.Context, coll *Collection) error {
	return coll.live.measurements.Flush(ctx, c.runIn(coll))
}

// SealAll puts all open measurements of a time-series collection into buckets, for
// readers of the buckets themselves. Errors: 26.
func (c *Catalog) SealAll(ctx context.Context, coll *Collection) error {
	return coll.live.measurements.SealAll(ctx, c.runIn(coll))
}

// SealOldest enforces the bound on sources with open measurements: where there are more,
// it seals those with the oldest measurements, at most n. The caller must not have a
// unit that holds anything. Errors: 26.
func (c *Catalog) SealOldest(ctx context.Context, coll *Collection, n int) error {
	if !coll.live.measurements.TooMany() {
		return nil
	}
	return coll.live.measurements.SealOldest(ctx, c.runIn(coll), n)
}

// IdleSources lists the keys of sources, at most n, that have open measurements of a
// bucket whose span is over, except those that were sealed for that, or created, a
// short while ago. Each is for SealIdle.
func (c *Catalog) IdleSources(coll *Collection, n int) [][]byte {
	return coll.live.measurements.Idle(coll.Settings.Timeseries, c.Clock.ExpiryTime(), n)
}

// SealIdle seals the open measurements of a source, except those of a bucket whose span
// is not over. Errors: 26.
func (c *Catalog) SealIdle(ctx context.Context, coll *Collection, key []byte) error {
	return coll.live.measurements.SealIdle(ctx, c.runIn(coll), coll.Settings.Timeseries, key, c.Clock.ExpiryTime())
}

// EditOpen changes the open measurements of one source: f gets them, by time, under
// the source's lock, and returns those that stay: possibly none, or with another meta
// value. It is called again where the unit has to start over. g is the statement's view of
// the ownership, nil for the server's own changes. Errors: 26, those of admit, and f's.
func (c *Catalog) EditOpen(ctx context.Context, coll *Collection, key []byte, d storage.Durability, g *Guard, f func([]timeseries.Measurement) ([]timeseries.Measurement, error)) error {
	edit := c.runAs(coll, func(u *Unit) { u.Guard = g })
	return coll.live.measurements.Edit(ctx, c.runIn(coll), edit, key, d, f)
}

// MeasurementView is one state of a time-series collection: a snapshot, which the
// caller closes, and the sources that have open measurements in it, by key: see
// Table.View.
func (c *Catalog) MeasurementView(coll *Collection, prefixes ...[]byte) (*storage.Snapshot, []measurements.Source, error) {
	return coll.live.measurements.View(c.engine, prefixes...)
}

// OpenSources lists the sources that have open measurements, by the earliest
// time of those.
func (c *Collection) OpenSources() []measurements.Source { return c.live.measurements.Sources() }

// NewOpenReader makes a reader of open measurements in a state of the store, which
// the caller closes.
func (c *Collection) NewOpenReader(r storage.Reader) *measurements.Reader {
	return measurements.NewReader(r, c.Open, c.Settings.Timeseries)
}

// NoteFirstEnd calls Table.NoteFirstEnd.
func (c *Collection) NoteFirstEnd(source []byte, count int, end int64) {
	c.live.measurements.NoteFirstEnd(source, count, end)
}

// FirstOpenEnd returns the first end after after of a bucket that the open
// measurements of a source would make, of the sources that want accepts: see
// Table.FirstEnd. REQUIRES: IsTimeseries.
func (c *Collection) FirstOpenEnd(after int64, exact bool, want func(*measurements.Source) bool) int64 {
	if !invariant.Check(c.IsTimeseries(), "catalog: FirstOpenEnd is of a time-series collection") {
		return schema.Never
	}
	return c.live.measurements.FirstEnd(after, exact, want)
}

// BucketStats returns the statistics of buckets. REQUIRES: IsTimeseries.
func (c *Collection) BucketStats() measurements.Stats {
	if !invariant.Check(c.IsTimeseries(), "catalog: BucketStats is of a time-series collection") {
		return measurements.Stats{}
	}
	s := c.live.measurements.Stats()
	s.Buckets, s.Bytes = c.live.counter.Load(sumDocs), c.live.counter.Load(sumBytes)
	return s
}

// checkBucketKeys makes sure that buckets with a meta value can be in the
// indexes: otherwise the insert must fail now, and not later the sealing.
func checkBucketKeys(indexes []*Index, meta bson.Value) error {
	nested := meta.Type == bson.TypeDocument || meta.Type == bson.TypeArray
	var probe bson.Doc
	for _, ix := range indexes {
		if !ix.hasEntries() || !nested && ix.Form.Plugin == "" {
			continue // a plain index takes all that is not nested
		}
		if probe == nil {
			probe = new(bson.Builder).Value("meta", meta).Finish()
		}
		if _, _, err := ix.Form.Keys(probe, nil); err != nil {
			return err
		}
	}
	return nil
}

// checkOpenKeys makes sure that the buckets that open measurements will make
// can be in new indexes. REQUIRES: the gate is closed.
func (c *Collection) checkOpenKeys(fresh []*Index) error {
	if err := c.live.gate.requireClosed(); err != nil {
		return err
	}
	if c.Open == 0 {
		return nil
	}
	for _, s := range c.OpenSources() {
		if err := checkBucketKeys(fresh, s.Meta); err != nil {
			return err
		}
	}
	return nil
}

// HidingMeasurements are those of BucketRules that hide what is due
// (visibility: immediate), nil for none. As AllBucketRules, of a time-series
// collection only.
func (c *Collection) HidingMeasurements() (hiding []measurements.Rule) {
	for _, r := range c.BucketRules() {
		if r.Settings.Visibility == schema.Immediate {
			hiding = append(hiding, r)
		}
	}
	return hiding
}

// BucketRules are the rules of a time-series collection that are in force: not
// paused, and their indexes are ready. As AllBucketRules, of a time-series
// collection only.
func (c *Collection) BucketRules() []measurements.Rule {
	return slices.DeleteFunc(c.AllBucketRules(), func(r measurements.Rule) bool { return r.Settings.Paused || r.Building })
}

// AllBucketRules are the rules of a time-series collection, in force or not.
// REQUIRES: IsTimeseries.
func (c *Collection) AllBucketRules() []measurements.Rule {
	if !invariant.Check(c.IsTimeseries(), "catalog: rules of buckets are those of a time-series collection") {
		return nil
	}
	var rules []measurements.Rule
	if r := schema.SeriesRule(c.Settings); r != nil {
		rules = append(rules, measurements.Rule{Rule: r})
	}
	for _, ix := range c.indexes {
		if r := schema.IndexRule(ix.Index, &c.Settings.Expiry); r != nil {
			rules = append(rules, measurements.Rule{Rule: r, Name: ix.Name, Filter: ix.Filter, Building: !ix.Ready})
		}
	}
	return rules
}
