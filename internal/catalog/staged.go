package catalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Measurements that were inserted a short while ago are staged: what a unit
// inserts is one record of the collection's Open keyspace, and its measurements
// are in memory, by source. When there are enough, all of them move at once to
// where their sources have them, or into buckets. The keys of the keyspace are
//
//	0x00 or 0x01 …      open measurements, by source (opentable.go)
//	0x02 ‖ sequence     staged ones, those of one unit
//	0x03                how often staged ones have moved, by which readers know
//	                    whether their state of the store has them elsewhere
const (
	stagedKeys = 2
	movesKey   = 3

	// stageBytes is how many bytes of staged measurements a collection has before
	// they move, and maxStaged how many all collections have.
	stageBytes = 8 << 20
	maxStaged  = 64 << 20
)

// staging is what an openTable knows of staged measurements.
type staging struct {
	// gate is held for reading by units that stage, to their end, and for writing
	// by the one that moves all. It is closed inside the collection's own gate.
	gate  sync.RWMutex
	total *atomic.Int64 // bytes, of all collections
	bytes atomic.Int64

	sources []*openSource // that have some; guarded by the table's lock, as are:
	moves   uint64        // how often they have moved
}

// stage adds measurements, whose documents are kept, to the staged ones.
func (u *Unit) stage(c *Collection, ms []timeseries.Measurement) error {
	t := c.live.open
	t.staging.gate.RLock()
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
	u.entry = binary.BigEndian.AppendUint64(append(u.entry[:0], stagedKeys), t.nextSeq())
	if err := u.u.SetFilled(c.Open, u.entry, size, func(b []byte) { fillDocs(b, ms) }); err != nil {
		return err
	}
	u.u.Add(t.counter, sumDocs, int64(len(ms)))
	u.u.Add(t.counter, sumBytes, int64(size))
	u.u.OnCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		from := 0
		for i, m := range ms {
			t.stageLocked(c, keys[from:ends[i]], m)
			from = ends[i]
		}
		t.stats.Commits++
		t.stats.Measurements += int64(len(ms))
	})
	return nil
}

// stageLocked notes a staged measurement of the source with a key. REQUIRES: mu
// is held.
func (t *openTable) stageLocked(c *Collection, key []byte, m timeseries.Measurement) {
	s := t.sources[string(key)]
	if s == nil {
		s = t.addLocked(bytes.Clone(key), m.Meta.Clone(), c.Settings.Timeseries)
	}
	if s.Count == 0 {
		t.open++
	}
	m.Meta = s.Meta
	s.grow(1, len(m.Doc), m.Time, m.Time)
	if len(s.Staged) == 0 {
		t.staging.sources = append(t.staging.sources, s)
		s.Staged = make([]timeseries.Measurement, 0, s.likely)
	}
	s.Staged = append(s.Staged, m)
	t.staging.bytes.Add(int64(len(m.Doc)))
	t.staging.total.Add(int64(len(m.Doc)))
}

// unstageLocked forgets what is staged: it has moved. REQUIRES: mu is held.
func (t *openTable) unstageLocked() {
	for _, s := range t.staging.sources {
		s.likely = len(s.Staged) + len(s.Staged)/8
		s.Staged = nil
	}
	t.staging.sources = nil
	t.staging.total.Add(-t.staging.bytes.Swap(0))
}

// MakeRoom moves staged measurements where there are enough of them. The caller
// has no unit that holds anything. Errors: 26, and those of sealing.
func (c *Catalog) MakeRoom(ctx context.Context, coll *Collection) error {
	n := int64(stageBytes)
	if c.staged.Load() > maxStaged {
		n = 1
	}
	return c.unstage(ctx, coll, n)
}

// MoveStaged moves what is staged, however little that is. The caller has no unit
// that holds anything. Errors: 26, and those of sealing.
func (c *Catalog) MoveStaged(ctx context.Context, coll *Collection) error {
	return c.unstage(ctx, coll, 1)
}

// unstage moves the staged measurements of a collection, where they are so many
// bytes: those of a source that are enough for a bucket with the others that are
// open, or whose bucket's span is over, are sealed.
func (c *Catalog) unstage(ctx context.Context, coll *Collection, bytes int64) error {
	t := coll.live.open
	if t.staging.bytes.Load() < bytes {
		return nil
	}
	return c.Run(ctx, storage.Buffered, func(u *Unit) error {
		now, err := u.enter(coll)
		if err != nil {
			return err
		}
		t.staging.gate.Lock()
		u.onEnd = append(u.onEnd, t.staging.gate.Unlock)
		if t.staging.bytes.Load() < bytes {
			return nil
		}
		return u.moveStaged(ctx, now)
	})
}

// moveStaged moves what is staged. REQUIRES: the gate is closed.
func (u *Unit) moveStaged(ctx context.Context, c *Collection) error {
	t := c.live.open
	groups := t.stagedGroups()
	if err := u.lockGroups(ctx, c, groups); err != nil {
		return err
	}
	t.mu.RLock()
	moves := t.staging.moves + 1
	t.mu.RUnlock()
	u.u.OnCommit(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.unstageLocked()
		t.staging.moves = moves
	})
	seq := t.admit(c, groups)
	for _, g := range groups {
		var err error
		if g.seal {
			err = u.sealWith(ctx, c, g, &seq)
		} else {
			slices.SortStableFunc(g.ms, byTime)
			seq++
			err = u.setOpen(c, g.key, g.ms, seq)
		}
		if err != nil {
			return err
		}
	}
	if err := u.u.DeleteRange(c.Open, []byte{stagedKeys}, []byte{movesKey}); err != nil {
		return err
	}
	return u.u.Set(c.Open, []byte{movesKey}, binary.BigEndian.AppendUint64(nil, moves))
}

// stagedGroups lists what is staged by source, in the order of their keys.
func (t *openTable) stagedGroups() []*arriving {
	t.mu.RLock()
	defer t.mu.RUnlock()
	groups := make([]*arriving, len(t.staging.sources))
	for i, s := range t.staging.sources {
		g := &arriving{key: s.Key, source: s, ms: slices.Clone(s.Staged)}
		for _, m := range g.ms {
			g.size += len(m.Doc)
		}
		groups[i] = g
	}
	slices.SortFunc(groups, func(a, b *arriving) int { return bytes.Compare(a.key, b.key) })
	return groups
}

// isStaged says whether a source has staged measurements.
func (t *openTable) isStaged(key []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.sources[string(key)]
	return s != nil && len(s.Staged) > 0
}

// movesIn is how often staged measurements have moved in a state of the store.
func movesIn(r storage.Reader, open storage.Ident) (uint64, error) {
	v, closer, err := r.Get(open, []byte{movesKey})
	if errors.Is(err, storage.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	if len(v) != 8 {
		return 0, storage.ErrCorruption
	}
	return binary.BigEndian.Uint64(v), nil
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
	if s.Count > len(s.Staged) {
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
	if s.Count > len(s.Staged) {
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
