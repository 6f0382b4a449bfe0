package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Measurements that were inserted a short while ago are staged: what a unit
// inserts is one record of the collection's Open keyspace, and its measurements
// are in memory, by source. When there are enough, they are frozen and flushed to
// where their sources have them, or into buckets, while others are staged
// (flushstaged.go). The keys of the keyspace are
//
//	0x00 or 0x01 …      open measurements, by source (opentable.go)
//	0x02 ‖ sequence     staged ones, those of one unit
//	0x03                what is frozen, and how far it was flushed: see progress
const (
	stagedKeys  = 2
	progressKey = 3

	// stageBytes is how many bytes of staged measurements a collection has before
	// they are frozen, and maxStaged how many all collections have, with frozen
	// ones.
	stageBytes = 8 << 20
	maxStaged  = 64 << 20
)

// staging is what an openTable knows of staged measurements.
type staging struct {
	// gate is held for reading by units that stage, to their end, and for writing
	// by the one that freezes all. It is closed inside the collection's own gate.
	gate     gate
	flushing sync.Mutex    // held by who flushes
	total    *atomic.Int64 // bytes, of all collections
	bytes    atomic.Int64  // that are staged and not frozen
	frozen   atomic.Int64  // bytes

	sources []*openSource // that have some; guarded by the table's lock, as are:
	left    []*openSource // that have frozen ones, by key
	last    []*openSource // whose measurements were frozen last
	cut     uint64        // frozen ones are in records with lesser numbers
	flushes uint64        // how many parts were flushed
}

// stagedKey appends the key of the record with a number.
func stagedKey(dst []byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, stagedKeys), number)
}

// size is how many bytes are staged, with frozen ones.
func (g *staging) size() int64 { return g.bytes.Load() + g.frozen.Load() }

// stage adds measurements, whose documents are kept, to the staged ones.
func (u *Unit) stage(ctx context.Context, c *Collection, ms []timeseries.Measurement) error {
	t := c.live.open
	if err := t.staging.gate.RLock(ctx); err != nil {
		return err
	}
	u.onEnd = append(u.onEnd, t.staging.gate.RUnlock)
	size := sizeOf(ms)
	keys := make([]byte, 0, len(ms)*16)
	ends := make([]int, len(ms))
	var before []byte
	for i, m := range ms {
		from := len(keys)
		keys = appendSourceKey(keys, m.Meta)
		ends[i] = len(keys)
		if key := keys[from:]; !bytes.Equal(key, before) {
			if err := checkBucketKeys(c.indexes, m.Meta); err != nil {
				return err
			}
			before = key
		}
	}
	n := &stagedNote{about: of(c), number: t.numbers(1) + 1, ms: ms, keys: keys, ends: ends}
	u.entry = stagedKey(u.entry[:0], n.number)
	if err := u.u.SetFilled(c.Open, u.entry, size, func(b []byte) { fillDocs(b, ms) }); err != nil {
		return err
	}
	u.u.Add(t.counter, sumDocs, int64(len(ms)))
	u.u.Add(t.counter, sumBytes, int64(size))
	u.e.note(n)
	return nil
}

// stageLocked notes a staged measurement of the source with a key, or one that is
// frozen. REQUIRES: mu is held.
func (t *openTable) stageLocked(c *Collection, key []byte, m timeseries.Measurement, frozen bool) {
	invariant.HeldForWriting(&t.mu, "catalog: the lock of the table of sources is held")
	s := t.sources[string(key)]
	if s == nil {
		s = t.addLocked(bytes.Clone(key), m.Meta.Clone(), c.Settings.Timeseries)
	}
	if s.Count == 0 {
		t.open++
	}
	m.Meta = s.Meta
	s.grow(1, len(m.Doc), m.Time, m.Time)
	t.staging.total.Add(int64(len(m.Doc)))
	if frozen {
		s.frozen = append(s.frozen, m)
		t.staging.frozen.Add(int64(len(m.Doc)))
		return
	}
	if len(s.Staged) == 0 {
		t.staging.sources = append(t.staging.sources, s)
		s.Staged = make([]timeseries.Measurement, 0, s.likely)
	}
	s.Staged = append(s.Staged, m)
	t.staging.bytes.Add(int64(len(m.Doc)))
}

