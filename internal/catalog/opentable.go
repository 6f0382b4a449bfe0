package catalog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// The measurements of a time-series collection that are in no bucket yet are
// open. The newest are staged (staged.go); the others are in records of one or
// more, in the order of their sources and times. The key is
//
//	key string of the meta value ‖ its hash ‖ time of the last ‖ sequence number
//
// The hash tells apart what is equal and not the same, such as 1 and 1.0.
// A source is what one meta value stands for.

const (
	// openSuffix is the length of what follows a source's key.
	openSuffix = 16
	// maxOpenSources bounds the sources of a collection that have open
	// measurements: beyond it, those with the oldest are sealed.
	maxOpenSources = 200_000
	// keptSources is how many sources without open measurements the table keeps
	// for each one that has some, up to maxOpenSources, and sparedSources how many
	// more.
	keptSources   = 4
	sparedSources = 4096
)

// Source is one source of measurements with open ones, as the table knew it.
type Source struct {
	Key  []byte     // in front of the keys of its open measurements
	Meta bson.Value // Missing where they have none
	// Count is how many there are at most; First and Last are bounds of their
	// times, in milliseconds.
	Count       int
	First, Last int64
	// Staged are those of them that are in memory only, as far as a reader is
	// concerned; see OpenReader. StoredLast is a bound of the times of the others.
	Staged     []timeseries.Measurement
	StoredLast int64
	// FirstEnd is the least time at which the first bucket ends that they would
	// be; math.MinInt64 where nobody has looked.
	FirstEnd int64
}

// openSource is a source in the table. What it says of the open measurements
// is raised before they commit, and exact only after they were sealed: so no
// reader misses one. The table's lock guards it.
type openSource struct {
	Source
	bytes  int
	frozen []timeseries.Measurement // staged before those in Staged, and about to be flushed
	likely int                      // how many will be staged, by those that were frozen last
	sealAt int                      // the count from which it is worth to look for a whole span
	// idleSealAt is when it may be sealed in the background, since the table was made.
	idleSealAt time.Duration
}

// openTable knows the sources that have open measurements.
type openTable struct {
	counter *storage.Counter // of all measurements; bytes of the open ones
	made    time.Time
	bound   int // maxOpenSources, but in tests
	part    int // partBytes, but in tests

	mu      sync.RWMutex
	sources map[string]*openSource
	open    int           // of them have open measurements
	oldest  [][]byte      // those to be sealed next where there are too many
	sorted  []*openSource // by key, nil where it must be made anew
	seq     uint64
	stats   BucketStats // but for what is counted elsewhere
	staging staging
}

// openMeasurements reads what is open.
func (c *Catalog) openMeasurements(coll *Collection) error {
	t := &openTable{sources: map[string]*openSource{}, made: time.Now(), bound: maxOpenSources, part: partBytes, staging: staging{total: &c.staged}}
	coll.live.open = t
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if t.counter, err = c.engine.OpenCounter(coll.Open); err != nil {
		return err
	}
	p, err := progressIn(c.engine, coll.Open)
	if err != nil {
		return err
	}
	it, err := c.engine.NewIter(coll.Open, nil, []byte{progressKey})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err == nil {
			err = t.recall(coll, &p, it.Key(), v)
		}
		if err != nil {
			return err
		}
	}
	t.recallFrozen(&p)
	for _, s := range t.sources {
		s.sealAt, s.idleSealAt = 0, 0 // nobody knows how long they have waited
	}
	t.stats = BucketStats{}
	return it.Err()
}

// recallFrozen notes what was frozen when the process ended, and was not flushed.
func (t *openTable) recallFrozen(p *progress) {
	g := &t.staging
	g.flushes, g.cut = p.flushes, p.cut
	t.seq = max(t.seq, p.cut) // the records with the numbers before it may be gone, and the last part takes all below
	for _, s := range t.sources {
		if len(s.frozen) > 0 {
			g.left = append(g.left, s)
		}
	}
	slices.SortFunc(g.left, func(a, b *openSource) int { return bytes.Compare(a.Key, b.Key) })
}

// metaOf is the meta value of a stored measurement.
func metaOf(d bson.Doc, o *schema.Timeseries) bson.Value {
	if o.MetaField == "" {
		return bson.Value{}
	}
	return d.Lookup(o.MetaField)
}

// recall notes the measurements of a record.
func (t *openTable) recall(coll *Collection, p *progress, key, v []byte) error {
	if len(key) < 9 {
		return storage.ErrCorruption
	}
	t.seq = max(t.seq, binary.BigEndian.Uint64(key[len(key)-8:]))
	o := coll.Settings.Timeseries
	if key[0] == stagedKeys {
		return eachStored(bytes.Clone(v), o.TimeField, func(d bson.Doc, at int64) error {
			source := appendSourceKey(nil, metaOf(d, o))
			if p.flushedFrom(key, source) {
				return nil
			}
			t.stageLocked(coll, source, timeseries.Measurement{Doc: d, Meta: metaOf(d, o), Time: at}, stagedNumber(key) < p.cut)
			return nil
		})
	}
	if len(key) < openSuffix {
		return storage.ErrCorruption
	}
	source := key[:len(key)-openSuffix]
	return eachStored(v, o.TimeField, func(d bson.Doc, at int64) error {
		s := t.sources[string(source)]
		if s == nil {
			s = t.addLocked(bytes.Clone(source), metaOf(d, o).Clone(), o)
		}
		if s.Count == 0 {
			t.open++
		}
		s.grow(1, len(d), at, at)
		s.StoredLast = max(s.StoredLast, at)
		return nil
	})
}

func newSource(key []byte, meta bson.Value) *openSource {
	return &openSource{Source: Source{Key: key, Meta: meta, First: math.MaxInt64, Last: math.MinInt64, FirstEnd: math.MinInt64, StoredLast: math.MinInt64}}
}

