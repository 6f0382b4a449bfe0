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
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// worthSealing is how many measurements a source must have got since it was
// sealed last before the end of a bucket's span makes it sealed again: late
// measurements would make a bucket each otherwise.
const worthSealing = 128

// fewOpen is how many records of open measurements go one by one rather than by
// a range tombstone, of which very many make reading slow.
const fewOpen = 32

// arriving are the measurements of one source that a unit flushes or stores.
type arriving struct {
	key         []byte
	source      *openSource
	ms          []timeseries.Measurement
	size        int
	first, last int64
	seal        bool
}

// InsertMeasurements adds measurements, which are staged (staged.go), with their
// documents' bytes: see Catalog.FlushStep. The unit holds nothing before. Errors: 26, and 171 and
// others of the keys that their buckets would have.
func (u *Unit) InsertMeasurements(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if err := u.stage(ctx, c, ms); err != nil {
		return err
	}
	u.docs += len(ms)
	if u.e.ops.on {
		at := place{c.UUID, c.live.current.Load().Namespace}
		for _, m := range ms {
			u.e.ops.add(OpInsert, at, m.Doc)
		}
	}
	return nil
}

// reopen stores measurements that are in the order of time again, as open ones
// of sources of theirs; none is sealed.
func (u *Unit) reopen(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	if len(ms) == 0 {
		return nil
	}
	groups := bySource(ms)
	if err := u.lockGroups(ctx, c, groups); err != nil {
		return err
	}
	seq := c.live.open.numbers(len(groups))
	note := &reopenedNote{about: of(c), seq: seq + uint64(len(groups))}
	u.e.note(note)
	size := 0
	for _, g := range groups {
		seq++
		size += g.size
		note.groups = append(note.groups, reopened{g.key, g.ms[0].Meta.Clone(), len(g.ms), g.size, g.first, g.last})
		if err := u.setOpen(c, g.key, g.ms, seq); err != nil {
			return err
		}
	}
	u.u.Add(c.live.open.counter, sumDocs, int64(len(ms)))
	u.u.Add(c.live.open.counter, sumBytes, int64(size))
	return nil
}

// setOpen stores open measurements of a source, which are in the order of time,
// as one record.
func (u *Unit) setOpen(c *Collection, source []byte, ms []timeseries.Measurement, seq uint64) error {
	u.entry = binary.BigEndian.AppendUint64(AppendOpenTime(append(u.entry[:0], source...), ms[len(ms)-1].Time), seq)
	return u.u.SetFilled(c.Open, u.entry, sizeOf(ms), func(b []byte) { fillDocs(b, ms) })
}

// sizeOf is the bytes of measurements.
func sizeOf(ms []timeseries.Measurement) (n int) {
	for _, m := range ms {
		n += len(m.Doc)
	}
	return n
}

// fillDocs writes measurements one behind the other.
func fillDocs(b []byte, ms []timeseries.Measurement) {
	for _, m := range ms {
		b = b[copy(b, m.Doc):]
	}
}

// bySource groups measurements by their sources.
func bySource(ms []timeseries.Measurement) (groups []*arriving) {
	byKey := map[string]*arriving{}
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
	return groups
}

// lockGroups locks the sources of measurements.
func (u *Unit) lockGroups(ctx context.Context, c *Collection, groups []*arriving) error {
	locks := make([]storage.LockKey, len(groups))
	for i, g := range groups {
		if err := checkBucketKeys(c.indexes, g.ms[0].Meta); err != nil {
			return err
		}
		locks[i] = storage.LockKey{Class: storage.LockRecord, ID: c.Open, Key: g.key}
	}
	_, err := u.u.LockAll(ctx, locks)
	return err
}

// checkBucketKeys makes sure that buckets with a meta value can be in the
// indexes: what cannot shall fail now, not when it is sealed.
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

// checkOpenKeys makes sure that the buckets which open measurements will be can
// be in new indexes. REQUIRES: the gate is closed.
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

// addLocked puts a source into the table. REQUIRES: mu is held.
func (t *openTable) addLocked(key []byte, meta bson.Value, o *schema.Timeseries) *openSource {
	invariant.HeldForWriting(&t.mu, "catalog: the lock of the table of sources is held")
	s := newSource(key, meta)
	s.sealAt, s.idleSealAt = worthSealing, time.Since(t.made)+idleSealEvery(o)
	t.sources[string(key)] = s
	t.sorted = nil
	t.stats.Opened++
	return s
}

