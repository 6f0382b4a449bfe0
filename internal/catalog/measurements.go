package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// worthSealing is how many measurements a source must have got since it was
// sealed last before the end of a bucket's span makes it sealed again: late
// measurements would make a bucket each otherwise.
const worthSealing = 128

// fewOpen is how many open measurements go one by one rather than by a range
// tombstone, of which very many make reading slow.
const fewOpen = 32

// arriving are the measurements of one source that a unit inserts.
type arriving struct {
	key         []byte
	source      *openSource
	ms          []timeseries.Measurement
	size        int
	first, last int64
	seal        bool
}

// InsertMeasurements adds measurements. Those of a source that are enough for
// a bucket, or whose bucket's span is over, are sealed with it. The unit holds
// nothing before; it waits for the sources, in order. Errors: 26, and 171 and
// others of the keys that their buckets would have.
func (u *Unit) InsertMeasurements(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	c, err := u.enter(c)
	if err != nil {
		return err
	}
	if err := u.addOpen(ctx, c, ms, true); err != nil {
		return err
	}
	t := c.live.open
	u.docs += len(ms)
	u.u.OnCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stats.Commits++
		t.stats.Measurements += int64(len(ms))
	})
	return nil
}

// addOpen stores measurements as open ones of their sources; where seal is
// set, it seals those that must be.
func (u *Unit) addOpen(ctx context.Context, c *Collection, ms []timeseries.Measurement, seal bool) error {
	groups, err := u.lockSources(ctx, c, ms)
	if err != nil {
		return err
	}
	t := c.live.open
	seq := t.admit(c, groups, len(ms))
	size := 0
	for _, g := range groups {
		size += g.size
		if seal && g.seal {
			if err := u.sealWith(ctx, c, g, &seq); err != nil {
				return err
			}
			continue
		}
		for _, m := range g.ms {
			seq++
			if err := u.setOpen(c, g.key, m, seq); err != nil {
				return err
			}
		}
	}
	u.u.Add(t.counter, sumDocs, int64(len(ms)))
	u.u.Add(t.counter, sumBytes, int64(size))
	return nil
}

// setOpen stores an open measurement.
func (u *Unit) setOpen(c *Collection, source []byte, m timeseries.Measurement, seq uint64) error {
	u.entry = binary.BigEndian.AppendUint64(AppendOpenTime(append(u.entry[:0], source...), m.Time), seq)
	return u.u.Set(c.Open, u.entry, m.Doc)
}

// lockSources groups measurements by their sources, and locks those.
func (u *Unit) lockSources(ctx context.Context, c *Collection, ms []timeseries.Measurement) ([]*arriving, error) {
	byKey := map[string]*arriving{}
	var groups []*arriving
	var key []byte
	for _, m := range ms {
		key = appendSourceKey(key[:0], m.Meta)
		g := byKey[string(key)]
		if g == nil {
			g = &arriving{key: slices.Clone(key), first: math.MaxInt64, last: math.MinInt64}
			byKey[string(g.key)] = g
			groups = append(groups, g)
		}
		g.ms = append(g.ms, m)
		g.size += len(m.Doc)
		g.first, g.last = min(g.first, m.Time), max(g.last, m.Time)
	}
	locks := make([]storage.LockKey, len(groups))
	for i, g := range groups {
		if err := checkBucketKeys(c, g.ms[0]); err != nil {
			return nil, err
		}
		locks[i] = storage.LockKey{Class: storage.LockRecord, ID: c.Open, Key: g.key}
	}
	_, err := u.u.LockAll(ctx, locks)
	return groups, err
}

