package catalog

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// moveDocs is how many documents move to their windows in one unit.
	moveDocs = 100
	// maxDropRounds bounds how often DropWindows looks again because documents
	// were touched in windows that it was about to drop.
	maxDropRounds = 3
)

// Dropped is what DropWindows did.
type Dropped struct {
	Docs, Bytes int64 // that are gone
	Keys        int64 // index entries of theirs, one in each index but that on _id taken for granted
	Windows     int64 // that had documents
	Moved       int64 // documents that were not due, and live in another window now
	// More says that windows that are due are left, since time was over or since
	// documents in them were touched meanwhile.
	More bool
}

// DropWindows removes, without reading them, the documents of all windows that
// are wholly due by a rule at an instant. Those whose date lies
// behind their window move to their own window before; maxTime bounds that, 0
// not at all. What goes, goes in one step with the counts.
//
// Invariant window-due: a document in a window has a date within it or before
// it, or is counted there as stayed; so where none has stayed, all are due.
// REQUIRES: Collection.WindowedBy.
func (c *Catalog) DropWindows(ctx context.Context, coll *Collection, r *Rule, now int64, maxTime time.Duration) (d Dropped, err error) {
	begun := time.Now()
	high := coll.windows.at(coll.windows.wholeUntil(r.lastDue(now)) + 1)
	for range maxDropRounds {
		left, err := c.moveStayed(ctx, coll, high, begun, maxTime, &d)
		if err != nil {
			return d, err
		}
		if err := c.dropBelow(ctx, coll, high, &d); err != nil || left || !d.More {
			d.More = d.More || left
			return d, err
		}
	}
	// What is touched all the time waits for the next pass.
	d.More = d.More && d.Moved+d.Docs > 0
	return d, nil
}

// windowSum is what a window holds.
type windowSum struct {
	window uint64
	d      [windowSums]int64
}

// eachWindow calls f with the sums of the windows from the low water up to
// high, in order, until it returns false.
func (c *Collection) eachWindow(r storage.Reader, high uint64, f func(windowSum) bool) error {
	it, err := r.NewIter(storage.IdentWindows, windowKey(nil, c.Ident, c.live.lowWater.Load()), windowKey(nil, c.Ident, high))
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return err
		}
		key := it.Key()
		w := windowSum{window: RecordKey(key[len(key)-windowBytes:]).window()}
		if err := storage.Sums(v, w.d[:]); err != nil {
			return err
		}
		if !f(w) {
			break
		}
	}
	return it.Err()
}

// moveStayed moves the documents below high that do not belong there; left
// says that time was over before the last.
func (c *Catalog) moveStayed(ctx context.Context, coll *Collection, high uint64, begun time.Time, maxTime time.Duration, d *Dropped) (left bool, err error) {
	var from []uint64
	if err := coll.eachWindow(c.engine, high, func(w windowSum) bool {
		if w.d[windowStayed] > 0 {
			from = append(from, w.window)
		}
		return len(from) < maxStayedWindows
	}); err != nil {
		return false, err
	}
	for _, n := range from {
		if left, err := c.emptyWindow(ctx, coll, n, begun, maxTime, d); err != nil || left {
			return left, err
		}
	}
	return len(from) == maxStayedWindows, nil
}

// maxStayedWindows bounds the windows that one round of moveStayed knows.
const maxStayedWindows = 1 << 16

