package catalog

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Where most of the documents in due windows are not due, because they were touched,
// reassigning those costs more than removing the others one by one: reassigning also
// removes a document's entries, and makes new ones. Such windows are thinned: what is
// due is removed, in order, and the rest stays there for good. It expires by the rule's
// index, one by one. The low water stays below thinned windows, so later windows are
// removed one by one as well, until that has cost as much as reassigning the documents
// left in the thinned ones.

const (
	// reassignCost is what reassigning a document costs, in removals.
	reassignCost = 2
	// sampleWindows and sampleDocs are the size of the sample that estimates how
	// many documents of the windows are not due: so many in each of so many
	// windows.
	sampleWindows = 32
	sampleDocs    = 32
	// thinnedRecount is the least number of removals after which the documents in
	// thinned windows are counted again.
	thinnedRecount = 10_000
	// thinWalk is how many documents are read in one state of the store.
	thinWalk = 8192
	// thinWorkers is how many groups of documents are removed at once.
	thinWorkers = 2
)

// thinned is the state of thinned windows. It starts empty with the process, and
// is guarded by live.dropping.
type thinned struct {
	upTo    LowWater // those from the low water up to here
	docs    int64    // that are in them; an upper bound, as they are removed
	gone    int64    // documents that were removed one by one since the low water rose
	counted int64    // gone when docs was counted
	// stretch is windows that are thinned, but for the records before at: see thinSpan.
	stretch layout.Span
	at      RecordKey // nil for none
}

// worthReassigning reports whether the documents that are not due in due windows, and
// in thinned ones, should be reassigned, so that all these windows are dropped as a
// whole.
func (x *dropper) worthReassigning() (bool, error) {
	l := &x.coll.live.thinned
	living, err := x.living()
	if err != nil {
		return false, err
	}
	gone := l.gone + x.docs - living
	if x.from != x.low && l.gone-l.counted >= max(thinnedRecount, l.docs/2) {
		l.docs, l.counted = 0, l.gone
		err := x.coll.eachWindow(x.c.engine, x.low, x.from, func(w windowSum) bool {
			l.docs += w.d[windowDocs]
			return true
		})
		if err != nil {
			return false, err
		}
	}
	return reassignCost*(l.docs+living) <= gone, nil
}

// living estimates how many documents of the stale windows are not due.
func (x *dropper) living() (int64, error) {
	if len(x.stale) == 0 {
		return 0, nil
	}
	step := (len(x.stale) + sampleWindows - 1) / sampleWindows
	var seen, alive, docs int64
	for i, w := range x.stale {
		docs += w.d[windowDocs]
		if i%step != 0 {
			continue
		}
		n := 0
		err := x.coll.iters(x.c.engine, layout.Span{From: w.window, To: w.window + 1}, func(it *storage.Iter) (more bool, err error) {
			part := n + max(1, sampleDocs/len(x.coll.sections.Ranges(layout.Span{})))
			for ok := it.First(); ok && n < min(part, sampleDocs); ok = it.Next() {
				v, err := it.Value()
				if err != nil {
					return false, err
				}
				n++
				seen++
				if x.rule.Due(v) > x.now {
					alive++
				}
			}
			return n < sampleDocs, it.Err()
		})
		if err != nil {
			return 0, err
		}
	}
	if seen == 0 {
		return 0, nil
	}
	return docs * alive / seen, nil
}

// thin removes what is due in the windows from x.from on, one by one; those
// before the first stale one are dropped as a whole. left says that time was up
// before the last.
func (x *dropper) thin(ctx context.Context) (left bool, err error) {
	l := &x.coll.live.thinned
	if x.from == x.low && len(x.stale) > 0 {
		due := x.cut
		x.cut = x.low.UpTo(x.stale[0].window, due)
		if _, err := x.dropUnread(ctx); err != nil && !errors.Is(err, errLongList) {
			return false, err
		}
		x.low = x.coll.live.lowWater.Load()
		x.from, x.cut = x.low, due
		*l = thinned{upTo: x.low}
	}
	before := x.d.Docs
	defer func() { l.gone += x.d.Docs - before }()
	for _, span := range x.coll.sections.Spans(x.from, x.cut) {
		if left, err := x.thinSpan(ctx, span); err != nil || left {
			return left, err
		}
	}
	return x.cut != x.watch.due, nil
}

