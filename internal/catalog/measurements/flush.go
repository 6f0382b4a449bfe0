package measurements

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Staged measurements are flushed a part at a time, in the order of their sources,
// and each insert during that time flushes a part: so no insert waits for the whole
// flush. What is flushed is frozen first. The records of frozen measurements are
// removed with the last part; until then the keyspace has the progress of the flush
// (Progress).
const (
	// partBytes is how many bytes of frozen measurements a part has, and partSeals
	// how many sources are sealed with it.
	partBytes = 512 << 10
	partSeals = 16
)

// FlushWanted reports whether FlushStep has work to do.
func (t *Table) FlushWanted() bool {
	return t.staging.frozen.Load() > 0 || t.staging.bytes.Load() >= stageBytes
}

// FlushStep does an insert's share of flushing: it flushes a part of what is frozen.
// Where enough is staged it first flushes everything frozen, and then freezes what is
// staged. did is false if others are flushing and there is no hurry. The caller
// must not have a unit that holds anything. Errors: those of run.
func (t *Table) FlushStep(ctx context.Context, run Run) (did bool, err error) {
	g := &t.staging
	if g.bytes.Load() >= stageBytes {
		g.flushing.Lock()
	} else if g.frozen.Load() == 0 || !g.flushing.TryLock() {
		return false, nil
	}
	defer g.flushing.Unlock()
	if g.bytes.Load() < stageBytes {
		return true, t.flushPart(ctx, run)
	}
	if err := t.flushFrozen(ctx, run); err != nil {
		return true, err
	}
	return true, t.freeze(ctx, run)
}

// Flush flushes what is staged, however little that is. The caller must not have a
// unit that holds anything. Errors: those of run.
func (t *Table) Flush(ctx context.Context, run Run) error {
	g := &t.staging
	if g.size() == 0 {
		return nil
	}
	g.flushing.Lock()
	defer g.flushing.Unlock()
	if err := t.flushFrozen(ctx, run); err != nil {
		return err
	}
	if err := t.freeze(ctx, run); err != nil {
		return err
	}
	return t.flushFrozen(ctx, run)
}