// reopened counts what is stored again, in records with numbers up to seq.
func (t *openTable) reopened(c *Collection, groups []reopened, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = max(t.seq, seq)
	for _, g := range groups {
		s := t.sources[string(g.key)]
		if s == nil {
			s = t.addLocked(g.key, g.meta, c.Settings.Timeseries)
		}
		if s.Count == 0 {
			t.open++
		}
		s.grow(g.n, g.size, g.first, g.last)
		s.StoredLast = max(s.StoredLast, g.last)
	}
}

// numbers hands out sequence numbers, and returns the one behind which they are.
func (t *openTable) numbers(n int) (seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seq = t.seq
	t.seq += uint64(n)
	return seq
}

// admit says which sources of staged measurements must be sealed, and hands out
// sequence numbers, one for each, behind the one it returns.
func (t *openTable) admit(c *Collection, groups []*arriving) (seq uint64) {
	o := c.Settings.Timeseries
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range groups {
		s := g.source
		over := s.Count-len(s.Staged) >= s.sealAt && !timeseries.Accepts(timeseries.Start(s.First, o), s.Last, o)
		switch {
		case s.ready():
			t.stats.FullByCount++
		case s.bytes >= timeseries.MaxBytes:
			t.stats.FullBySize++
		case over:
			t.stats.SpanOver++
		default:
			continue
		}
		g.seal = true
	}
	seq = t.seq
	t.seq += uint64(len(groups))
	return seq
}

// sealWith puts the open measurements of a source and those that arrive into
// buckets. The newest stay open unless they fill one.
func (u *Unit) sealWith(ctx context.Context, c *Collection, g *arriving, seq *uint64) error {
	all, old, records, err := u.openOf(c, g.source)
	if err != nil {
		return err
	}
	slices.SortStableFunc(g.ms, byTime)
	all = mergeByTime(all, g.ms)
	o := c.Settings.Timeseries
	pieces := timeseries.Cut(all, o)
	var rest []timeseries.Measurement
	if last := pieces[len(pieces)-1]; !timeseries.IsFull(last) {
		rest, pieces = last, pieces[:len(pieces)-1]
	}
	*seq++
	return u.sealed(ctx, c, g.source, pieces, rest, records, old+g.size, *seq)
}

// sealed puts measurements of a locked source into buckets, and stores the rest
// of what is open; before are so many records, and so many bytes are open.
func (u *Unit) sealed(ctx context.Context, c *Collection, s *openSource, pieces [][]timeseries.Measurement, rest []timeseries.Measurement, records, size int, seq uint64) error {
	if err := u.seal(ctx, c, pieces); err != nil {
		return err
	}
	if err := u.dropOpen(c, s.Key, records); err != nil {
		return err
	}
	kept := sizeOf(rest)
	if len(rest) > 0 {
		if err := u.setOpen(c, s.Key, rest, seq); err != nil {
			return err
		}
	}
	u.u.Add(c.live.open.counter, sumBytes, int64(kept-size))
	u.noteOpen(c, s, rest, seq, len(pieces))
	return nil
}

// noteOpen notes what is open of a source, in records with numbers up to seq, after
// some buckets of it were sealed.
func (u *Unit) noteOpen(c *Collection, s *openSource, open []timeseries.Measurement, seq uint64, buckets int) {
	n := &openNote{about: of(c), key: s.Key, n: len(open), size: sizeOf(open), seq: seq, buckets: buckets}
	if n.n > 0 {
		n.first, n.last = open[0].Time, open[n.n-1].Time
	}
	u.e.note(n)
}

// openOf reads the open measurements of a locked source that are not staged, by
// time, as they are committed, with their bytes and the number of their records.
func (u *Unit) openOf(c *Collection, s *openSource) (ms []timeseries.Measurement, size, records int, err error) {
	r := c.NewOpenReader(u.c.engine)
	defer r.Close()
	if ms, records, err = r.stored(s.Key, s.Meta, math.MinInt64); err != nil {
		return nil, 0, 0, err
	}
	size = sizeOf(ms)
	if !slices.IsSortedFunc(ms, byTime) {
		slices.SortStableFunc(ms, byTime)
	}
	return ms, size, records, nil
}

