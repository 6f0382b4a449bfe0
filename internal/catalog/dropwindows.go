package catalog

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// reassignDocs is how many documents are moved to their windows in one unit.
	reassignDocs = 100
	// maxDropRounds bounds how often DropWindows starts over because documents were
	// written in windows that it was about to drop.
	maxDropRounds = 8
	// maxLateTouches bounds the documents that it notes as written in the meantime;
	// where there are more, the windows wait.
	maxLateTouches = 100_000
	// maxStaleWindows bounds the stale windows that are read at once.
	maxStaleWindows = 1 << 16
)

// Drop are the arguments of DropWindows.
type Drop struct {
	Rule *Rule
	// Now is the instant against which documents are checked, in milliseconds since
	// 1970.
	Now int64
	// MaxTime bounds the time spent on reassigning documents or removing them one by one; 0
	// is no bound.
	MaxTime time.Duration
	// Permit is checked before each step that removes something.
	Permit *Permit
	// Did is called after each step with what it did and how long it took. Nil for
	// nothing.
	Did func(Dropped, time.Duration)
	// Rest is called after each step with how long it took, and may block. alone says that
	// the step was a unit that drops windows, or a part of listing its documents: nothing else
	// of the removal runs, and no gate is closed. An error of it ends the removal then. Nil for
	// nothing.
	Rest func(took time.Duration, alone bool) error
}

// Dropped is what DropWindows or DropBuckets did.
type Dropped struct {
	Docs, Bytes int64 // that were removed
	Keys        int64 // their index entries; for a window dropped as a whole, one in each index but that on _id is assumed
	Windows     int64 // that had documents, and were dropped as a whole
	// Measurements is how many were in the removed buckets, which Docs counts.
	Measurements int64
	Reassigned   int64 // documents that were not due, and are in another window now
	// More says that due windows are left, because time was up or because documents
	// in them were written in the meantime.
	More bool
}

func (d *Dropped) add(o Dropped) {
	d.Docs += o.Docs
	d.Bytes += o.Bytes
	d.Keys += o.Keys
	d.Windows += o.Windows
	d.Reassigned += o.Reassigned
}

// DropWindows removes, without a write for each, the documents of all windows that are
// wholly due by a rule at an instant. Stale windows are read first, and documents that
// are not due yet are reassigned to their own windows, unless it is cheaper to remove
// the others one by one (thinwindow.go). Windows are dropped in one step with their
// counts.
//
// Invariant window-due: a document in a window has an instant within it or before
// it, or the window is marked as stale. So in a window that is not stale all are
// due; in a stale one each document is checked, and a dropWatch notes what changes
// in the meantime.
//
// REQUIRES: Collection.WindowedBy.
func (c *Catalog) DropWindows(ctx context.Context, coll *Collection, what Drop) (d Dropped, err error) {
	if err := invariant.Require(coll.WindowedBy(what.Rule), "catalog: DropWindows is by a rule that the windows serve"); err != nil {
		return d, err
	}
	if coll.live.gate.Pinned() {
		return d, nil // a prepared transaction may stay for long: the next visit comes again
	}
	coll.live.dropping.Lock()
	defer coll.live.dropping.Unlock()
	at := c.evaluate()
	low, due := coll.live.lowWater.Load(), coll.sections.Due(what.Rule.Rule, what.Now)
	x := dropper{c: c, coll: coll, at: at, rule: what.Rule, now: what.Now, begun: time.Now(), o: what, d: &d, low: low}
	if x.from = low.Max(coll.live.thinned.upTo.Min(due)); x.from == low {
		coll.live.thinned = thinned{}
	}
	x.cut = low.Max(due)
	x.watch = &dropWatch{due: x.cut}
	if err := x.readSums(); err != nil {
		return d, err
	}
	if x.docs == 0 {
		return d, x.forgetEmpty(ctx)
	}
	defer x.endList()
	switch err := x.dropAll(ctx); {
	case errors.Is(err, errLostList):
		d.More = true
		return d, nil
	case errors.Is(err, errLongList):
		d.More, err = x.thin(ctx)
		return d, err
	default:
		return d, err
	}
}

