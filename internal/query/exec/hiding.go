package exec

import (
	"context"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// hiding keeps a cursor from what is expired, where rules of its collection say
// so (visibility: immediate). Documents are judged where they leave the store:
// in source.fetch and in the scans; and once more, by their instant, when a
// batch of a client's begins, as they may have waited in a sort. So a plan that
// reads nothing but an index reads the documents after all.
type hiding struct {
	rules []*catalog.Rule
	// measured are the rules of a time-series collection, whose measurements are
	// judged by their times; rules is empty then, as no bucket is hidden.
	measured []catalog.BucketRule
	options  *schema.Timeseries
	now      int64 // of the batch being made, in milliseconds since 1970
	due      int64 // the instant of the document that was judged last
}

// look makes the source judge by the time that it is, and by the rules as they
// are.
func (s *source) look(c *catalog.Catalog) {
	s.hiding = nil
	if s.coll == nil {
		return
	}
	now := s.coll.Latest()
	if now == nil || now.Hiding() == nil {
		return
	}
	s.hiding = &hiding{rules: now.Hiding(), now: c.Clock.Judged()}
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

// hides says whether a document that leaves the store is to stay unseen.
func (s *source) hides(doc bson.Doc) bool {
	h := s.hiding
	if h == nil || h.rules == nil {
		return false
	}
	h.due = catalog.Due(h.rules, doc)
	return h.due <= h.now
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
	if err != nil {
		return 0, err
	}
	e := entries{source: &source{coll: s.coll, reader: s.reader}}
	if len(s.hiding.rules) > 1 || s.hiding.rules[0].Index.Multikey().Any() {
		e.seen = newDedup()
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

// readsDocuments says whether the stage of a node reads the documents of the
// rows that its inputs find.
func readsDocuments(n plan.Node) bool {
	switch n.(type) {
	case *plan.Fetch, *plan.TextOr:
		return true
	}
	return false
}
