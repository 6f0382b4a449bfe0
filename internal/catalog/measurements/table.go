package measurements

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

const (
	// maxSources bounds the sources of a table that have open measurements: beyond
	// it, those with the oldest are sealed.
	maxSources = 200_000
	// keptSources is how many sources without open measurements the table keeps
	// for each one that has some, up to maxSources, and sparedSources how many
	// more.
	keptSources   = 4
	sparedSources = 4096
)

// The sums of the counter: of all measurements, those in buckets included, and the
// bytes of the open ones.
const (
	sumCount = iota
	sumBytes
)

// Table holds the state, in memory, of the open measurements of one collection.
// It is safe for concurrent use.
type Table struct {
	engine  *storage.Engine
	id      storage.Ident
	counter *storage.Counter
	made    time.Time
	limits  Limits
	budget  *Budget
	staging staging

	mu      sync.RWMutex
	sources map[string]*source
	open    int       // of them have open measurements
	oldest  [][]byte  // those to be sealed next where there are too many
	sorted  []*source // by key; nil if it must be rebuilt
	seq     uint64    // the greatest number so far
	stats   Stats     // except what is counted elsewhere
}

// Limits are those of one table: of the sources with open measurements, and of the
// bytes that are flushed together. Zero is the default.
type Limits struct{ Sources, PartBytes int }

// Unit is a unit of writes inside the collection of a table. What it has written
// and noted takes effect when it commits, or not at all.
type Unit interface {
	// Storage returns the unit of the store, for the records of the table.
	Storage() *storage.Unit
	// Note adds a change that is made when the unit commits.
	Note(Change)
	// Options returns those of the collection.
	Options() *schema.Timeseries
	// CheckMeta returns an error if an index cannot hold buckets with a meta
	// value.
	CheckMeta(meta bson.Value) error
	// AddBucket stores a bucket, with its index entries.
	AddBucket(ctx context.Context, bucket bson.Doc) error
	// KeepOut keeps other units from staging until this one ends. It waits for those
	// that are staging.
	KeepOut()
}

// Run runs f in a new unit and commits it; it runs f again where f met a lock that
// it could not wait for. Errors: f's, 26, and those of a commit.
type Run func(ctx context.Context, d storage.Durability, f func(Unit) error) error

// Open reads the open measurements in a keyspace. o are the options of the
// collection.
func Open(e *storage.Engine, id storage.Ident, o *schema.Timeseries, b *Budget) (*Table, error) {
	t := &Table{engine: e, id: id, made: time.Now(), budget: b, sources: map[string]*source{}}
	t.SetLimits(Limits{})
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if t.counter, err = e.OpenCounter(id); err != nil {
		return nil, err
	}
	p, err := readProgress(e, id)
	if err != nil {
		return nil, err
	}
	it, err := e.NewIter(id, nil, []byte{progressKey})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err == nil {
			err = t.recallLocked(o, &p, it.Key(), v)
		}
		if err != nil {
			return nil, err
		}
	}
	t.recallFrozen(&p)
	for _, s := range t.sources {
		s.sealAt, s.idleSealAt = 0, 0 // how long they have waited is not known
	}
	t.stats = Stats{}
	return t, it.Err()
}

// SetLimits sets the limits of an unused table, for tests.
func (t *Table) SetLimits(l Limits) {
	t.limits = Limits{cmp.Or(l.Sources, maxSources), cmp.Or(l.PartBytes, partBytes)}
}

// recallLocked notes the measurements of a record. REQUIRES: mu is held.
func (t *Table) recallLocked(o *schema.Timeseries, p *Progress, key, v []byte) error {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
	if !validKey(key) {
		return storage.ErrCorruption
	}
	t.seq = max(t.seq, numberOf(key))
	if isStaged(key) {
		frozen := numberOf(key) < p.cut
		return p.each(key, bytes.Clone(v), o, func(source []byte, m timeseries.Measurement) error {
			t.stageLocked(o, source, m, frozen)
			return nil
		})
	}
	return p.each(key, v, o, func(source []byte, m timeseries.Measurement) error {
		s := t.sources[string(source)]
		if s == nil {
			s = t.addLocked(bytes.Clone(source), m.Meta.Clone(), o)
		}
		t.growLocked(s, 1, len(m.Doc), m.Time, m.Time)
		s.StoredLast = max(s.StoredLast, m.Time)
		return nil
	})
}

// recallFrozen notes what was frozen when the process ended, and was not flushed.
func (t *Table) recallFrozen(p *Progress) {
	g := &t.staging
	g.flushes, g.cut = p.flushes, p.cut
	t.seq = max(t.seq, p.cut) // records with lower numbers may have been removed already, and the last part removes all below
	for _, s := range t.sources {
		if len(s.frozen) > 0 {
			g.left = append(g.left, s)
		}
	}
	slices.SortFunc(g.left, compareKeys)
}

func compareKeys(a, b *source) int { return bytes.Compare(a.Key, b.Key) }

// addLocked adds a source to the table. REQUIRES: mu is held.
func (t *Table) addLocked(key []byte, meta bson.Value, o *schema.Timeseries) *source {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
	s := newSource(key, meta)
	s.sealAt, s.idleSealAt = worthSealing, time.Since(t.made)+idleSealEvery(o)
	t.sources[string(key)] = s
	t.sorted = nil
	t.stats.Opened++
	return s
}

// growLocked adds open measurements to a source. REQUIRES: mu is held.
func (t *Table) growLocked(s *source, n, size int, first, last int64) {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
	if s.Count == 0 {
		t.open++
	}
	s.grow(n, size, first, last)
}