// dropAll removes the windows, as a whole or one document after the other.
func (x *dropper) dropAll(ctx context.Context) error {
	if x.from == x.low && len(x.stale) == 0 {
		if stale, err := x.dropUnread(ctx); err != nil || !stale {
			return err
		}
	}
	reassign, err := x.worthReassigning()
	switch {
	case err != nil:
	case reassign:
		err = x.reassignAndDrop(ctx)
	default:
		x.d.More, err = x.thin(ctx)
	}
	return err
}

// reassignAndDrop moves what is not due out of the due windows, and drops those.
func (x *dropper) reassignAndDrop(ctx context.Context) error {
	x.setWatch(x.watch)
	defer x.setWatch(nil)
	if left, err := x.reassignStale(ctx); err != nil || left {
		x.d.More = left
		return err
	}
	for rounds := 0; rounds < maxDropRounds; {
		touched, more, err := x.drop(ctx)
		switch {
		case err != nil:
			return err
		case len(touched) == 0 && !x.overflow && more:
			continue
		case len(touched) == 0 && !x.overflow:
			x.d.More = x.d.More || x.cut != x.watch.due
			return nil
		}
		if x.overflow {
			break // what was not noted is found in the next round
		}
		rounds++
		for len(touched) > 0 {
			n := min(reassignDocs, len(touched))
			if err := x.reassignGroup(ctx, touched[:n]); err != nil {
				return err
			}
			touched = touched[n:]
		}
	}
	x.d.More = x.d.Reassigned > 0 // otherwise documents that are written continually wait for the next pass
	return nil
}

// dropWatch notes, while due windows are about to be dropped, the documents in
// them that are written with a later instant. It is set and removed while the
// gate is closed, so every unit that writes in between notes what it writes.
type dropWatch struct {
	due LowWater

	mu       sync.Mutex
	touched  []RecordKey
	overflow bool
}

func (w *dropWatch) note(key RecordKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.touched) == maxLateTouches {
		w.overflow = true
		return
	}
	w.touched = append(w.touched, bytes.Clone(key))
}

// take returns what was noted since the last call, in the order of the keys.
func (w *dropWatch) take() (touched []RecordKey, overflow bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched, w.touched = w.touched, nil
	slices.SortFunc(touched, func(a, b RecordKey) int { return bytes.Compare(a, b) })
	return slices.CompactFunc(touched, func(a, b RecordKey) bool { return bytes.Equal(a, b) }), w.overflow
}

// noteTouch notes in the watch a document that is about to be stored under the
// unit's record key.
func (u *Unit) noteTouch(c *Collection, doc bson.Doc) {
	u.noteWritten(c, u.record)
	if !c.Windowed() {
		return
	}
	if w := c.live.dropWatch.Load(); w != nil && w.due.Below(c.sections.In(u.record)) && !w.due.Below(c.sections.Of(doc)) {
		w.note(u.record)
	}
}

// dropper is a running DropWindows.
type dropper struct {
	c       *Catalog
	coll    *Collection
	rule    *Rule
	now     int64
	at      Evaluation // of everything that a visit drops
	watch   *dropWatch
	begun   time.Time
	o       Drop
	stepped sync.Mutex // held while Did and Rest are called
	d       *Dropped
	// The windows from low to from are thinned, those from there to cut come due now:
	// at or below what is due.
	low, from, cut LowWater
	// docs are in those that come due now, some of which are stale.
	docs  int64
	stale []windowSum
	empty int // of those, windows that have no documents left
	// overflow says that more documents were written than the watch could note.
	overflow bool
	// listed is the state in which documents are listed, and listing the watch for what
	// has changed since; nil if documents are not listed, or few are.
	listed  *storage.Snapshot
	listing *listWatch
	// rested is how long the removal has rested while it listed the unit that comes next, and
	// restedFor how long it had worked before those rests.
	rested, restedFor time.Duration
}

func (x *dropper) setWatch(w *dropWatch) {
	x.coll.live.gate.Lock()
	x.coll.live.dropWatch.Store(w)
	x.coll.live.gate.Unlock()
}

// did counts what a step did, given when it began, and calls Did and Rest.
func (x *dropper) did(d Dropped, begun time.Time) error {
	took := time.Since(begun) // without the wait for another step's Rest
	x.count(d, took)
	return x.rest(took, false)
}

