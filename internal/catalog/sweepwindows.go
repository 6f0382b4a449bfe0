package catalog

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// A step of a sweep has this many entries.
	sweepStretch = 8192
	// sweepRun is how many consecutive dead entries are removed by a range
	// tombstone rather than one by one.
	sweepRun = 128
	// maxSweepWritten bounds the keys written during a step that a watch notes.
	maxSweepWritten = 8192
	// A sweep is due when more than one in sweepShare of the entries is dead.
	sweepShare = 4
)

// SweepDue reports whether enough index entries of a collection are dead for Sweep to
// be worth its cost, and whether there are any.
func (c *Collection) SweepDue() (worth, any bool) {
	if c.sections == nil || c.live.swept.Load() == c.live.lowWater.Load() {
		return false, false
	}
	return c.live.dead.Load()*(sweepShare-1) >= c.live.counter.Load(sumDocs), true
}

// Unswept returns how many removed documents still have dead index entries; an
// overestimate for those that the process found when it started.
func (c *Collection) Unswept() int64 {
	if _, any := c.SweepDue(); !any {
		return 0
	}
	return max(c.live.dead.Load(), 1)
}

// Swept is what Sweep did.
type Swept struct {
	Entries int64 // that were removed
	Ranges  int64 // tombstones that removed several of them
}

// Sweep removes the dead entries, of documents that were removed with their windows,
// from all indexes of a collection, in their order. After each step it calls pause
// with the time that the step took; an error of pause ends the sweep.
func (c *Catalog) Sweep(ctx context.Context, coll *Collection, pause func(time.Duration) error) (s Swept, err error) {
	coll = coll.Latest()
	if coll == nil || coll.sections == nil {
		return s, nil
	}
	_, err = c.sweep(ctx, coll, &s, pause)
	return s, err
}

// sweep is Sweep; clean says that no entry is left that was dead when it began.
func (c *Catalog) sweep(ctx context.Context, coll *Collection, s *Swept, pause func(time.Duration) error) (clean bool, err error) {
	at := c.evaluate()
	gone, dead := coll.live.gone(), coll.live.dead.Load()
	clean = true
	for _, ix := range coll.indexes {
		w := sweeper{c: c, coll: coll, ix: ix, at: at, gone: gone, s: s}
		whole, err := w.index(ctx, pause)
		if err != nil {
			return false, err
		}
		clean = clean && whole
	}
	if clean {
		err = c.noteSwept(ctx, coll, at, gone.Low, dead)
	}
	return clean, err
}

// SweepFirst removes the dead entries that a scan of what is due by a rule would meet
// first: from the beginning of each run of its index up to a step without any. It
// calls pause as Sweep does.
func (c *Catalog) SweepFirst(ctx context.Context, coll *Collection, r *Rule, now int64, pause func(time.Duration) error) error {
	coll = coll.Latest()
	if coll == nil || coll.sections == nil {
		return nil
	}
	w := sweeper{c: c, coll: coll, ix: r.Index, at: c.evaluate(), gone: coll.live.gone(), s: &Swept{}}
	for _, due := range r.DueRanges(now) {
		first := due.From
		if r.Index.Parts[0].Descending {
			first = due.To
		}
		if err := w.first(ctx, r.Index.Bound(new(bson.Builder).Value("", first).Finish()), pause); err != nil {
			return err
		}
	}
	return nil
}

// first sweeps from a key up to a step without dead entries.
func (w *sweeper) first(ctx context.Context, from []byte, pause func(time.Duration) error) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		before, begun := w.s.Entries, time.Now()
		next, _, err := w.sweepStep(ctx, from)
		if err != nil || next == nil || w.s.Entries == before {
			return err
		}
		from = next
		if err := pause(time.Since(begun)); err != nil {
			return err
		}
	}
}

// noteSwept records that no index has entries below low.
func (c *Catalog) noteSwept(ctx context.Context, coll *Collection, at Evaluation, low LowWater, dead int64) error {
	l := coll.live
	l.gate.Lock()
	defer l.gate.Unlock()
	if l.dropped.Load() || l.swept.Load().AtLeast(low) {
		return nil
	}
	state := l.state()
	state.Swept = low
	e := c.begin(coll, at)
	u := e.u
	defer u.Abort()
	if err := u.Set(storage.IdentWindows, identKey(coll.Ident), state.Encode()); err != nil {
		return err
	}
	u.Frees()
	e.note(&windowsNote{of(coll), -dead})
	return c.commit(ctx, e, storage.Buffered)
}

// sweepWatch notes the entries that writers add to an index while a step sweeps
// it. It is set and removed while the gate is closed, so every unit that writes
// in between notes all it writes.
type sweepWatch struct {
	ident storage.Ident
	from  []byte

	mu       sync.Mutex
	written  [][]byte
	overflow bool
}

// note notes an entry that is about to be written. w may be nil.
func (w *sweepWatch) note(ix *Index, key []byte) {
	if w == nil || w.ident != ix.Ident || bytes.Compare(key, w.from) < 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.written) == maxSweepWritten {
		w.overflow = true
		return
	}
	w.written = append(w.written, bytes.Clone(key))
}

