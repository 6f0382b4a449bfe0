package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// hiding keeps a cursor from what is expired, where rules of its collection say
// so (visibility: immediate). Documents are judged where they leave the store:
// in source.fetch and in the scans; and once more when a later batch of a
// client's gets them, as they may have waited in a sort: by what is left of them
// there, or by their instant that went along. So a plan that
// reads nothing but an index reads the documents after all.
//
// Mostly nothing is due, or little: what is not has been removed. So, when a
// batch has judged some documents, it asks the indexes of the rules what is
// hidden in its state of the store, and looks no further where that is nothing,
// or elsewhere.
type hiding struct {
	rules []*catalog.Rule
	// measured are the rules of a time-series collection, whose measurements are
	// judged by their times; rules is empty then, as no bucket is hidden.
	measured []catalog.BucketRule
	options  *schema.Timeseries
	now      int64 // of the batch being made, in milliseconds since 1970
	due      int64 // the instant of the document that was judged last, 0 where only the indexes were asked

	clear  bool // nothing is hidden
	judged int  // documents judged in this batch, reading one for it counting more
	ask    int  // so many, and the indexes are asked
	known  bool
	gone   [][]byte // where known: the record keys of all that is hidden, sorted
}

// unlooked is what look needs, where it waits for the document: a lookup reads
// one, and mostly nothing is due.
type unlooked struct {
	catalog *catalog.Catalog // nil: nothing waits
	before  catalog.Watermark
}

const (
	// firstAsk is how many documents are judged before the indexes are asked, and
	// askAgain the factor to the next time, where they had too many to tell.
	firstAsk = 64
	askAgain = 4
	// askShare is how many documents are judged for each entry that asking may
	// read, but for the first askLeast.
	askShare = 16
	askLeast = 8
	// readCost is what reading a document only to judge it counts as.
	readCost = 16
)

// expect prepares the source for a plan. before was taken before its state of the
// store, which a lookup has only once it has read.
func (s *source) expect(c *catalog.Catalog, before catalog.Watermark, state bool, n plan.Node) {
	if !state {
		switch n.(type) {
		case *plan.Express, *plan.IDHack:
			s.unlooked = unlooked{c, before}
			return
		}
		before = catalog.Watermark{}
	}
	s.waiting = true // in a trial
	s.look(c, before)
}

// look makes the source judge by the time that it is, and by the rules as they
// are. before was taken before the source's state of the store.
func (s *source) look(c *catalog.Catalog, before catalog.Watermark) {
	s.hiding = nil
	if s.coll == nil {
		return
	}
	now := s.coll.Latest()
	if now == nil {
		now = s.coll // what was read before the drop is judged by the rules as they were
	}
	if now.Hiding() == nil {
		return
	}
	h := &hiding{rules: now.Hiding(), now: c.Clock.Judged(), ask: math.MaxInt}
	h.clear = before.NothingDue(now, h.now)
	s.hiding = h
	if !s.waiting {
		h.start()
	}
}

// start has the instants of documents that nobody asks for not looked up.
func (h *hiding) start() {
	h.ask, h.known = firstAsk, h.clear
}

// settle says, once a plan is chosen, whether rows wait in it for a later batch.
func (s *source) settle(waiting bool) {
	s.waiting = waiting
	if s.hiding != nil && !waiting {
		s.hiding.start()
	}
}

// lookMeasured is look for the measurements of a time-series collection.
func (s *source) lookMeasured(c *catalog.Catalog, series *catalog.Collection) {
	s.hiding = nil
	now := series.Latest()
	if now == nil {
		return
	}
	if rules := now.HidingMeasurements(); rules != nil {
		s.hiding = &hiding{measured: rules, options: now.Settings.Timeseries, now: c.Clock.Judged()}
	}
}

// judgeMeasured tells a row with a measurement when that is due.
func (s *source) judgeMeasured(row *Row) {
	h := s.hiding
	if h == nil {
		return
	}
	row.due = schema.Never
	for i := range h.measured {
		row.due = min(row.due, h.measured[i].Due(h.options, row.Doc))
	}
}

// judges says whether documents of the collection have to be looked at before
// they are answered.
func (s *source) judges() bool { return s.hiding != nil && s.hiding.rules != nil }

// mayHide says whether a document that leaves the store has to be examined.
func (s *source) mayHide() bool {
	h := s.hiding
	return h != nil && !(h.known && len(h.gone) == 0)
}

// hides says whether a document that leaves the store is to stay unseen; record
// is its key.
func (s *source) hides(record []byte, doc bson.Doc) bool {
	return (s.hiding != nil || s.unlooked.catalog != nil) && s.judge(record, doc)
}

// judge is hides where documents may be hidden.
func (s *source) judge(record []byte, doc bson.Doc) bool {
	if s.unlooked.catalog != nil {
		u := s.unlooked
		if u.before.NothingDue(s.coll.Latest(), u.catalog.Clock.Judged()) {
			return false
		}
		s.unlooked = unlooked{}
		s.look(u.catalog, u.before)
	}
	h := s.hiding
	if h == nil || h.rules == nil {
		return false
	}
	if h.known && h.outside(record) {
		h.due = 0
		return false
	}
	h.judged++
	h.due = catalog.Due(h.rules, doc)
	return h.due <= h.now
}

// outside says that all that is hidden lies elsewhere. REQUIRES: known.
func (h *hiding) outside(record []byte) bool {
	invariant.Check(h.known, "exec: what is hidden is known")
	return len(h.gone) == 0 || bytes.Compare(record, h.gone[len(h.gone)-1]) > 0 || bytes.Compare(record, h.gone[0]) < 0
}

