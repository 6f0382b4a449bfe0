package catalog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where a rule archives, windows that are due are read before they go: their documents are read in
// one state of the store, each is found to be due, and the caller stores them. Then the gate is
// closed, and one unit drops the windows and says where the documents are, unless anything was
// written in those windows meanwhile: a watch notes it (invariant read-window).

const (
	// maxWindowBytes bounds the documents of a window that is read as a whole; those of one that has
	// more are removed one by one.
	maxWindowBytes = 32 << 20
	// maxWritten bounds the windows that a watch notes.
	maxWritten = 1 << 16
)

// ErrWindowsWritten says that documents in windows were written since they were read.
var ErrWindowsWritten = errors.New("catalog: windows were written since they were read")

// writeWatch notes, while windows are read and dropped, in which ones something is stored, replaced
// or removed. It is set and removed while the gate is closed.
type writeWatch struct {
	due LowWater

	mu       sync.Mutex
	written  map[uint64]struct{}
	overflow bool
}

// noteWritten notes in the watch that the unit writes a document under a record key, or removes it.
func (u *Unit) noteWritten(c *Collection, key RecordKey) {
	w := c.live.writeWatch.Load()
	if w == nil || c.sections == nil {
		return
	}
	n := c.sections.In(key)
	if !w.due.Below(n) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.written) == maxWritten {
		w.overflow = true
		return
	}
	w.written[n] = struct{}{}
}

// touched reports whether anything was written in the windows below a mark.
func (w *writeWatch) touched(upTo LowWater) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.written {
		if upTo.Below(n) {
			return true
		}
	}
	return w.overflow
}

// WindowReader reads the windows that are due by a rule, and drops them. One goroutine reads, and
// another one may drop what that has read.
type WindowReader struct {
	c    *Catalog
	coll *Collection
	rule *Rule
	now  int64
	at   Evaluation
	s    *storage.Snapshot
	w    *writeWatch
	next LowWater // what is below it was read
	cut  LowWater // what is below it is due
}

// WindowPart is windows that were read, with their documents in the order of the records.
type WindowPart struct {
	Docs       []bson.Doc
	Bytes      int64
	from, upTo LowWater
	windows    int64
}

// ReadWindows begins to read the windows that are wholly due by the rule of what, for which documents
// that are not due are moved out of them first, where that is cheaper than to remove the others one by
// one. It returns nil if the windows cannot be read now: the documents can be removed one by one.
//
// REQUIRES: Collection.WindowedBy.
func (c *Catalog) ReadWindows(ctx context.Context, coll *Collection, what Drop) (*WindowReader, error) {
	if err := invariant.Require(coll.WindowedBy(what.Rule), "catalog: ReadWindows is by a rule that the windows serve"); err != nil {
		return nil, err
	}
	l := coll.live
	if l.gate.Pinned() || l.writeWatch.Load() != nil {
		return nil, nil
	}
	l.dropping.Lock()
	defer l.dropping.Unlock()
	low, due := l.lowWater.Load(), coll.sections.Due(what.Rule.Rule, what.Now)
	r := &WindowReader{c: c, coll: coll, rule: what.Rule, now: what.Now, at: c.evaluate(), next: low, cut: low.Max(due)}
	if some, err := r.moveLiving(ctx, what); err != nil || !some {
		return nil, err
	}
	l.gate.Lock()
	defer l.gate.Unlock()
	w := &writeWatch{due: r.cut, written: map[uint64]struct{}{}}
	if !l.writeWatch.CompareAndSwap(nil, w) {
		return nil, nil
	}
	r.w, r.s = w, c.engine.NewSnapshot()
	return r, nil
}

// moveLiving moves documents that are not due out of the windows that are. It reports whether there are
// documents in those.
func (r *WindowReader) moveLiving(ctx context.Context, what Drop) (some bool, err error) {
	var d Dropped
	x := dropper{c: r.c, coll: r.coll, at: r.at, rule: r.rule, now: r.now, begun: time.Now(), o: what, d: &d, low: r.next, from: r.next, cut: r.cut}
	if err := x.readSums(); err != nil {
		return false, err
	}
	if x.docs == 0 {
		return false, x.forgetEmpty(ctx)
	}
	x.watch = &dropWatch{due: x.cut}
	if worth, err := x.worthReassigning(); err != nil || !worth || len(x.stale) == 0 {
		return true, err
	}
	x.setWatch(x.watch)
	defer x.setWatch(nil)
	_, err = x.reassignStale(ctx)
	return true, err
}

// Next reads the next windows: those that have together at most so many documents and bytes, but at
// least one, up to the first with a document that is not due or does not fit, which is asked for each.
// It returns nil behind the last, and where the next one is none of them or has too many bytes.
func (r *WindowReader) Next(docs, bytes int64, fits func(bson.Doc) bool) (*WindowPart, error) {
	if r.c.lists(r.coll) {
		docs = min(docs, listedDocs)
		if r.coll.newList().whole {
			bytes = min(bytes, imageBytes)
		}
	}
	p := &WindowPart{from: r.next, upTo: r.cut}
	most, n := int64(0), int64(0)
	large := false
	err := r.coll.eachWindow(r.s, p.from, r.cut, func(w windowSum) bool {
		large = most == 0 && w.d[windowSize] > maxWindowBytes
		if large || n > 0 && (n+w.d[windowDocs] > docs || most+w.d[windowSize] > bytes) {
			p.upTo = p.from.UpTo(w.window, r.cut)
			return false
		}
		n += w.d[windowDocs]
		most += w.d[windowSize]
		return true
	})
	if err != nil || large && n == 0 {
		return nil, err
	}
	for p.upTo != p.from {
		first, ends, err := r.read(p, n, fits)
		if err != nil {
			return nil, err
		}
		if !ends {
			break
		}
		p.upTo = p.from.UpTo(first, r.cut)
	}
	if p.upTo == p.from || len(p.Docs) == 0 {
		return nil, nil
	}
	r.next = p.upTo
	return p, nil
}