// count counts what a step did, and calls Did.
func (x *dropper) count(d Dropped, took time.Duration) {
	x.stepped.Lock()
	defer x.stepped.Unlock()
	x.d.add(d)
	if x.o.Did != nil {
		x.o.Did(d, took)
	}
}

// rest calls Rest.
func (x *dropper) rest(took time.Duration, alone bool) error {
	if x.o.Rest == nil {
		return nil
	}
	x.stepped.Lock()
	defer x.stepped.Unlock()
	return x.o.Rest(took, alone)
}

// late reports whether time is up.
func (x *dropper) late() bool { return x.o.MaxTime > 0 && time.Since(x.begun) >= x.o.MaxTime }

// readSums reads the sums of the windows that come due now.
func (x *dropper) readSums() error {
	return x.coll.eachWindow(x.c.engine, x.from, x.cut, func(w windowSum) bool {
		if w.d[windowThird] > 0 {
			if len(x.stale) == maxStaleWindows {
				x.cut = x.from.UpTo(w.window, x.cut) // the rest is left to the next visit
				return false
			}
			x.stale = append(x.stale, w)
		}
		if x.docs += w.d[windowDocs]; w.d[windowDocs] == 0 {
			x.empty++
		}
		return true
	})
}

// forgetEmpty removes the sums of the windows that come due now if none has
// documents left, and there are many.
func (x *dropper) forgetEmpty(ctx context.Context) error {
	if x.empty < emptyWindows {
		return nil
	}
	x.coll.live.gate.Lock()
	defer x.coll.live.gate.Unlock()
	filled := false
	err := x.coll.eachWindow(x.c.engine, x.from, x.cut, func(w windowSum) bool {
		filled = w.d[windowDocs] > 0
		return !filled
	})
	if err != nil || filled || x.coll.Latest() == nil {
		return err
	}
	return x.c.forgetWindows(ctx, x.coll, x.at, x.from, x.cut)
}

// windowSum is the sum of a window.
type windowSum struct {
	window uint64
	d      [windowSums]int64
}

// eachWindow calls f with the sums of the windows from one mark up to another,
// in order, until it returns false.
func (c *Collection) eachWindow(r storage.Reader, from, upTo LowWater, f func(windowSum) bool) error {
	for _, span := range c.sections.Spans(from, upTo) {
		if more, err := c.eachWindowIn(r, span, f); err != nil || !more {
			return err
		}
	}
	return nil
}

func (c *Collection) eachWindowIn(r storage.Reader, span layout.Span, f func(windowSum) bool) (more bool, err error) {
	it, err := r.NewIter(storage.IdentWindows, windowKey(nil, c.Ident, span.From), windowKey(nil, c.Ident, span.To))
	if err != nil {
		return false, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return false, err
		}
		key := it.Key()
		w := windowSum{window: RecordKey(key[len(key)-layout.SectionBytes:]).Section()}
		if err := storage.Sums(v, w.d[:]); err != nil {
			return false, err
		}
		if !f(w) {
			return false, nil
		}
	}
	return true, it.Err()
}

// iters calls f with an iterator over each range of the records in a span, in order, until
// it returns false.
func (c *Collection) iters(r storage.Reader, span layout.Span, f func(*storage.Iter) (more bool, err error)) error {
	for _, part := range c.sections.Ranges(span) {
		it, err := r.NewIter(c.Ident, part.From, part.To)
		if err != nil {
			return err
		}
		more, err := f(it)
		if err = errors.Join(err, it.Close()); err != nil || !more {
			return err
		}
	}
	return nil
}

// reassignStale reassigns the documents of stale windows that are not due; left says
// that time was up before the last.
func (x *dropper) reassignStale(ctx context.Context) (left bool, err error) {
	var from []uint64
	if err := x.coll.eachWindow(x.c.engine, x.low, x.cut, func(w windowSum) bool {
		if len(from) == maxStaleWindows {
			x.cut = x.low.UpTo(w.window, x.cut) // the rest is left to the next visit
			return false
		}
		if w.d[windowThird] > 0 {
			from = append(from, w.window)
		}
		return true
	}); err != nil {
		return false, err
	}
	for _, n := range from {
		if left, err := x.emptyWindow(ctx, n); err != nil || left {
			return left, err
		}
	}
	return false, nil
}

