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
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/storage"
)

// The measurements of a time-series collection that are in no bucket yet are
// open: documents of their own, in the order of their sources and times. The
// key is
//
//	key string of the meta value ‖ its hash ‖ time ‖ sequence number
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
}

// openSource is a source in the table. What it says of the open measurements
// is raised before they commit, and exact only after they were sealed: so no
// reader misses one. REQUIRES: the table's lock.
type openSource struct {
	Source
	bytes  int
	sealAt int // the count from which it is worth to look for a whole span
	// restAt is when it may be sealed in the background, since the table was made.
	restAt time.Duration
}

// openTable knows the sources that have open measurements.
type openTable struct {
	counter *storage.Counter // of all measurements; bytes of the open ones
	made    time.Time
	bound   int // maxOpenSources, but in tests

	mu      sync.RWMutex
	sources map[string]*openSource
	open    int           // of them have open measurements
	oldest  [][]byte      // those to be sealed next where there are too many
	sorted  []*openSource // by key, nil where it must be made anew
	seq     uint64
	stats   BucketStats // but for what is counted elsewhere
}

// openMeasurements reads what is open.
func (c *Catalog) openMeasurements(coll *Collection) error {
	t := &openTable{sources: map[string]*openSource{}, made: time.Now(), bound: maxOpenSources}
	coll.live.open = t
	var err error
	if t.counter, err = c.engine.OpenCounter(coll.Open); err != nil {
		return err
	}
	it, err := c.engine.NewIter(coll.Open, nil, nil)
	if err != nil {
		return err
	}
	defer it.Close()
	var s *openSource
	for ok := it.First(); ok; ok = it.Next() {
		key := it.Key()
		doc, err := it.Value()
		if err != nil {
			return err
		}
		if len(key) < openSuffix {
			return storage.ErrCorruption
		}
		prefix := key[:len(key)-openSuffix]
		if s == nil || !bytes.Equal(s.Key, prefix) {
			meta := bson.Value{}
			if name := coll.Settings.Timeseries.MetaField; name != "" {
				meta = bson.Doc(doc).Lookup(name).Clone()
			}
			s = newSource(bytes.Clone(prefix), meta)
			t.sources[string(prefix)] = s
			t.open++
		}
		s.grow(1, len(doc), OpenTime(key), OpenTime(key))
		t.seq = max(t.seq, binary.BigEndian.Uint64(key[len(key)-8:]))
	}
	return it.Err()
}

func newSource(key []byte, meta bson.Value) *openSource {
	return &openSource{Source: Source{Key: key, Meta: meta, First: math.MaxInt64, Last: math.MinInt64}}
}

// grow counts measurements in.
func (s *openSource) grow(n, size int, first, last int64) {
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

// AppendOpenTime appends a time to a source's key: the measurements of that
// time and later ones lie at or behind it.
func AppendOpenTime(source []byte, ms int64) []byte {
	return binary.BigEndian.AppendUint64(source, uint64(ms)^1<<63)
}

// OpenTime is the time in the key of an open measurement.
func OpenTime(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-openSuffix:]) ^ 1<<63)
}

// OpenSource is the part of an open measurement's key that its source has.
func OpenSource(key []byte) []byte { return key[:len(key)-openSuffix] }

// viewLocked lists the sources that may have open measurements and whose keys
// begin with prefix, by key. REQUIRES: mu is held, if only for reading.
func (t *openTable) viewLocked(prefix []byte) []Source {
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
// prefix, by key. The caller closes the snapshot.
func (c *Catalog) MeasurementView(coll *Collection, prefix []byte) (*storage.Snapshot, []Source) {
	t := coll.live.open
	t.rlockOrdered()
	defer t.mu.RUnlock()
	// A source leaves the table, or its count drops, only after the unit that
	// sealed it is visible, and under this lock.
	return c.engine.NewSnapshot(), t.viewLocked(prefix)
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

// settleLocked sets what is known of a source whose open measurements are n
// now. REQUIRES: mu is held.
func (t *openTable) settleLocked(s *openSource, n, size int, first, last int64) {
	if n == 0 {
		first, last = math.MaxInt64, math.MinInt64
	}
	switch {
	case s.Count > 0 && n == 0:
		t.open--
	case s.Count == 0 && n > 0:
		t.open++
	}
	s.Count, s.bytes, s.First, s.Last = n, size, first, last
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