// checkBucketKeys makes sure that the bucket of a measurement can be in the
// indexes: what cannot shall fail now, not when it is sealed.
func checkBucketKeys(c *Collection, m timeseries.Measurement) error {
	if m.Meta.Type != bson.TypeDocument && m.Meta.Type != bson.TypeArray {
		return nil
	}
	probe := new(bson.Builder).Value("meta", m.Meta).Finish()
	for _, ix := range c.indexes {
		if ix.hasEntries() {
			if _, _, err := ix.Form.Keys(probe, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit counts what arrives into the table, says what must be sealed, and
// hands out as many sequence numbers as there can be open ones, behind the one
// it returns. REQUIRES: the sources are locked.
func (t *openTable) admit(c *Collection, groups []*arriving, n int) (seq uint64) {
	o := c.Settings.Timeseries
	t.mu.Lock()
	defer t.mu.Unlock()
	seq = t.seq
	t.seq += uint64(n)
	for _, g := range groups {
		s := t.sources[string(g.key)]
		if s == nil {
			s = newSource(g.key, g.ms[0].Meta.Clone())
			s.sealAt, s.restAt = worthSealing, time.Since(t.made)+restEvery(o)
			t.sources[string(g.key)] = s
			t.sorted = nil
			t.stats.Opened++
		}
		if g.source = s; s.Count == 0 {
			t.open++
		}
		s.grow(len(g.ms), g.size, g.first, g.last)
		over := s.Count >= s.sealAt && !timeseries.Accepts(timeseries.Start(s.First, o), s.Last, o)
		switch {
		case s.Count >= timeseries.Capacity:
			t.stats.FullByCount++
		case s.bytes >= timeseries.MaxBytes:
			t.stats.FullBySize++
		case over:
			t.stats.SpanOver++
		default:
			continue
		}
		g.seal = true
		t.seq += uint64(s.Count)
	}
	return seq
}

// sealWith puts the open measurements of a source and those that arrive into
// buckets. The newest stay open unless they fill one.
func (u *Unit) sealWith(ctx context.Context, c *Collection, g *arriving, seq *uint64) error {
	all, old, err := u.openOf(c, g.key)
	if err != nil {
		return err
	}
	n := len(all)
	slices.SortStableFunc(g.ms, byTime)
	all = mergeByTime(all, g.ms)
	o := c.Settings.Timeseries
	pieces := timeseries.Cut(all, o)
	var rest []timeseries.Measurement
	if last := pieces[len(pieces)-1]; !timeseries.IsFull(last) {
		rest, pieces = last, pieces[:len(pieces)-1]
	}
	if err := u.seal(ctx, c, pieces); err != nil {
		return err
	}
	if err := u.dropOpen(c, g.key, n, n); err != nil {
		return err
	}
	kept := 0
	for _, m := range rest {
		*seq++
		kept += len(m.Doc)
		if err := u.setOpen(c, g.key, m, *seq); err != nil {
			return err
		}
	}
	u.u.Add(c.live.open.counter, sumBytes, int64(kept-old-g.size))
	u.settle(c, g.source, rest)
	return nil
}

// settle notes in the table, when the unit commits, what is open of a source.
func (u *Unit) settle(c *Collection, s *openSource, open []timeseries.Measurement) {
	t := c.live.open
	n, size, first, last := len(open), 0, int64(0), int64(0)
	for i, m := range open {
		if size += len(m.Doc); i == 0 {
			first = m.Time
		}
		last = m.Time
	}
	u.u.OnCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.settleLocked(s, n, size, first, last)
	})
}

// openOf reads the open measurements of a locked source, by time, as they are
// committed, with their bytes.
func (u *Unit) openOf(c *Collection, source []byte) (ms []timeseries.Measurement, size int, err error) {
	it, err := u.c.engine.NewIter(c.Open, source, sourceEnd(source))
	if err != nil {
		return nil, 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, 0, err
		}
		m := timeseries.Measurement{Doc: bson.Doc(v).Clone(), Time: OpenTime(it.Key())}
		if name := c.Settings.Timeseries.MetaField; name != "" {
			m.Meta = m.Doc.Lookup(name)
		}
		ms = append(ms, m)
		size += len(v)
	}
	return ms, size, it.Err()
}

// sourceEnd is the key behind all open measurements of a source.
func sourceEnd(source []byte) []byte {
	end := slices.Clone(source)
	for range openSuffix {
		end = append(end, 0xff)
	}
	return append(end, 0xff)
}

// dropOpen removes the first n open measurements of a locked source, of all it
// has as they are committed: few one by one, many with one tombstone.
func (u *Unit) dropOpen(c *Collection, source []byte, n, all int) error {
	if n == 0 {
		return nil
	}
	if n == all && n > fewOpen {
		return u.u.DeleteRange(c.Open, source, sourceEnd(source))
	}
	it, err := u.c.engine.NewIter(c.Open, source, sourceEnd(source))
	if err != nil {
		return err
	}
	defer it.Close()
	i := 0
	for ok := it.First(); ok && i < n; ok = it.Next() {
		switch i++; {
		case n <= fewOpen:
			v, err := it.Value()
			if err != nil {
				return err
			}
			if err := u.u.Delete(c.Open, it.Key(), len(v)); err != nil {
				return err
			}
		case i == n:
			return u.u.DeleteRange(c.Open, source, append(slices.Clone(it.Key()), 0))
		}
	}
	return it.Err()
}

func byTime(a, b timeseries.Measurement) int { return cmp.Compare(a.Time, b.Time) }

// mergeByTime merges two lists that are in the order of time; of equal times,
// those of a come first.
func mergeByTime(a, b []timeseries.Measurement) []timeseries.Measurement {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 || a[len(a)-1].Time <= b[0].Time {
		return append(a, b...)
	}
	all := append(a, b...)
	slices.SortStableFunc(all, byTime)
	return all
}

// seal inserts a bucket for each piece.
func (u *Unit) seal(ctx context.Context, c *Collection, pieces [][]timeseries.Measurement) error {
	o := c.Settings.Timeseries
	u.u.OnCommit(func() {
		t := c.live.open
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stats.Sealed += int64(len(pieces))
	})
	for _, piece := range pieces {
		start := timeseries.Start(piece[0].Time, o)
		docs := make([]bson.Doc, len(piece))
		for i, m := range piece {
			docs[i] = m.Doc
		}
		bucket := timeseries.Pack(timeseries.ID(start), start, piece[0].Meta, docs, o)
		u.record = c.appendRecordKey(u.record[:0], bucket)
		if err := u.insert(ctx, c, bucket); err != nil {
			return err
		}
		u.docs--
	}
	return nil
}

// SealAll puts all open measurements of a time-series collection into buckets,
// as who looks at those expects. Errors: 26.
func (c *Catalog) SealAll(ctx context.Context, coll *Collection) error {
	for _, s := range coll.OpenSources() {
		err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.sealSource(ctx, coll, s.Key, math.MaxInt64) })
		if err != nil {
			return err
		}
	}
	return nil
}