// emptyWindow moves the documents of one window that do not belong there.
func (c *Catalog) emptyWindow(ctx context.Context, coll *Collection, n uint64, begun time.Time, maxTime time.Duration, d *Dropped) (left bool, err error) {
	s := c.engine.NewSnapshot()
	defer s.Close()
	it, err := s.NewIter(coll.Ident, appendWindow(nil, n), appendWindow(nil, n+1))
	if err != nil {
		return false, err
	}
	defer it.Close()
	var group []RecordKey
	for ok := it.First(); ok || len(group) > 0; ok = it.Next() {
		if ok {
			v, err := it.Value()
			if err != nil {
				return false, err
			}
			if coll.windows.of(v) > n {
				group = append(group, append(RecordKey(nil), it.Key()...))
			}
			if len(group) < moveDocs {
				continue
			}
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if maxTime > 0 && time.Since(begun) >= maxTime {
			return true, nil
		}
		if err := c.moveGroup(ctx, coll, group, d); err != nil {
			return false, err
		}
		if group = group[:0]; !ok {
			break
		}
	}
	return false, it.Err()
}

// moveGroup moves those of some documents that do not belong into their
// window, as they are now.
func (c *Catalog) moveGroup(ctx context.Context, coll *Collection, group []RecordKey, d *Dropped) error {
	moved := int64(0)
	err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
		moved = 0
		// Those that others have locked are likely to change; they come with the next
		// round.
		_, err := u.LockRecords(ctx, coll, group, func(k RecordKey, doc bson.Doc) error {
			if coll.windows.of(doc) <= k.window() {
				return nil
			}
			moved++
			return u.move(u.inLatest(coll), k, doc)
		})
		return err
	})
	if err == nil {
		d.Moved += moved
	}
	return err
}

// inLatest is the newest descriptor of a collection that the unit is inside of.
func (u *Unit) inLatest(c *Collection) *Collection { return c.live.current.Load() }

// dropBelow drops the windows from the low water up to high, or up to the
// first one in which a document has stayed. It closes the gate: nobody else
// writes to the collection meanwhile.
func (c *Catalog) dropBelow(ctx context.Context, coll *Collection, high uint64, d *Dropped) error {
	l := coll.live
	l.gate.Lock()
	defer l.gate.Unlock()
	coll = coll.Latest()
	if coll == nil {
		return nil
	}
	d.More = false
	var sum [windowSums]int64
	windows := int64(0)
	if err := coll.eachWindow(c.engine, high, func(w windowSum) bool {
		if w.d[windowStayed] > 0 {
			high, d.More = w.window, true
			return false
		}
		if w.d[windowDocs] > 0 {
			windows++
		}
		sum[windowDocs] += w.d[windowDocs]
		sum[windowSize] += w.d[windowSize]
		return true
	}); err != nil {
		return err
	}
	if sum[windowDocs] == 0 {
		return nil
	}
	if err := c.dropRange(ctx, coll, high, sum); err != nil {
		return err
	}
	d.Docs += sum[windowDocs]
	d.Bytes += sum[windowSize]
	d.Keys += sum[windowDocs] * int64(len(coll.indexes)-1)
	d.Windows += windows
	return nil
}

// dropRange removes the windows from the low water up to high, which hold what
// sum says. The low water rises before the unit is visible, so that nobody
// takes an entry for alive whose document he cannot see.
func (c *Catalog) dropRange(ctx context.Context, coll *Collection, high uint64, sum [windowSums]int64) error {
	l := coll.live
	low := l.lowWater.Load()
	state := windowState{low: high, swept: l.swept.Load()}
	u := c.engine.Begin()
	defer u.Abort()
	if err := u.DeleteRange(coll.Ident, nil, appendWindow(nil, high)); err != nil {
		return err
	}
	if err := u.DeleteRange(storage.IdentWindows, windowKey(nil, coll.Ident, 0), windowKey(nil, coll.Ident, high)); err != nil {
		return err
	}
	if l.counter.Load(sumDocs) == sum[windowDocs] {
		state.swept = high // nothing is left: the indexes go, too
		if err := c.dropAllEntries(u, coll); err != nil {
			return err
		}
	}
	if err := u.Set(storage.IdentWindows, identKey(coll.Ident), state.encode()); err != nil {
		return err
	}
	u.Frees()
	u.Add(l.counter, sumDocs, -sum[windowDocs])
	u.Add(l.counter, sumBytes, -sum[windowSize])
	l.lowWater.Store(high)
	if err := c.committer.Commit(ctx, u, storage.Buffered); err != nil {
		l.lowWater.Store(low)
		return err
	}
	if l.swept.Store(state.swept); state.swept == high {
		l.dead.Store(0)
	} else {
		l.dead.Add(sum[windowDocs])
	}
	return nil
}

// dropAllEntries removes what is in the indexes of a collection.
func (c *Catalog) dropAllEntries(u *storage.Unit, coll *Collection) error {
	for _, ix := range coll.indexes {
		if err := u.DeleteRange(ix.Ident, nil, nil); err != nil {
			return err
		}
	}
	return nil
}