// grow counts measurements in.
func (s *openSource) grow(n, size int, first, last int64) {
	s.growEnd(first)
	s.Count, s.bytes = s.Count+n, s.bytes+size
	s.First, s.Last = min(s.First, first), max(s.Last, last)
}

// appendSourceKey appends the key of the source with a meta value.
func appendSourceKey(dst []byte, meta bson.Value) []byte {
	if meta.IsMissing() {
		return append(dst, 0)
	}
	dst = keystring.Append(append(dst, 1), meta, false, nil)
	var d xxhash.Digest
	d.ResetWithSeed(uint64(meta.Type))
	d.Write(meta.Data)
	return binary.BigEndian.AppendUint64(dst, d.Sum64())
}

// SourcePrefix is in front of the keys of all sources whose meta value equals
// meta.
func SourcePrefix(meta bson.Value) []byte { return keystring.Append([]byte{1}, meta, false, nil) }

// AppendOpenTime appends a time to a source's key: records with measurements of
// that time and later ones lie at or behind it.
func AppendOpenTime(source []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(source, uint64(ms)^1<<63)
}

// OpenTime is the time in the key of open measurements, that of the last.
func OpenTime(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-openSuffix:]) ^ 1<<63)
}

// OpenSource is the part of an open measurement's key that its source has.
func OpenSource(key []byte) []byte { return key[:len(key)-openSuffix] }

// viewLocked lists the sources that may have open measurements and whose keys
// begin with prefix, by key. REQUIRES: mu is held, if only for reading.
func (t *openTable) viewLocked(prefix []byte) []Source {
	invariant.Held(&t.mu, "catalog: the lock of the table of sources is held, if only for reading")
	from := sort.Search(len(t.sorted), func(i int) bool { return bytes.Compare(t.sorted[i].Key, prefix) >= 0 })
	var all []Source
	for _, s := range t.sorted[from:] {
		if !bytes.HasPrefix(s.Key, prefix) {
			break
		}
		if s.Count > 0 {
			all = append(all, s.Source)
		}
	}
	return all
}

// order makes the list of sources anew where that is needed.
func (t *openTable) order() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted != nil {
		return
	}
	t.sorted = make([]*openSource, 0, len(t.sources))
	for _, s := range t.sources {
		t.sorted = append(t.sorted, s)
	}
	slices.SortFunc(t.sorted, func(a, b *openSource) int { return bytes.Compare(a.Key, b.Key) })
}

// rlockOrdered locks mu for reading while the list of sources is there: a
// source that comes between making the list and the lock takes it away again.
func (t *openTable) rlockOrdered() {
	for t.mu.RLock(); t.sorted == nil; t.mu.RLock() {
		t.mu.RUnlock()
		t.order()
	}
}

// MeasurementView is one state of a time-series collection: a snapshot, and
// the sources that have open measurements in it and whose keys begin with
// prefix, by key. The caller closes the snapshot. A measurement that is inserted
// becomes visible when the table knows of it, so no other reader of the
// collection's keyspaces sees it as early.
func (c *Catalog) MeasurementView(coll *Collection, prefix []byte) (*storage.Snapshot, []Source, error) {
	t := coll.live.open
	t.rlockOrdered()
	defer t.mu.RUnlock()
	// A source leaves the table, or its count drops, only after the unit that
	// sealed it is visible, and under this lock (invariant open-seen).
	snapshot, all := c.engine.NewSnapshot(), t.viewLocked(prefix)
	if len(t.staging.left) == 0 {
		return snapshot, all, nil
	}
	p, err := progressIn(snapshot, coll.Open)
	if err != nil {
		snapshot.Close()
		return nil, nil, err
	}
	for i := range all {
		s := &all[i]
		// Where a part was just flushed, the table is about to learn of it.
		switch frozen := t.sources[string(s.Key)].frozen; {
		case len(frozen) == 0:
		case p.flushes == t.staging.flushes || !p.flushed(s.Key):
			s.Staged = slices.Concat(frozen, s.Staged)
		default:
			s.StoredLast = s.Last
		}
	}
	return snapshot, all, nil
}

// OpenSources lists the sources that have open measurements, by the earliest
// time of those.
func (c *Collection) OpenSources() []Source {
	t := c.live.open
	t.rlockOrdered()
	defer t.mu.RUnlock()
	all := t.viewLocked(nil)
	slices.SortFunc(all, func(a, b Source) int { return cmp.Compare(a.First, b.First) })
	return all
}

// setOpenLocked sets what is known of a source whose open measurements are n
// now, besides those that are staged. REQUIRES: mu is held.
func (t *openTable) setOpenLocked(s *openSource, n, size int, first, last int64) {
	invariant.HeldForWriting(&t.mu, "catalog: the lock of the table of sources is held")
	if n == 0 {
		first, last = math.MaxInt64, math.MinInt64
	}
	s.StoredLast = last
	for _, ms := range [][]timeseries.Measurement{s.frozen, s.Staged} {
		for _, m := range ms {
			n, size = n+1, size+len(m.Doc)
			first, last = min(first, m.Time), max(last, m.Time)
		}
	}
	switch {
	case s.Count > 0 && n == 0:
		t.open--
	case s.Count == 0 && n > 0:
		t.open++
	}
	s.Count, s.bytes, s.First, s.Last, s.FirstEnd = n, size, first, last, math.MinInt64
	s.sealAt = n + worthSealing
	if len(t.sources)-t.open <= sparedSources+min(keptSources*t.open, maxOpenSources) {
		return
	}
	for k, o := range t.sources {
		if o.Count == 0 {
			delete(t.sources, k)
		}
	}
	t.sorted = nil
}