// lockSource locks a source to the unit's end; nil where the table does not
// know it.
func (u *Unit) lockSource(ctx context.Context, c *Collection, key []byte) (*openSource, error) {
	if _, err := u.u.Lock(ctx, storage.LockRecord, c.Open, key); err != nil {
		return nil, err
	}
	t := c.live.open
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sources[string(key)], nil
}

// sealSource seals the open measurements of a source but those of buckets whose
// span goes on at an instant.
func (u *Unit) sealSource(ctx context.Context, c *Collection, key []byte, now int64) error {
	c, err := u.enter(c)
	if err != nil {
		return err
	}
	s, err := u.lockSource(ctx, c, key)
	if err != nil || s == nil {
		return err
	}
	ms, size, err := u.openOf(c, key)
	if err != nil {
		return err
	}
	n := 0
	if len(ms) > 0 {
		pieces := timeseries.Cut(ms, c.Settings.Timeseries)
		over := 0
		for over < len(pieces) && spanOver(pieces[over][0].Time, now, c.Settings.Timeseries) {
			n += len(pieces[over])
			over++
		}
		if err := u.seal(ctx, c, pieces[:over]); err != nil {
			return err
		}
		if err := u.dropOpen(c, key, n, len(ms)); err != nil {
			return err
		}
	}
	for _, m := range ms[n:] {
		size -= len(m.Doc)
	}
	u.u.Add(c.live.open.counter, sumBytes, -int64(size))
	u.settle(c, s, ms[n:])
	return nil
}