// within reports whether an entry may have been written between two keys, both
// included.
func (w *sweepWatch) within(first, last []byte) bool {
	if w.overflow {
		return true
	}
	for _, k := range w.written {
		if bytes.Compare(k, first) >= 0 && bytes.Compare(k, last) <= 0 {
			return true
		}
	}
	return false
}

// deadRun is a run of consecutive dead entries.
type deadRun struct {
	first, last []byte
	n           int64
}

// sweeper sweeps one index.
type sweeper struct {
	c    *Catalog
	coll *Collection
	ix   *Index
	at   Evaluation
	gone Gone
	s    *Swept

	record RecordKey // memory
	runs   []deadRun // of sweepRun and more
	points []deadEntry
	run    deadRun
	short  []deadEntry // those of run, while it is short
}

// deadEntry is one dead entry, with the length of its value.
type deadEntry struct {
	key  []byte
	size int
}

// index sweeps in steps; whole says that nothing dead is left.
func (w *sweeper) index(ctx context.Context, pause func(time.Duration) error) (whole bool, err error) {
	whole = true
	for from := []byte(nil); ; {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		begun := time.Now()
		next, all, err := w.sweepStep(ctx, from)
		if err != nil {
			return false, err
		}
		whole = whole && all
		if next == nil {
			return whole, nil
		}
		from = next
		if err := pause(time.Since(begun)); err != nil {
			return false, err
		}
	}
}

// sweepStep does one step, from a key on; next is where the next one starts.
func (w *sweeper) sweepStep(ctx context.Context, from []byte) (next []byte, whole bool, err error) {
	w.coll.live.sweeping.Lock()
	defer w.coll.live.sweeping.Unlock()
	watch := &sweepWatch{ident: w.ix.Ident, from: from}
	w.setWatch(watch)
	defer w.setWatch(nil)
	w.runs, w.points = w.runs[:0], w.points[:0]
	if next, err = w.scan(from); err != nil {
		return nil, false, err
	}
	if w.ix.ByPrefix == nil {
		// No entry with a dead record key is ever added again, so single ones are
		// removed without closing the gate. On _id one may be: an _id can come back.
		if err := w.dropPoints(ctx); err != nil {
			return nil, false, err
		}
	}
	whole, err = w.dropRuns(ctx, watch)
	return next, whole, err
}

func (w *sweeper) dropPoints(ctx context.Context) error {
	x := w.c.begin(w.coll, w.at)
	defer x.u.Abort()
	for _, e := range w.points {
		if err := x.u.Delete(w.ix.Ident, e.key, e.size); err != nil {
			return err
		}
	}
	w.s.Entries += int64(len(w.points))
	w.points = w.points[:0]
	return w.c.commit(ctx, x, storage.Buffered)
}

func (w *sweeper) setWatch(watch *sweepWatch) {
	w.coll.live.gate.Lock()
	w.coll.live.watch.Store(watch)
	w.coll.live.gate.Unlock()
}

// scan finds the dead entries of a step.
func (w *sweeper) scan(from []byte) (next []byte, err error) {
	it, err := w.c.engine.NewIter(w.ix.Ident, from, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > sweepStretch {
			next = bytes.Clone(it.Key())
			break
		}
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		_, record, _ := w.ix.Split(w.record[:0], it.Key(), v)
		if w.ix.ByPrefix != nil {
			w.record = record
		}
		if w.gone.Dead(record) {
			w.add(it.Key(), len(v))
		} else {
			w.flush()
		}
	}
	w.flush()
	return next, it.Err()
}

// add makes an entry the last of the run.
func (w *sweeper) add(key []byte, size int) {
	if w.run.n < sweepRun {
		w.short = append(w.short, deadEntry{bytes.Clone(key), size})
		w.run.first = w.short[0].key
	}
	w.run.last = append(w.run.last[:0], key...)
	w.run.n++
}

// flush ends the run.
func (w *sweeper) flush() {
	if w.run.n >= sweepRun {
		w.runs = append(w.runs, w.run)
	} else {
		w.points = append(w.points, w.short...)
	}
	w.run, w.short = deadRun{}, w.short[:0]
}

// dropRuns removes the long runs without concurrent writes, and the entries on _id that
// were not written concurrently.
func (w *sweeper) dropRuns(ctx context.Context, watch *sweepWatch) (whole bool, err error) {
	if len(w.runs) == 0 && len(w.points) == 0 {
		return true, nil
	}
	w.coll.live.gate.Lock()
	defer w.coll.live.gate.Unlock()
	if w.coll.live.dropped.Load() || w.ix.live.dropped.Load() {
		return true, nil
	}
	x := w.c.begin(w.coll, w.at)
	u := x.u
	defer u.Abort()
	whole = true
	for _, r := range w.runs {
		if watch.within(r.first, r.last) {
			whole = false
			continue
		}
		if err := u.DeleteRange(w.ix.Ident, r.first, append(r.last, 0)); err != nil {
			return false, err
		}
		w.s.Entries += r.n
		w.s.Ranges++
	}
	for _, e := range w.points {
		if watch.within(e.key, e.key) {
			whole = false
			continue
		}
		if err := u.Delete(w.ix.Ident, e.key, e.size); err != nil {
			return false, err
		}
		w.s.Entries++
	}
	return whole, w.c.commit(ctx, x, storage.Buffered)
}