// setLocked sets the state of a source that has n open measurements now,
// without those that are staged. REQUIRES: mu is held.
func (t *Table) setLocked(s *source, n, size int, first, last int64) {
	invariant.HeldForWriting(&t.mu, "measurements: the table's lock is held")
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
	if len(t.sources)-t.open <= sparedSources+min(keptSources*t.open, maxSources) {
		return
	}
	for k, o := range t.sources {
		if o.Count == 0 {
			delete(t.sources, k)
		}
	}
	t.sorted = nil
}

// numbers hands out n numbers, and returns the one before the first.
func (t *Table) numbers(n int) (seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	seq = t.seq
	t.seq += uint64(n)
	return seq
}

// Ident returns the keyspace of the table.
func (t *Table) Ident() storage.Ident { return t.id }

// Counter counts all measurements, in buckets or not.
func (t *Table) Counter() *storage.Counter { return t.counter }

// Count returns the number of committed measurements, in buckets or not.
func (t *Table) Count() int64 { return t.counter.Load(sumCount) }

// Bytes returns the size of the committed open measurements.
func (t *Table) Bytes() int64 { return t.counter.Load(sumBytes) }

// AddCount adds n, which may be negative, to the number of measurements in a unit
// that has changed how many are in buckets.
func (t *Table) AddCount(u *storage.Unit, n int64) { u.Add(t.counter, sumCount, n) }

// Stats are the statistics of a time-series collection for collStats.
type Stats struct {
	Buckets, Bytes int64 // those that are packed
	Open           int64 // sources whose measurements are in no bucket yet

	// Since the start of the process: units that inserted measurements, those
	// measurements, sources met for the first time, buckets sealed, and how often
	// something was sealed because there was enough for a bucket, in number or
	// bytes, or its span was over.
	Commits, Measurements, Opened, Sealed int64
	FullByCount, FullBySize, SpanOver     int64
}

// Stats returns what the table knows: all but Buckets and Bytes.
func (t *Table) Stats() Stats {
	open := int64(len(t.Sources()))
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.stats
	s.Open = open
	return s
}

// Sources lists the sources that have open measurements, by the earliest time of
// those.
func (t *Table) Sources() []Source {
	t.rlockOrdered()
	defer t.mu.RUnlock()
	all := t.viewLocked()
	slices.SortFunc(all, func(a, b Source) int { return cmp.Compare(a.First, b.First) })
	return all
}

// View is one state of a time-series collection: a snapshot of the engine that the
// catalog has now, which the caller closes, and the sources that have open measurements in
// it, by key: those whose keys begin with one of the prefixes, which are as
// SourcePrefixes has them; all where there are none. A measurement that is inserted becomes visible when the table has it, so no
// other reader of the collection's keyspaces sees it as early (invariant open-seen).
func (t *Table) View(e *storage.Engine, prefixes ...[]byte) (*storage.Snapshot, []Source, error) {
	t.rlockOrdered()
	defer t.mu.RUnlock()
	// A source leaves the table, or its count drops, only after the unit that
	// sealed it is visible, and under this lock.
	snapshot, all := e.NewSnapshot(), t.viewLocked(prefixes...)
	if len(t.staging.left) == 0 {
		return snapshot, all, nil
	}
	p, err := readProgress(snapshot, t.id)
	if err != nil {
		snapshot.Close()
		return nil, nil, err
	}
	for i := range all {
		s := &all[i]
		// Where a part was just flushed, the table is about to be updated.
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

// viewLocked lists the sources that may have open measurements and whose keys
// begin with one of the prefixes, by key; all where there are none. REQUIRES: mu is
// held, if only for reading.
func (t *Table) viewLocked(prefixes ...[]byte) []Source {
	invariant.Held(&t.mu, "measurements: the table's lock is held, if only for reading")
	if len(prefixes) == 0 {
		prefixes = [][]byte{nil}
	}
	var all []Source
	for _, prefix := range prefixes {
		from := sort.Search(len(t.sorted), func(i int) bool { return bytes.Compare(t.sorted[i].Key, prefix) >= 0 })
		for _, s := range t.sorted[from:] {
			if !bytes.HasPrefix(s.Key, prefix) {
				break
			}
			if s.Count > 0 {
				all = append(all, s.Source)
			}
		}
	}
	return all
}

// rlockOrdered locks mu for reading with an up-to-date list of sources: a
// source added between making the list and locking invalidates the list, which
// is then made again.
func (t *Table) rlockOrdered() {
	for t.mu.RLock(); t.sorted == nil; t.mu.RLock() {
		t.mu.RUnlock()
		t.order()
	}
}

// order rebuilds the list of sources where that is needed.
func (t *Table) order() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sorted != nil {
		return
	}
	t.sorted = make([]*source, 0, len(t.sources))
	for _, s := range t.sources {
		t.sorted = append(t.sorted, s)
	}
	slices.SortFunc(t.sorted, compareKeys)
}

// NoteFirstEnd notes the end of the first bucket that the open measurements of
// a source would make, computed from count of them; it does nothing where more
// have been added since. The caller has locked the source, as Edit does.
func (t *Table) NoteFirstEnd(source []byte, count int, end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.sources[string(source)]; s != nil && s.Count == count {
		s.FirstEnd = end
	}
}

// FirstEnd returns the first end after after of a bucket that the open measurements
// of a source would make, of the sources that want accepts; schema.Never where there
// is none. Where it is not known yet, or must be exact, it is the time of the first
// measurement, so it may be too early.
func (t *Table) FirstEnd(after int64, exact bool, want func(*Source) bool) int64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	first := int64(schema.Never)
	for _, s := range t.sources {
		at := s.First
		if !exact {
			at = max(at, s.FirstEnd)
		}
		if s.Count > 0 && at > after && at < first && want(&s.Source) {
			first = at
		}
	}
	return first
}