// flushFrozen flushes all that is frozen. REQUIRES: flushing is held.
func (t *Table) flushFrozen(ctx context.Context, run Run) error {
	invariant.Held(&t.staging.flushing, "measurements: flushing is held")
	for t.staging.frozen.Load() > 0 {
		if err := t.flushPart(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// Freeze freezes what is staged, unless something frozen has not been flushed.
// Errors: those of run.
func (t *Table) Freeze(ctx context.Context, run Run) error {
	t.staging.flushing.Lock()
	defer t.staging.flushing.Unlock()
	if t.staging.frozen.Load() > 0 {
		return nil
	}
	return t.freeze(ctx, run)
}

// freeze freezes what is staged. REQUIRES: flushing is held, and nothing is frozen.
func (t *Table) freeze(ctx context.Context, run Run) error {
	invariant.Held(&t.staging.flushing, "measurements: flushing is held")
	if err := invariant.Require(t.staging.frozen.Load() == 0, "measurements: nothing is frozen when a freeze begins"); err != nil {
		return err
	}
	return run(ctx, storage.Buffered, func(u Unit) error {
		u.KeepOut() // nothing is staged until this has committed (invariant open-locked)
		p := t.toFreeze()
		if p.cut == 0 {
			return nil
		}
		u.Note(&Frozen{Cut: p.cut})
		return u.Storage().Set(t.id, []byte{progressKey}, p.append(nil))
	})
}

// toFreeze returns the progress for freezing what is staged; its cut is 0 where
// nothing is staged.
func (t *Table) toFreeze() (p Progress) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	p.flushes = t.staging.flushes
	if t.staging.bytes.Load() > 0 {
		p.cut = t.seq + 1
	}
	return p
}

// frozen notes that what is staged is frozen: all that is in records with numbers
// below the cut.
func (t *Table) frozen(cut uint64) {
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
	slices.SortFunc(g.left, compareKeys)
	g.last = g.left
	g.cut = cut
	t.seq = max(t.seq, cut)
	g.frozen.Store(g.bytes.Swap(0))
}

// FlushPart flushes a part of what is frozen, if anything is. Errors: those of run.
func (t *Table) FlushPart(ctx context.Context, run Run) error {
	t.staging.flushing.Lock()
	defer t.staging.flushing.Unlock()
	return t.flushPart(ctx, run)
}

// flushPart flushes a part of what is frozen, if anything is: measurements of a source
// are sealed if together with its open ones they fill a bucket, or if their bucket's
// span is over; the others become open. REQUIRES: flushing is held.
func (t *Table) flushPart(ctx context.Context, run Run) error {
	invariant.Held(&t.staging.flushing, "measurements: flushing is held")
	return run(ctx, storage.Buffered, func(u Unit) error {
		groups, p := t.nextPart()
		if len(groups) == 0 {
			return nil
		}
		w := writer{t: t, u: u}
		if err := w.lock(ctx, groups); err != nil {
			return err
		}
		note := &Flushed{}
		u.Note(note)
		seq := t.chooseSeals(groups, u)
		note.Seq = seq + uint64(len(groups))
		for _, g := range groups {
			seq++
			slices.SortStableFunc(g.ms, byTime)
			var err error
			if g.seal {
				err = w.sealWith(ctx, g, seq)
			} else {
				err = w.setOpen(g.key, g.ms, seq)
			}
			if err != nil {
				return err
			}
		}
		if p.cut == 0 {
			if err := u.Storage().DeleteRange(t.id, []byte{stagedKeys}, appendStaged(nil, t.staging.cut)); err != nil {
				return err
			}
		}
		return u.Storage().Set(t.id, []byte{progressKey}, p.append(nil))
	})
}

// nextPart lists the frozen measurements of the next part, by source, and
// returns the progress after it.
func (t *Table) nextPart() (groups []*group, p Progress) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	size, seals := 0, 0
	for _, s := range t.staging.left {
		g := &group{key: s.Key, source: s, ms: slices.Clone(s.frozen), size: sizeOf(s.frozen)}
		groups = append(groups, g)
		if s.full() {
			seals++
		}
		if size += g.size; size >= t.limits.PartBytes || seals == partSeals {
			break
		}
	}
	p.flushes = t.staging.flushes + 1
	if n := len(groups); n < len(t.staging.left) {
		p.cut, p.last = t.staging.cut, groups[n-1].key
	}
	return groups, p
}

// chooseSeals returns which of the sources of a part must be sealed, and
// reserves numbers, one for each, after the one it returns.
func (t *Table) chooseSeals(groups []*group, u Unit) (seq uint64) {
	o := u.Options()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, g := range groups {
		s := g.source
		over := s.Count-len(s.Staged) >= s.sealAt && !timeseries.Accepts(timeseries.Start(s.First, o), s.Last, o)
		switch {
		case s.full():
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

// flushed notes the progress of flushing what is frozen, into records with numbers
// up to seq.
func (t *Table) flushed(p *Progress, seq uint64) {
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
	t.budget.used.Add(-size)
}

// writer writes the records of a table in a unit.
type writer struct {
	t   *Table
	u   Unit
	key []byte
}

// lock locks the sources of measurements to the unit's end.
func (w *writer) lock(ctx context.Context, groups []*group) error {
	locks := make([]storage.LockKey, len(groups))
	for i, g := range groups {
		if err := w.u.CheckMeta(g.ms[0].Meta); err != nil {
			return err
		}
		locks[i] = storage.LockKey{Class: storage.LockRecord, ID: w.t.id, Key: g.key}
	}
	_, err := w.u.Storage().LockAll(ctx, locks)
	return err
}

// lockSource locks a source to the unit's end; nil if the table does not know it.
func (w *writer) lockSource(ctx context.Context, key []byte) (*source, error) {
	if _, err := w.u.Storage().Lock(ctx, storage.LockRecord, w.t.id, key); err != nil {
		return nil, err
	}
	w.t.mu.RLock()
	defer w.t.mu.RUnlock()
	return w.t.sources[string(key)], nil
}

// setOpen stores open measurements of a source, which are in the order of time,
// as one record.
func (w *writer) setOpen(source []byte, ms []timeseries.Measurement, seq uint64) error {
	w.key = AppendTime(append(w.key[:0], source...), ms[len(ms)-1].Time)
	w.key = appendNumber(w.key, seq)
	return w.u.Storage().SetFilled(w.t.id, w.key, sizeOf(ms), func(b []byte) { fillDocs(b, ms) })
}

// dropOpen removes the records with open measurements of a locked source, given
// their number: few one by one, many with one tombstone.
func (w *writer) dropOpen(source []byte, records int) error {
	if records > fewOpen {
		return w.u.Storage().DeleteRange(w.t.id, source, sourceEnd(source))
	}
	if records == 0 {
		return nil
	}
	it, err := w.t.engine.NewIter(w.t.id, source, sourceEnd(source))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := w.u.Storage().Delete(w.t.id, it.Key(), len(v)); err != nil {
			return err
		}
	}
	return it.Err()
}

// openOf reads the open measurements of a locked source that are not staged, by
// time, as they are committed, with their bytes and the number of their records.
func (w *writer) openOf(s *source) (ms []timeseries.Measurement, size, records int, err error) {
	r := NewReader(w.t.engine, w.t.id, w.u.Options())
	defer r.Close()
	if ms, records, err = r.stored(s.Key, s.Meta, minTime); err != nil {
		return nil, 0, 0, err
	}
	sortByTime(ms)
	return ms, sizeOf(ms), records, nil
}

// add changes the sums of the table in the unit.
func (w *writer) add(count, size int) {
	w.u.Storage().Add(w.t.counter, sumCount, int64(count))
	w.u.Storage().Add(w.t.counter, sumBytes, int64(size))
}

// isOf reports whether a measurement belongs to a source.
func isOf(m timeseries.Measurement, source []byte) bool {
	return bytes.Equal(appendSource(nil, m.Meta), source)
}