// sourceEnd is the key behind all open measurements of a source.
func sourceEnd(source []byte) []byte {
	end := slices.Clone(source)
	for range openSuffix {
		end = append(end, 0xff)
	}
	return append(end, 0xff)
}

// dropOpen removes the records with open measurements of a locked source, of
// which it has so many: few one by one, many with one tombstone.
func (u *Unit) dropOpen(c *Collection, source []byte, records int) error {
	if records > fewOpen {
		return u.u.DeleteRange(c.Open, source, sourceEnd(source))
	}
	if records == 0 {
		return nil
	}
	it, err := u.c.engine.NewIter(c.Open, source, sourceEnd(source))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := u.u.Delete(c.Open, it.Key(), len(v)); err != nil {
			return err
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
	for _, piece := range pieces {
		start := timeseries.Start(piece[0].Time, o)
		docs := make([]bson.Doc, len(piece))
		for i, m := range piece {
			docs[i] = m.Doc
		}
		bucket := timeseries.Pack(timeseries.ID(start), start, piece[0].Meta, docs, o)
		u.placeBucket(c, bucket)
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
	if err := c.FlushStaged(ctx, coll); err != nil {
		return err
	}
	for _, s := range coll.OpenSources() {
		err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.sealSource(ctx, coll, s.Key, math.MaxInt64) })
		if err != nil {
			return err
		}
	}
	return nil
}

// lockSource locks a source to the unit's end (invariant open-locked); nil where
// the table does not know it.
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
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	s, err := u.lockSource(ctx, c, key)
	if err != nil || s == nil {
		return err
	}
	ms, size, records, err := u.openOf(c, s)
	if err != nil || len(ms) == 0 {
		return err
	}
	pieces := timeseries.Cut(ms, c.Settings.Timeseries)
	over, n := 0, 0
	for over < len(pieces) && spanOver(pieces[over][0].Time, now, c.Settings.Timeseries) {
		n += len(pieces[over])
		over++
	}
	if over == 0 {
		return nil
	}
	return u.sealed(ctx, c, s, pieces[:over], ms[n:], records, size, c.live.open.numbers(1)+1)
}

// EditOpen changes the open measurements of one source: f gets them, by time,
// under the source's lock, and returns those that stay, which may have another
// meta value than the source, and be none. It is called again where the unit has to be
// begun again. Errors: 26, and f's.
func (c *Catalog) EditOpen(ctx context.Context, coll *Collection, key []byte, d storage.Durability, f func([]timeseries.Measurement) ([]timeseries.Measurement, error)) error {
	if coll.live.open.isStaged(key) {
		if err := c.FlushStaged(ctx, coll); err != nil {
			return err
		}
	}
	return c.Run(ctx, d, func(u *Unit) error {
		now, err := u.enter(ctx, coll)
		if err != nil {
			return err
		}
		s, err := u.lockSource(ctx, now, key)
		if err != nil || s == nil {
			return err
		}
		ms, size, records, err := u.openOf(now, s)
		if err != nil || len(ms) == 0 {
			return err
		}
		n := len(ms)
		keep, err := f(ms)
		if err != nil || len(keep) == n && &keep[0] == &ms[0] {
			return err
		}
		if err := u.dropOpen(now, key, records); err != nil {
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
		u.noteOpen(now, s, same, 0, 0)
		return u.reopen(ctx, now, keep)
	})
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
	if !invariant.Check(c.IsTimeseries(), "catalog: BucketStats is of a time-series collection") {
		return BucketStats{}
	}
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
	m, _, err := AppendMeasurement(make([]byte, 0, len(doc)), doc, o)
	return m, err
}

// AppendMeasurement is NewMeasurement with the measurement's bytes behind those
// of dst where it has the capacity.
func AppendMeasurement(dst []byte, doc bson.Doc, o *schema.Timeseries) (timeseries.Measurement, []byte, error) {
	at := doc.Lookup(o.TimeField)
	if at.Type != bson.TypeDate {
		return timeseries.Measurement{}, dst, errNoTime(o.TimeField)
	}
	m, dst := timeseries.AppendMeasurement(dst, doc, at, o)
	return m, dst, nil
}