// readRoom is how much memory is taken at once for documents that are read, in bytes.
const readRoom = 1 << 20

// read reads the documents of a part, of about so many. ends says that one is not due or does not
// fit; first is the first window with such a one.
func (r *WindowReader) read(p *WindowPart, docs int64, fits func(bson.Doc) bool) (first uint64, ends bool, err error) {
	p.Docs, p.Bytes, p.windows = make([]bson.Doc, 0, min(docs, readRoom)), 0, 0
	var room []byte
	last := uint64(0)
	for _, span := range r.coll.sections.Spans(p.from, p.upTo) {
		err := r.coll.iters(r.s, span, func(it *storage.Iter) (more bool, err error) {
			for ok := it.First(); ok; ok = it.Next() {
				v, err := it.Value()
				if err != nil {
					return false, err
				}
				n := r.coll.sections.In(it.Key())
				if r.rule.Due(v) > r.now || !fits(v) {
					if !ends || n < first {
						first, ends = n, true
					}
					return true, nil // the records of another range may be in windows before it
				}
				if n != last || p.windows == 0 {
					p.windows++
					last = n
				}
				if cap(room)-len(room) < len(v) {
					room = make([]byte, 0, max(len(v), readRoom))
				}
				from := len(room)
				room = append(room, v...)
				p.Docs = append(p.Docs, room[from:len(room):len(room)])
				p.Bytes += int64(len(v))
			}
			return true, it.Err()
		})
		if err != nil {
			return 0, false, err
		}
	}
	return first, ends, nil
}

// Drop drops the windows of a part, the first that was not dropped yet. with writes to other
// collections in the unit that does. Errors: ErrWindowsWritten, ErrNoPermit, those of with.
//
// Invariant read-window: what a unit drops is what was read, byte for byte: nothing was written in
// those windows between the state in which they were read and the unit, as the watch was set when
// that was taken, the gate closed, and is asked when the gate is closed.
func (r *WindowReader) Drop(ctx context.Context, p *WindowPart, permit *Permit, with func(*Unit) error) (d Dropped, err error) {
	l := r.coll.live
	l.dropping.Lock()
	defer l.dropping.Unlock()
	err = permit.Unit(func() error {
		return r.c.Run(ctx, storage.Buffered, func(u *Unit) error {
			l.gate.Lock()
			u.closed = l
			u.onEnd = append(u.onEnd, l.gate.Unlock)
			now := r.coll.Latest()
			if now == nil || now.sharding.Moves() || now.Namespace != r.coll.Namespace || l.lowWater.Load() != p.from || r.w.touched(p.upTo) {
				return ErrWindowsWritten
			}
			if err := permit.Check(now); err != nil {
				return err
			}
			sum, err := r.sum(now, p)
			if err != nil {
				return err
			}
			u.e.at = r.at
			d = Dropped{Docs: sum[windowDocs], Bytes: sum[windowSize], Keys: sum[windowDocs] * int64(len(now.indexes)-1), Windows: p.windows}
			if err := with(u); err != nil {
				return err
			}
			list, err := r.list(now, p)
			if err != nil {
				return err
			}
			return u.dropWindows(now, p.from, p.upTo, sum, r.rule.Index.Name, list)
		})
	})
	if err != nil {
		return Dropped{}, err
	}
	return d, nil
}

// sum adds up the windows of a part, and checks that it is that of what was read, and this shard's.
func (r *WindowReader) sum(now *Collection, p *WindowPart) (sum [windowSums]int64, err error) {
	err = now.eachWindow(r.c.engine, p.from, p.upTo, func(w windowSum) bool {
		for i := range sum {
			sum[i] += w.d[i]
		}
		return true
	})
	if err != nil {
		return sum, err
	}
	if !invariant.Check(sum[windowDocs] == int64(len(p.Docs)) && sum[windowSize] == p.Bytes, "catalog: windows have the documents that were read in them") {
		return sum, ErrWindowsWritten
	}
	for _, d := range p.Docs {
		if now.sharding.Hides(d) {
			return sum, ErrWindowsWritten
		}
	}
	return sum, nil
}

// list lists the documents of a part, where removals of ranges are recorded so.
func (r *WindowReader) list(now *Collection, p *WindowPart) (*idList, error) {
	if !r.c.lists(now) {
		return nil, nil
	}
	list := now.newList()
	for _, d := range p.Docs {
		if err := list.add(d); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// dropWindows writes the removal of windows as part of the unit, which has closed the gate.
func (u *Unit) dropWindows(coll *Collection, from, upTo LowWater, sum [windowSums]int64, rule string, list *idList) error {
	u.e.keeps = true
	return u.e.dropRange(coll, from, upTo, sum, rule, list)
}

// Close ends the reading.
func (r *WindowReader) Close() {
	r.coll.live.gate.Lock()
	r.coll.live.writeWatch.Store(nil)
	r.coll.live.gate.Unlock()
	_ = r.s.Close() // never fails: it has no iterators
}