// EditOpen changes the open measurements of one source: f gets them, by time,
// under the source's lock, and returns those that stay, which may have another
// meta value than the source, and be none. It is called again where the unit has to be
// begun again. Errors: 26, and f's.
func (c *Catalog) EditOpen(ctx context.Context, coll *Collection, key []byte, d storage.Durability, f func([]timeseries.Measurement) ([]timeseries.Measurement, error)) error {
	return c.Run(ctx, d, func(u *Unit) error {
		now, err := u.enter(coll)
		if err != nil {
			return err
		}
		s, err := u.lockSource(ctx, now, key)
		if err != nil || s == nil {
			return err
		}
		ms, size, err := u.openOf(now, key)
		if err != nil || len(ms) == 0 {
			return err
		}
		n := len(ms)
		keep, err := f(ms)
		if err != nil || len(keep) == n && &keep[0] == &ms[0] {
			return err
		}
		if err := u.dropOpen(now, key, n, n); err != nil {
			return err
		}
		u.u.Add(now.live.open.counter, sumDocs, -int64(n))
		u.u.Add(now.live.open.counter, sumBytes, -int64(size))
		var same []timeseries.Measurement
		for _, m := range keep {
			if bytes.Equal(appendSourceKey(nil, m.Meta), key) {
				same = append(same, m)
			}
		}
		u.settle(now, s, same)
		return u.reopen(ctx, now, keep)
	})
}

// reopen stores measurements that are in the order of time again, as sources
// of theirs; none is sealed.
func (u *Unit) reopen(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	if len(ms) == 0 {
		return nil
	}
	return u.addOpen(ctx, c, ms, false)
}

// AddMeasured adds n, which may be negative, to the count of measurements, for
// who has changed how many are in a bucket.
func (u *Unit) AddMeasured(c *Collection, n int64) {
	u.u.Add(c.live.open.counter, sumDocs, n)
}

// BucketStats is what collStats tells of a time-series collection.
type BucketStats struct {
	Buckets, Bytes int64 // those that are packed
	Open           int64 // sources whose measurements are in no bucket yet

	// Since the start of the process: units that inserted measurements, those
	// measurements, sources met for the first time, buckets sealed, and how often
	// something was sealed because there was enough for a bucket, in number or
	// bytes, or its span was over.
	Commits, Measurements, Opened, Sealed int64
	FullByCount, FullBySize, SpanOver     int64
}

// BucketStats counts buckets. REQUIRES: IsTimeseries.
func (c *Collection) BucketStats() BucketStats {
	open := int64(len(c.OpenSources()))
	t := c.live.open
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.Buckets, s.Bytes, s.Open = c.live.counter.Load(sumDocs), c.live.counter.Load(sumBytes), open
	return s
}

// errNoTime is error 2, for a measurement without a time.
func errNoTime(field string) error {
	return mongoerr.New(mongoerr.BadValue, "'%s' must be present and contain a valid BSON UTC datetime value", field)
}

// NewMeasurement makes a measurement of a document: its time first, its meta
// value with fields in order, then the rest as it is. Errors: 2 where it has no
// date for its time.
func NewMeasurement(doc bson.Doc, o *schema.Timeseries) (timeseries.Measurement, error) {
	at := doc.Lookup(o.TimeField)
	if at.Type != bson.TypeDate {
		return timeseries.Measurement{}, errNoTime(o.TimeField)
	}
	return timeseries.NewMeasurement(doc, at, o), nil
}
