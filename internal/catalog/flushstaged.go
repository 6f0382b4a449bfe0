package catalog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Staged measurements are flushed a part at a time, in the order of their sources,
// and who inserts meanwhile flushes a part: so nobody waits for all of it. What is
// flushed is frozen first. The records that have frozen ones go with the last part; until
// then the keyspace says how far the flush has come.
const (
	// partBytes is how many bytes of frozen measurements a part has, and partSeals
	// how many sources that are sealed with it.
	partBytes = 512 << 10
	partSeals = 16
)

// progress is how far staged measurements were flushed.
type progress struct {
	flushes uint64 // parts that were flushed
	// cut is 0 where all that were frozen are flushed; else those in records with
	// lesser numbers are frozen, and those of sources up to last are flushed.
	cut  uint64
	last []byte
}

// flushed says whether a frozen measurement of a source was flushed.
func (p *progress) flushed(source []byte) bool {
	return p.cut == 0 || bytes.Compare(source, p.last) <= 0
}

// flushedFrom is flushed for a measurement in a record of staged ones.
func (p *progress) flushedFrom(record, source []byte) bool {
	return p.cut != 0 && stagedNumber(record) < p.cut && p.flushed(source)
}

// stagedNumber is the number of a record of staged measurements.
func stagedNumber(record []byte) uint64 { return binary.BigEndian.Uint64(record[1:]) }

// append appends a progress as it is stored: the number of flushes, and while there are
// frozen measurements, the cut and the last source, if any.
func (p *progress) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.flushes)
	if p.cut == 0 {
		return dst
	}
	return append(binary.BigEndian.AppendUint64(dst, p.cut), p.last...)
}

// progressIn is how far staged measurements were flushed in a state of the store.
func progressIn(r storage.Reader, open storage.Ident) (p progress, err error) {
	v, closer, err := r.Get(open, []byte{progressKey})
	if errors.Is(err, storage.ErrNotFound) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	defer closer.Close()
	return decodeProgress(v)
}

func decodeProgress(v []byte) (p progress, err error) {
	switch {
	case len(v) == 8:
		return progress{flushes: binary.BigEndian.Uint64(v)}, nil
	case len(v) >= 16:
		return progress{flushes: binary.BigEndian.Uint64(v), cut: binary.BigEndian.Uint64(v[8:]), last: bytes.Clone(v[16:])}, nil
	}
	return p, storage.ErrCorruption
}

// FlushStep is what an insert contributes to flushing: it flushes a part of what is
// frozen, and freezes what is staged where that is enough: all that was frozen before
// is flushed first then. Where all collections together have too much, it flushes the
// one that has most. The caller has no unit
// that holds anything. Errors: 26, and those of sealing.
func (c *Catalog) FlushStep(ctx context.Context, coll *Collection) error {
	g := &coll.live.open.staging
	full := g.bytes.Load() >= stageBytes
	switch {
	case full:
		g.flushing.Lock()
	case g.frozen.Load() > 0 && g.flushing.TryLock():
	case c.staged.Load() > c.stagedBound:
		return c.flushMost(ctx)
	default:
		return nil
	}
	defer g.flushing.Unlock()
	if full = g.bytes.Load() >= stageBytes; full {
		if err := c.flushFrozen(ctx, coll); err != nil {
			return err
		}
		return c.freeze(ctx, coll)
	}
	return c.flushPart(ctx, coll)
}

// roomShare is the part of maxStaged that the collections hold at least which
// mostStaged is chosen for, unless all hold less.
const roomShare = 8

// mostStaged are the collections that had most staged when they were looked at
// last. Looking at all is worth it for several that are flushed then: so inserting into
// many collections does not look at all of them each time.
type mostStaged struct {
	sync.Mutex
	left   []*live // the one with most first
	looked int64   // how many collections were looked at, in all
}