// thinSpan thins windows, and notes how far it has come: after each stretch of windows with
// about thinWalk documents, or within one where its records are one range.
func (x *dropper) thinSpan(ctx context.Context, span layout.Span) (left bool, err error) {
	l := &x.coll.live.thinned
	for span.From < span.To {
		stretch, err := x.stretch(span)
		if err != nil {
			return false, err
		}
		ranges := x.coll.sections.Ranges(stretch)
		for _, r := range ranges {
			from := []byte(r.From)
			if l.at != nil {
				if bytes.Compare(l.at, r.To) >= 0 {
					continue
				}
				if bytes.Compare(l.at, from) > 0 {
					from = bytes.Clone(l.at)
				}
			}
			for from != nil {
				if from, err = x.thinWalk(ctx, from, r.To); err != nil {
					return false, err
				}
				if from != nil && len(ranges) == 1 {
					l.upTo = l.upTo.Max(x.low).UpTo(RecordKey(from).Section(), x.cut)
				} else if len(ranges) > 1 {
					l.stretch, l.at = stretch, from
					if from == nil {
						l.at = RecordKey(r.To)
					}
				}
				if from != nil && x.late() {
					return true, nil
				}
			}
		}
		l.at = nil
		l.upTo = l.upTo.Max(x.low).UpTo(stretch.To, x.cut)
		if span.From = stretch.To; span.From < span.To && x.late() {
			return true, nil
		}
	}
	return false, nil
}

// stretch returns the first windows of a span, with about thinWalk documents: all of it where
// the records of it are one range.
func (x *dropper) stretch(span layout.Span) (layout.Span, error) {
	l := &x.coll.live.thinned
	if len(x.coll.sections.Ranges(span)) == 1 {
		return span, nil
	}
	if l.at != nil && l.stretch.From == span.From && l.stretch.To <= span.To {
		return l.stretch, nil // a visit ended within it
	}
	l.at = nil
	docs := int64(0)
	_, err := x.coll.eachWindowIn(x.c.engine, span, func(w windowSum) bool {
		if docs += w.d[windowDocs]; docs > thinWalk {
			span.To = w.window + 1
		}
		return docs <= thinWalk
	})
	return span, err
}

// thinWalk thins the records from a key on, as many as are read in one state;
// next is where the next walk begins, nil at the end.
func (x *dropper) thinWalk(ctx context.Context, from, end []byte) (next []byte, err error) {
	it, err := x.c.engine.NewIter(x.coll.Ident, from, end)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	l := &x.coll.live.thinned
	var group []RecordKey
	remove, wait := x.removers(ctx)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		if n++; n > thinWalk || len(group) > 0 && x.late() {
			next = bytes.Clone(it.Key())
			break
		}
		v, err := it.Value()
		if err != nil {
			return nil, errors.Join(err, wait())
		}
		if x.rule.Due(v) > x.now {
			l.docs++
			continue
		}
		if group = append(group, bytes.Clone(it.Key())); len(group) == reassignDocs {
			remove <- group
			group = nil
		}
	}
	if len(group) > 0 {
		remove <- group
	}
	return next, errors.Join(it.Err(), wait())
}

// removers starts goroutines that remove the groups sent to them; wait ends
// them, and must be called.
func (x *dropper) removers(ctx context.Context) (remove chan<- []RecordKey, wait func() error) {
	groups := make(chan []RecordKey)
	var errs [thinWorkers]error
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for g := range groups {
				if errs[i] == nil {
					errs[i] = x.removeGroup(ctx, g)
				}
			}
		})
	}
	return groups, func() error {
		close(groups)
		workers.Wait()
		return errors.Join(errs[:]...)
	}
}

// removeGroup removes, of some documents, those that are due. Those that others
// have locked are left to removal by the index.
func (x *dropper) removeGroup(ctx context.Context, group []RecordKey) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	begun := time.Now()
	var done Dropped
	err := x.o.Permit.Unit(func() error {
		return x.c.Run(ctx, storage.Buffered, func(u *Unit) error {
			done, u.Expires = Dropped{}, x.rule
			_, err := u.LockRecords(ctx, x.coll, group, func(k RecordKey, doc bson.Doc) error {
				if err := x.o.Permit.Check(u.inLatest(x.coll)); err != nil {
					return err
				}
				if x.rule.Due(doc) > x.now || u.OwnedElsewhere(x.coll, doc) {
					return nil
				}
				done.Docs++
				done.Bytes += int64(len(doc))
				return u.Delete(ctx, x.coll, k, doc)
			})
			done.Keys = u.KeysDeleted()
			return err
		})
	})
	if err != nil {
		return err
	}
	return x.did(done, begun)
}