// OpenReader reads the open measurements of sources in one state of the store.
type OpenReader struct {
	c  *Collection
	r  storage.Reader
	it *storage.Iter
}

// NewOpenReader makes a reader, which the caller closes.
func (c *Collection) NewOpenReader(r storage.Reader) *OpenReader { return &OpenReader{c: c, r: r} }

// Close lets go of the store.
func (o *OpenReader) Close() error {
	if o.it == nil {
		return nil
	}
	err := o.it.Close()
	o.it = nil
	return err
}

// Read returns the open measurements of a source from one time to another, both
// of which count in, by time. They are the caller's, but for their documents'
// bytes, which never change.
func (o *OpenReader) Read(s *Source, from, to int64) ([]timeseries.Measurement, error) {
	var ms []timeseries.Measurement
	if s.Count > len(s.Staged) && from <= s.StoredLast {
		var err error
		if ms, _, err = o.stored(s.Key, s.Meta, from); err != nil {
			return nil, err
		}
	}
	ms = append(ms, s.Staged...)
	if !slices.IsSortedFunc(ms, byTime) {
		slices.SortStableFunc(ms, byTime)
	}
	lo := sort.Search(len(ms), func(i int) bool { return ms[i].Time >= from })
	hi := sort.Search(len(ms), func(i int) bool { return ms[i].Time > to })
	return ms[lo:max(lo, hi)], nil
}

// Newest is the time of the newest open measurement of a source; ok is false
// where there is none.
func (o *OpenReader) Newest(s *Source) (at int64, ok bool, err error) {
	at = math.MinInt64
	for _, m := range s.Staged {
		at = max(at, m.Time)
	}
	if s.Count > len(s.Staged) && at <= s.StoredLast {
		if err := o.seek(s.Key, s.Key); err != nil {
			return 0, false, err
		}
		if ok = o.it.Last(); ok {
			at = max(at, OpenTime(o.it.Key()))
		}
		if err := o.it.Err(); err != nil {
			return 0, false, err
		}
	}
	return at, ok || len(s.Staged) > 0, nil
}

// seek makes the iterator one of a source's records from a key on.
func (o *OpenReader) seek(source, from []byte) (err error) {
	if o.it != nil {
		o.it.SetBounds(from, sourceEnd(source))
		return nil
	}
	o.it, err = o.r.NewIter(o.c.Open, from, sourceEnd(source))
	return err
}

// stored reads those that are not staged, as they lie, without records that have
// none from a time on, and says in how many records they are.
func (o *OpenReader) stored(source []byte, meta bson.Value, from int64) (ms []timeseries.Measurement, records int, err error) {
	if err := o.seek(source, AppendOpenTime(bytes.Clone(source), from)); err != nil {
		return nil, 0, err
	}
	field := o.c.Settings.Timeseries.TimeField
	for ok := o.it.First(); ok; ok = o.it.Next() {
		v, err := o.it.Value()
		if err != nil {
			return nil, 0, err
		}
		records++
		err = eachStored(bytes.Clone(v), field, func(d bson.Doc, at int64) error {
			ms = append(ms, timeseries.Measurement{Doc: d, Meta: meta, Time: at})
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	return ms, records, o.it.Err()
}

// eachStored calls f with each of the measurements of a record, and its time.
func eachStored(b []byte, field string, f func(bson.Doc, int64) error) error {
	for len(b) > 0 {
		if len(b) < len(bson.Empty) {
			return storage.ErrCorruption
		}
		n := int(binary.LittleEndian.Uint32(b))
		if n < len(bson.Empty) || n > len(b) {
			return storage.ErrCorruption
		}
		d := bson.Doc(b[:n:n])
		at := d.Lookup(field)
		if at.Type != bson.TypeDate {
			return storage.ErrCorruption
		}
		if err := f(d, at.Date()); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