// emptyWindow reassigns the documents of one window that are not due.
func (x *dropper) emptyWindow(ctx context.Context, n uint64) (left bool, err error) {
	s := x.c.engine.NewSnapshot()
	defer s.Close()
	var group []RecordKey
	move := func() (more bool, err error) {
		if left = x.late(); left {
			return false, nil
		}
		err = x.reassignGroup(ctx, group)
		group = group[:0]
		return err == nil, err
	}
	err = x.coll.iters(s, layout.Span{From: n, To: n + 1}, func(it *storage.Iter) (more bool, err error) {
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				return false, err
			}
			if x.watch.due.Below(x.coll.sections.Of(v)) {
				continue
			}
			if group = append(group, bytes.Clone(it.Key())); len(group) == reassignDocs {
				if more, err := move(); !more {
					return false, err
				}
			}
		}
		return true, it.Err()
	})
	if err == nil && !left && len(group) > 0 {
		_, err = move()
	}
	return left, err
}

// reassignGroup moves, of some documents, those that are not due to their
// windows. Those that others have locked it notes for the next round.
func (x *dropper) reassignGroup(ctx context.Context, group []RecordKey) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	begun, reassigned := time.Now(), int64(0)
	var busy []RecordKey
	err := x.c.Run(ctx, storage.Buffered, func(u *Unit) (err error) {
		reassigned = 0
		busy, err = u.LockRecords(ctx, x.coll, group, func(k RecordKey, doc bson.Doc) error {
			if x.watch.due.Below(x.coll.sections.Of(doc)) {
				return nil
			}
			now := u.inLatest(x.coll)
			if now.sharding.Moves() {
				return nil // nor is anything dropped
			}
			reassigned++
			return u.reassignWindow(now, k, doc)
		})
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range busy {
		x.watch.note(k)
	}
	return x.did(Dropped{Reassigned: reassigned}, begun)
}

// inLatest returns the newest descriptor of a collection whose gate the unit is
// inside.
func (u *Unit) inLatest(c *Collection) *Collection { return c.live.current.Load() }

// dropUnread drops the windows below cut if none is stale. It closes the gate:
// nobody else writes to the collection.
func (x *dropper) dropUnread(ctx context.Context) (stale bool, err error) {
	for more := true; more && !stale; {
		more, err = x.dropPart(ctx, func(sum [windowSums]int64) bool {
			stale = sum[windowThird] > 0
			return !stale
		})
		if err != nil {
			return true, err
		}
	}
	return stale, nil
}

// drop is dropUnread of the next part after each document was checked, unless some were
// written since, which it returns.
func (x *dropper) drop(ctx context.Context) (touched []RecordKey, more bool, err error) {
	more, err = x.dropPart(ctx, func([windowSums]int64) bool {
		touched, x.overflow = x.watch.take()
		return !x.overflow && len(touched) == 0
	})
	return touched, more, err
}

// dropPart drops the next part of the windows below cut: all of them or, where each
// document is listed, about as many as listedDocs. may is called with their sums while the
// gate is closed, and reports whether they may be dropped. more says that there is a next
// part.
func (x *dropper) dropPart(ctx context.Context, may func(sum [windowSums]int64) bool) (more bool, err error) {
	begun := time.Now()
	x.rested, x.restedFor = 0, 0
	upTo, list, err := x.listPart()
	if err != nil {
		return false, err
	}
	var gone Dropped
	err = x.o.Permit.Unit(func() error {
		x.coll.live.gate.Lock()
		defer x.coll.live.gate.Unlock()
		if now := x.coll.Latest(); now == nil || now.sharding.Moves() {
			return nil // it was dropped, or what lies there may be another shard's since the visit began
		}
		sum, windows, err := x.sum(upTo)
		if err != nil || !may(sum) || sum[windowDocs] == 0 {
			return err
		}
		if list, err = x.finishList(list, upTo, sum[windowDocs]); err != nil {
			return err
		}
		gone, err = x.dropSum(ctx, upTo, sum, windows, list)
		return err
	})
	if err != nil {
		return false, err
	}
	last, took := upTo == x.cut, time.Since(begun)-x.rested
	x.count(gone, took)
	took -= x.restedFor
	if gone.Docs == 0 {
		x.d.More = x.d.More || !last // others have removed documents there: try later
		return false, x.rest(took, true)
	}
	if x.from == x.low {
		x.from = upTo
	}
	x.low = upTo
	return !last, x.rest(took, true)
}

// sum adds up the windows below a mark; windows is the number of those with
// documents.
func (x *dropper) sum(upTo LowWater) (sum [windowSums]int64, windows int64, err error) {
	err = x.coll.eachWindow(x.c.engine, x.low, upTo, func(w windowSum) bool {
		if w.d[windowDocs] > 0 {
			windows++
		}
		for i := range sum {
			sum[i] += w.d[i]
		}
		return true
	})
	return sum, windows, err
}

// dropSum drops what is below a mark, given its sum and its documents; with a nil list
// they are recorded as ranges. REQUIRES: the gate is closed.
func (x *dropper) dropSum(ctx context.Context, upTo LowWater, sum [windowSums]int64, windows int64, list *idList) (gone Dropped, err error) {
	if err := x.coll.live.gate.requireClosed(); err != nil {
		return gone, err
	}
	coll := x.coll.Latest()
	if coll == nil {
		return gone, nil
	}
	if err := x.o.Permit.Check(coll); err != nil {
		return gone, err
	}
	invariant.Check(x.low == x.coll.live.lowWater.Load(), "catalog: a visit knows the low water")
	if err := x.c.dropRange(ctx, coll, x.at, x.low, upTo, sum, x.rule.Index.Name, list); err != nil {
		return gone, err
	}
	keys := sum[windowDocs] * int64(len(coll.indexes)-1)
	return Dropped{Docs: sum[windowDocs], Bytes: sum[windowSize], Keys: keys, Windows: windows}, nil
}

// dropRange removes, by a rule, the windows from one mark up to another, in a unit of its own:
// see Effect.dropRange.
func (c *Catalog) dropRange(ctx context.Context, coll *Collection, at Evaluation, from, upTo LowWater, sum [windowSums]int64, rule string, list *idList) error {
	e := c.begin(coll, at)
	defer e.u.Abort()
	if err := e.dropRange(coll, from, upTo, sum, rule, list); err != nil {
		return err
	}
	return c.commit(ctx, e, storage.Buffered)
}

// dropRange removes, by a rule, the windows from one mark up to another, the new low
// water, given their sum; list has their documents, where each is listed. What is below from
// is gone: tombstones that begin where the one before ends stay few for who reads across
// them, where each that lies over all before it has as many fragments as there are.
// REQUIRES: the gate is closed.
func (e *Effect) dropRange(coll *Collection, from, upTo LowWater, sum [windowSums]int64, rule string, list *idList) error {
	l, u := coll.live, e.u
	if err := l.gate.requireClosed(); err != nil {
		return err
	}
	state := l.state()
	state.Low = upTo
	spans := coll.sections.Spans(from, upTo)
	var ranges []layout.KeyRange
	for _, span := range spans {
		ranges = append(ranges, coll.sections.Ranges(span)...)
		if err := u.DeleteRange(storage.IdentWindows, windowKey(nil, coll.Ident, span.From), windowKey(nil, coll.Ident, span.To)); err != nil {
			return err
		}
	}
	for _, r := range ranges {
		if err := u.DeleteRange(coll.Ident, r.From, r.To); err != nil {
			return err
		}
	}
	if l.counter.Load(sumDocs) == sum[windowDocs] {
		state.Swept = upTo // nothing is left: the indexes are emptied, too
		if err := e.c.dropAllEntries(u, coll); err != nil {
			return err
		}
	}
	if err := u.Set(storage.IdentWindows, identKey(coll.Ident), state.Encode()); err != nil {
		return err
	}
	u.Frees()
	u.Add(l.counter, sumDocs, -sum[windowDocs])
	u.Add(l.counter, sumBytes, -sum[windowSize])
	if coll.Open != 0 {
		l.measurements.AddCount(u, -sum[windowThird])
	}
	e.note(&windowsNote{of(coll), sum[windowDocs]})
	if list != nil {
		e.recordExpired(coll, list, rule)
	} else {
		e.recordKeys(coll, ranges, sum, rule)
	}
	return nil
}

// dropAllEntries removes all entries of a collection's indexes.
func (c *Catalog) dropAllEntries(u *storage.Unit, coll *Collection) error {
	for _, ix := range coll.indexes {
		if err := u.DeleteRange(ix.Ident, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
