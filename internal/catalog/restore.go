package catalog

import (
	"bytes"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// restore stores a document unchanged, including its time of the last write, and
// returns how many documents it counts for. For a time-series collection it is a
// bucket. Errors as for Insert.
func (u *Unit) restore(ctx context.Context, c *Collection, doc bson.Doc) (n int64, err error) {
	if c, err = u.enter(ctx, c); err != nil {
		return 0, err
	}
	if !c.HoldsBuckets() {
		return 1, u.insertStamped(ctx, c, doc)
	}
	b, err := timeseries.Open(doc, c.Settings.Timeseries)
	if err != nil {
		return 0, err
	}
	n = int64(b.Count)
	u.placeBucket(c, doc)
	if err := u.insert(ctx, c, doc); err != nil {
		return 0, err
	}
	u.AddMeasured(c, n)
	return n, nil
}

// openRecord recovers a record of measurements that are in no bucket.
func (r *repair) openRecord(t *restoring, key, value []byte) error {
	ok, err := t.open.Add(key, value, func(key, value []byte) error { return r.measure(t, key, value) })
	if !ok {
		t.Invalid++
	}
	return err
}

// finishStaged recovers the staged measurements that were not flushed.
func (r *repair) finishStaged() error {
	for _, t := range r.open {
		if err := t.open.End(func(key, value []byte) error { return r.measure(t, key, value) }); err != nil {
			return err
		}
	}
	return nil
}

// measure recovers the measurements of a record, whose bytes it keeps.
func (r *repair) measure(t *restoring, key, value []byte) error {
	ms, err := t.open.Measurements(key, value, t.coll.Settings.Timeseries, func(m timeseries.Measurement) error {
		return bson.Validate(m.Doc, maxStoredDepth)
	})
	if err != nil {
		t.Invalid++
	}
	if len(ms) == 0 {
		return nil
	}
	if err := r.commit(); err != nil {
		return err
	}
	if err := r.c.FlushStep(r.ctx, t.coll); err != nil {
		return err
	}
	err = r.c.Run(r.ctx, storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(r.ctx, t.coll, ms) })
	if err == nil {
		t.Documents += int64(len(ms))
		r.done += int64(len(ms))
	}
	return err
}

// pendingGap is a Gap while the documents are read in their order; keys k of the
// collection with lower < k <= upper may be lost, nil for its ends.
type pendingGap struct {
	Gap
	lower, upper []byte
	begun, ended bool
}

// within reports whether a loss may affect a keyspace, and returns its bounds there.
func within(l *storage.Loss, id storage.Ident) (lower, upper []byte, ok bool) {
	if l.Writes != nil || id < l.First || id > l.Last || l.Last == id && len(l.Upper) == 0 {
		return nil, nil, false
	}
	if l.First == id {
		lower = l.Lower
	}
	if l.Last == id {
		upper = l.Upper
	}
	return lower, upper, true
}

// findGaps notes which losses affect the collection.
func (t *restoring) findGaps(losses []storage.Loss) {
	for i := range losses {
		l := &losses[i]
		for _, id := range []storage.Ident{t.coll.Ident, t.coll.Open} {
			t.Behind += l.Writes[id]
			if lower, upper, ok := within(l, id); ok && id != 0 && l.Keys {
				g := &pendingGap{Gap: Gap{Damage: l.Damage, Older: l.Older}, lower: lower, upper: upper}
				g.Open = id != t.coll.Ident
				g.ended = g.Open // there is no order of _id
				t.gaps = append(t.gaps, g)
			}
		}
	}
	slices.SortFunc(t.gaps, func(a, b *pendingGap) int { return bytes.Compare(a.lower, b.lower) })
}

// pass notes which documents are next to the gaps.
func (t *restoring) pass(key RecordKey, doc bson.Doc) {
	for _, g := range t.gaps {
		if g.ended {
			continue
		}
		if bytes.Compare(key, g.lower) <= 0 {
			break
		}
		if !g.begun {
			g.begun, g.After = true, t.last
		}
		if g.upper != nil && bytes.Compare(key, g.upper) > 0 {
			g.ended, g.Before = true, doc.Lookup("_id").String()
		}
	}
	if slices.ContainsFunc(t.gaps, func(g *pendingGap) bool { return !g.ended }) {
		t.last = doc.Lookup("_id").String()
	}
}

// report sums up what is lost, when all has been read.
func (r *repair) report() {
	for _, t := range r.records {
		for _, g := range t.gaps {
			if !g.begun {
				g.After = t.last
			}
			// Where no document is missing, and none can be older, the gap held none.
			if t.Documents != t.Counted || g.Older {
				t.Gaps = append(t.Gaps, g.Gap)
			}
		}
	}
	for i := r.known; i < len(r.x.Losses); i++ { // single keys, of which only the value is lost
		for _, t := range r.records {
			if l := &r.x.Losses[i]; touchesKeyspace(*l, t.coll.Ident) {
				t.Gaps = append(t.Gaps, Gap{Damage: l.Damage})
			}
		}
	}
	slices.SortFunc(r.found.Collections, func(a, b *RepairedCollection) int {
		return bytes.Compare([]byte(a.Namespace.String()), []byte(b.Namespace.String()))
	})
	if r.member {
		r.note("the data are those of a replica set member, without the log of the set: start a standalone server on them, or start a member on an empty directory and let it join again")
	}
	if r.found.Unlisted {
		r.note("the manifest is incomplete: obsolete tables may have been included, so deleted documents may be back")
	}
	for i := range r.x.Losses {
		l := &r.x.Losses[i]
		if l.Writes != nil {
			r.note("%s: nothing written after that is recovered", l.Damage)
		}
		if !l.Keys && l.Older {
			r.note("%s: range deletions may be lost with it, so documents that were deleted or had expired may be back", l.Damage)
		}
	}
}

// touchesKeyspace reports whether a loss may affect a keyspace.
func touchesKeyspace(l storage.Loss, id storage.Ident) bool {
	_, _, ok := within(&l, id)
	return ok && l.Keys
}