// hidesRecord is hides for a document that is not at hand, where the indexes can
// tell; else ok is false.
func (h *hiding) hidesRecord(record []byte) (hidden, ok bool) {
	if !h.known {
		return false, false
	}
	h.due = 0
	if h.outside(record) {
		return false, true
	}
	_, hidden = slices.BinarySearchFunc(h.gone, record, bytes.Compare)
	return hidden, true
}

// learn asks the indexes what is hidden, where enough was judged by now to be
// worth it. Stages call it between two documents. REQUIRES: judges.
func (s *source) learn(ctx context.Context) error {
	if err := invariant.Require(s.judges(), "exec: the source judges"); err != nil {
		return err
	}
	h := s.hiding
	if h.judged < h.ask || h.known {
		return nil
	}
	h.ask = max(h.judged, h.ask) * askAgain
	most := max(askLeast, h.judged/askShare)
	e := entries{source: &source{coll: s.coll, reader: s.reader}}
	for _, r := range h.rules {
		err := e.each(ctx, r, r.DueRanges(h.now), func(row *Row) (bool, error) {
			h.gone = append(h.gone, bytes.Clone(row.Record))
			return len(h.gone) <= most, nil
		})
		if err != nil {
			return err
		}
	}
	if h.known = len(h.gone) <= most; !h.known {
		h.gone = nil
	}
	slices.SortFunc(h.gone, bytes.Compare)
	return nil
}

// examine is hides for a row, which gets to know when its document is due.
// REQUIRES: mayHide.
func (s *source) examine(ctx context.Context, row *Row) (hidden bool, err error) {
	if err := invariant.Require(s.mayHide(), "exec: the source may hide something"); err != nil {
		return false, err
	}
	if s.hiding.rules == nil {
		return false, nil
	}
	if err := s.learn(ctx); err != nil {
		return false, err
	}
	hidden = s.hides(row.Record, row.Doc)
	row.due = s.hiding.due
	return hidden, nil
}

// judged tells the row when the document that was judged last is due.
func (s *source) judged(row *Row) {
	if s.judges() {
		row.due = s.hiding.due
	}
}

// expired says whether a row that was made before is due by now.
func (s *source) expired(row *Row) bool {
	return s.hiding != nil && row.due != 0 && row.due <= s.hiding.now
}

// hidesLater is hides for a row of a batch before this one, whose document has at
// least the fields of withJudged.
func (s *source) hidesLater(row *Row) bool {
	h := s.hiding
	if h == nil {
		return false
	}
	if h.rules != nil {
		return s.hides(row.Record, row.Doc)
	}
	s.judgeMeasured(row)
	return row.due <= h.now
}

// withJudged adds to the names of fields those that documents are judged by; nil
// stands for all.
func (s *source) withJudged(fields []string) []string {
	if s.hiding == nil {
		return fields
	}
	var paths []string
	add := func(filter *match.Filter) bool {
		if filter == nil {
			return true
		}
		d := match.DependsOn(filter.Root())
		paths = append(paths, d.Paths...)
		return !d.Whole
	}
	for _, r := range s.hiding.rules {
		paths = append(paths, r.Reads()...)
		if !add(r.Index.Filter) {
			return nil
		}
	}
	for _, r := range s.hiding.measured {
		paths = append(paths, s.hiding.options.TimeField)
		if !add(r.Filter) {
			return nil
		}
	}
	return expr.FirstNames(append(paths, fields...))
}

// dueSize is how long the instant is that travels with a record through a sort.
const dueSize = 8

func withDue(record []byte, due int64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(record)+dueSize), record...), uint64(due))
}

func splitDue(record []byte) ([]byte, int64) {
	at := len(record) - dueSize
	return record[:at:at], int64(binary.BigEndian.Uint64(record[at:]))
}

// visible counts the documents of the collection that are not hidden: all that
// its state of the store has, but for those that are due by the indexes of the
// rules that hide them, in the same state. (The count of the moment belongs to
// another one while removal runs.)
func (s *source) visible(ctx context.Context) (int64, error) {
	n, _, err := storage.ReadCounter(s.reader, s.coll.Ident)
	if err != nil || s.hiding.clear {
		return n, err
	}
	e := entries{source: &source{coll: s.coll, reader: s.reader}}
	if len(s.hiding.rules) > 1 || s.hiding.rules[0].Index.Multikey().Any() {
		e.seen = newDedup(s)
	}
	for _, r := range s.hiding.rules {
		due, err := e.count(ctx, r, r.DueRanges(s.hiding.now))
		if err != nil {
			return 0, err
		}
		n -= due
	}
	return n, nil
}

// waits says whether rows of a plan may wait in it while a batch ends and the next
// one begins: then each must know its instant.
func waits(n plan.Node) bool {
	return has(n, func(n plan.Node) bool {
		switch n := n.(type) {
		case *plan.Sort: // judges again, by documents
			return !has(n.Input, func(n plan.Node) bool {
				switch n.(type) {
				case *plan.CollScan, *plan.Fetch, *plan.Unpack:
					return true
				}
				return false
			})
		case *plan.CollScan, *plan.IDHack, *plan.Express, *plan.IndexScan, *plan.Fetch, *plan.Or, *plan.Subplan, *plan.Skip, *plan.Limit,
			*plan.Projection, *plan.ReturnKey, *plan.Count, *plan.CountScan, *plan.DistinctScan, *plan.EOF:
			return false
		}
		return true
	})
}

// readsDocuments says whether the stage of a node reads the documents of the
// rows that its inputs find.
func readsDocuments(n plan.Node) bool {
	switch n.(type) {
	case *plan.Fetch, *plan.TextOr:
		return true
	}
	return false
}