// take returns the collection to flush next, nil where nothing is staged.
func (m *mostStaged) take(c *Catalog) *live {
	m.Lock()
	defer m.Unlock()
	for range 2 {
		for len(m.left) > 0 {
			l := m.left[0]
			m.left = m.left[1:]
			if l.open.staging.size() > 0 {
				return l
			}
		}
		m.choose(c)
	}
	return nil
}

func (m *mostStaged) choose(c *Catalog) {
	type staged struct {
		l    *live
		size int64
	}
	var all []staged
	for _, l := range c.uuids.Range {
		l := l.(*live)
		m.looked++
		if l.open != nil {
			if n := l.open.staging.size(); n > 0 {
				all = append(all, staged{l, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b staged) int { return cmp.Compare(b.size, a.size) })
	for sum := int64(0); len(all) > 0 && sum < c.stagedBound/roomShare; all = all[1:] {
		m.left = append(m.left, all[0].l)
		sum += all[0].size
	}
}

// flushMost flushes the collection that has most staged.
func (c *Catalog) flushMost(ctx context.Context) error {
	most := c.most.take(c)
	if most == nil {
		return nil
	}
	err := c.FlushStaged(ctx, most.current.Load())
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	return err
}

// FlushStaged flushes what is staged, however little that is. The caller has no unit
// that holds anything. Errors: 26, and those of sealing.
func (c *Catalog) FlushStaged(ctx context.Context, coll *Collection) error {
	g := &coll.live.open.staging
	if g.bytes.Load() == 0 && g.frozen.Load() == 0 {
		return nil
	}
	g.flushing.Lock()
	defer g.flushing.Unlock()
	if err := c.flushFrozen(ctx, coll); err != nil {
		return err
	}
	if err := c.freeze(ctx, coll); err != nil {
		return err
	}
	return c.flushFrozen(ctx, coll)
}

// flushFrozen flushes all that is frozen. REQUIRES: flushing is held.
func (c *Catalog) flushFrozen(ctx context.Context, coll *Collection) error {
	invariant.Held(&coll.live.open.staging.flushing, "catalog: staging.flushing is held")
	for coll.live.open.staging.frozen.Load() > 0 {
		if err := c.flushPart(ctx, coll); err != nil {
			return err
		}
	}
	return nil
}

// freeze freezes what is staged. REQUIRES: flushing is held, and nothing is
// frozen.
func (c *Catalog) freeze(ctx context.Context, coll *Collection) error {
	g := &coll.live.open.staging
	invariant.Held(&g.flushing, "catalog: staging.flushing is held")
	if err := invariant.Require(g.frozen.Load() == 0, "catalog: nothing is frozen when more is frozen"); err != nil {
		return err
	}
	return c.Run(ctx, storage.Buffered, func(u *Unit) error {
		now, err := u.enter(ctx, coll)
		if err != nil {
			return err
		}
		t := now.live.open
		t.staging.gate.Lock() // nobody stages until this has committed
		u.onEnd = append(u.onEnd, t.staging.gate.Unlock)
		p := t.toFreeze()
		if p.cut == 0 {
			return nil
		}
		u.e.note(&frozenNote{of(now), p.cut})
		return u.u.Set(now.Open, []byte{progressKey}, p.append(nil))
	})
}

// toFreeze is the progress when what is staged is frozen; its cut is 0 where
// nothing is staged.
func (t *openTable) toFreeze() (p progress) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p.flushes = t.staging.flushes
	if t.staging.bytes.Load() > 0 {
		p.cut = t.seq + 1
	}
	return p
}

// freeze notes in the table that what is staged is frozen: all that is in records
// with numbers below the cut.
func (t *openTable) freeze(cut uint64) {
	g := &t.staging
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range g.last {
		s.likely = 0
	}
	for _, s := range g.sources {
		s.likely = len(s.Staged) + len(s.Staged)/8
		s.frozen, s.Staged = s.Staged, nil
	}
	g.left, g.sources = g.sources, nil
	slices.SortFunc(g.left, func(a, b *openSource) int { return bytes.Compare(a.Key, b.Key) })
	g.last = g.left
	g.cut = cut
	t.seq = max(t.seq, cut)
	g.frozen.Store(g.bytes.Swap(0))
}

// forgetStaged forgets what is staged, of a collection that is gone.
func (t *openTable) forgetStaged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range slices.Concat(t.staging.sources, t.staging.left) {
		s.Staged, s.frozen = nil, nil
	}
	t.staging.sources, t.staging.left, t.staging.last = nil, nil, nil
	t.staging.total.Add(-t.staging.bytes.Swap(0) - t.staging.frozen.Swap(0))
}

// flushPart flushes a part of what is frozen, if anything is: those of a source that
// are enough for a bucket with the others that are open, or whose bucket's span
// is over, are sealed. REQUIRES: flushing is held.
func (c *Catalog) flushPart(ctx context.Context, coll *Collection) error {
	invariant.Held(&coll.live.open.staging.flushing, "catalog: staging.flushing is held")
	return c.Run(ctx, storage.Buffered, func(u *Unit) error {
		now, err := u.enter(ctx, coll)
		if err != nil {
			return err
		}
		return u.flushPart(ctx, now)
	})
}

func (u *Unit) flushPart(ctx context.Context, c *Collection) error {
	t := c.live.open
	groups, p := t.nextPart()
	if len(groups) == 0 {
		return nil
	}
	if err := u.lockGroups(ctx, c, groups); err != nil {
		return err
	}
	note := &flushedNote{about: of(c)}
	u.e.note(note)
	seq := t.admit(c, groups)
	note.seq = seq + uint64(len(groups))
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
	if p.cut == 0 {
		upTo := binary.BigEndian.AppendUint64([]byte{stagedKeys}, t.staging.cut)
		if err := u.u.DeleteRange(c.Open, []byte{stagedKeys}, upTo); err != nil {
			return err
		}
	}
	return u.u.Set(c.Open, []byte{progressKey}, p.append(nil))
}

// nextPart lists the frozen measurements of the next part, by source, and what
// is the progress with it.
func (t *openTable) nextPart() (groups []*arriving, p progress) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	size, seals := 0, 0
	for _, s := range t.staging.left {
		g := &arriving{key: s.Key, source: s, ms: slices.Clone(s.frozen)}
		for _, m := range g.ms {
			g.size += len(m.Doc)
		}
		groups = append(groups, g)
		if s.ready() {
			seals++
		}
		if size += g.size; size >= t.part || seals == partSeals {
			break
		}
	}
	p.flushes = t.staging.flushes + 1
	if n := len(groups); n < len(t.staging.left) {
		p.cut, p.last = t.staging.cut, groups[n-1].key
	}
	return groups, p
}

// ready says whether the open measurements of a source that are not staged any
// more are enough for a bucket. The caller holds the table's lock.
func (s *openSource) ready() bool { return s.Count-len(s.Staged) >= timeseries.Capacity }

// thaw notes in the table how far what is frozen was flushed, into records with
// numbers up to seq.
func (t *openTable) thaw(p *progress, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = max(t.seq, seq)
	g := &t.staging
	g.flushes, g.cut = p.flushes, p.cut
	size := int64(0)
	for len(g.left) > 0 && p.flushed(g.left[0].Key) {
		s := g.left[0]
		g.left = g.left[1:]
		for _, m := range s.frozen {
			s.StoredLast = max(s.StoredLast, m.Time)
		}
		size += int64(sizeOf(s.frozen))
		s.frozen = nil
	}
	g.frozen.Add(-size)
	g.total.Add(-size)
}

// isStaged says whether a source has staged measurements.
func (t *openTable) isStaged(key []byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s := t.sources[string(key)]
	return s != nil && len(s.Staged)+len(s.frozen) > 0
}
