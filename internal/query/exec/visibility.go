package exec

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// visibility hides expired documents from a cursor, if a rule of its collection requires
// that (visibility: immediate). Documents are checked when they are read from the store:
// in source.fetch and in the scans. They are checked again when they are returned in a
// later batch, as they may have waited in a sort: by their remaining fields, or by their
// instant, which the rows carry. So even a covered plan reads the documents.
//
// Usually few documents are due, as due documents are removed soon. So, when a batch has
// checked some documents, it probes the indexes of the rules for expired documents in
// its snapshot. If there are none, or only outside of the query's range, it checks no
// further document.
type visibility struct {
	rules []*catalog.Rule
	// bucketRules are the rules of a time-series collection, whose measurements are
	// checked by their times; rules is empty then, as no bucket is hidden.
	bucketRules []measurements.Rule
	options     *schema.Timeseries
	now         int64 // of the batch being made, in milliseconds since 1970
	due         int64 // the instant of the last checked document; 0 if only the indexes were probed

	noneExpired bool // nothing is hidden
	checked     int  // documents checked in this batch; one read only for that counts readCost
	nextProbe   int  // the number at which the indexes are probed
	probed      bool
	expired     [][]byte // once probed: the record keys of all that is hidden, sorted
}

// pendingVisibility has the arguments of loadVisibility if that is deferred until the
// document is read: a lookup reads one, and usually nothing is due.
type pendingVisibility struct {
	catalog *catalog.Catalog // nil: nothing is deferred
	before  catalog.Watermark
}

const (
	// firstProbe is how many documents are checked before the indexes are probed, and
	// probeGrowth the factor to the next probe, where the last found too much.
	firstProbe  = 64
	probeGrowth = 4
	// probeShare is how many documents are checked for each entry that a probe may
	// read, except for the first minProbe.
	probeShare = 16
	minProbe   = 8
	// readCost is how many documents one that is read only for its check counts as.
	readCost = 16
)

// prepareVisibility prepares the source for a plan. before was taken before the source's
// snapshot, which a lookup only has after its read.
func (s *source) prepareVisibility(c *catalog.Catalog, before catalog.Watermark, state bool, n plan.Node) {
	if !state {
		switch n.(type) {
		case *plan.Express, *plan.IDHack:
			s.pending = pendingVisibility{c, before}
			return
		}
		before = catalog.Watermark{}
	}
	s.rowsWait = true // in a trial
	s.loadVisibility(c, before)
}

// loadVisibility makes the source hide documents by the current time and the current rules.
// before was taken before the source's snapshot.
func (s *source) loadVisibility(c *catalog.Catalog, before catalog.Watermark) {
	s.visibility = nil
	if s.coll == nil {
		return
	}
	now := s.coll.Latest()
	if now == nil {
		now = s.coll // reads from before the drop are checked by the rules of that time
	}
	if now.Hiding() == nil {
		return
	}
	h := &visibility{rules: now.Hiding(), now: s.expiryTime, nextProbe: math.MaxInt}
	if h.now == 0 {
		h.now = c.Clock.ExpiryTime()
	}
	h.noneExpired = before.NothingDue(now, h.now)
	s.visibility = h
	if !s.rowsWait {
		h.start()
	}
}

// start allows probes: from here on the instants of all documents are no longer needed.
func (h *visibility) start() {
	h.nextProbe, h.probed = firstProbe, h.noneExpired
}

// planChosen says, once a plan is chosen, whether its rows may wait for a later batch.
func (s *source) planChosen(rowsWait bool) {
	s.rowsWait = rowsWait
	if s.visibility != nil && !rowsWait {
		s.visibility.start()
	}
}

// loadTimeseriesVisibility is loadVisibility for the measurements of a time-series
// collection.
func (s *source) loadTimeseriesVisibility(c *catalog.Catalog, series *catalog.Collection) {
	s.visibility = nil
	now := series.Latest()
	if now == nil {
		return
	}
	if rules := now.HidingMeasurements(); rules != nil {
		s.visibility = &visibility{bucketRules: rules, options: now.Settings.Timeseries, now: c.Clock.ExpiryTime()}
	}
}

// hidesMeasurement reports whether a measurement is hidden.
func (h *visibility) hidesMeasurement(doc bson.Doc) bool {
	return h != nil && slices.ContainsFunc(h.bucketRules, func(r measurements.Rule) bool { return r.Due(h.options, doc) <= h.now })
}

// shownOf returns a bucket without the measurements that are hidden, and how many those are; nil
// where all are. The times of those that are hidden come before the others'.
func (h *visibility) shownOf(bucket bson.Doc, meta bson.Value) (shown bson.Doc, hidden int, err error) {
	if h == nil {
		return bucket, 0, nil
	}
	upTo, hides := int64(math.MinInt64), false
	for i := range h.bucketRules {
		if r := &h.bucketRules[i]; r.Wants(h.options, &measurements.Source{Meta: meta}) {
			upTo, hides = max(upTo, r.Before(h.now)), true
		}
	}
	if !hides {
		return bucket, 0, nil
	}
	return timeseries.WithoutUpTo(bucket, upTo, h.options)
}

// setMeasurementDue sets the instant of a row with a measurement.
func (s *source) setMeasurementDue(row *stage.Row) {
	h := s.visibility
	if h == nil {
		return
	}
	row.Due = schema.Never
	for i := range h.bucketRules {
		row.Due = min(row.Due, h.bucketRules[i].Due(h.options, row.Doc))
	}
}

// checksDocuments reports whether documents of the collection must be checked before they
// are delivered.
func (s *source) checksDocuments() bool { return s.visibility != nil && s.visibility.rules != nil }

// mayHide reports whether documents that are read have to be checked.
func (s *source) mayHide() bool {
	h := s.visibility
	return h != nil && !(h.probed && len(h.expired) == 0)
}

// isExpired reports whether to hide a document that has been read; record is its key.
func (s *source) isExpired(record []byte, doc bson.Doc) bool {
	return (s.visibility != nil || s.pending.catalog != nil) && s.checkExpired(record, doc)
}

// checkExpired is isExpired if documents may be hidden.
func (s *source) checkExpired(record []byte, doc bson.Doc) bool {
	if s.pending.catalog != nil {
		u := s.pending
		if u.before.NothingDue(s.coll.Latest(), u.catalog.Clock.ExpiryTime()) {
			return false
		}
		s.pending = pendingVisibility{}
		s.loadVisibility(u.catalog, u.before)
	}
	h := s.visibility
	if h == nil || h.rules == nil {
		return false
	}
	if h.probed && h.outsideExpired(record) {
		h.due = 0
		return false
	}
	h.checked++
	h.due = catalog.Due(h.rules, doc)
	return h.due <= h.now
}

// outsideExpired reports that all hidden documents are elsewhere. REQUIRES: probed.
func (h *visibility) outsideExpired(record []byte) bool {
	invariant.Check(h.probed, "exec: what is hidden is known")
	return len(h.expired) == 0 || bytes.Compare(record, h.expired[len(h.expired)-1]) > 0 || bytes.Compare(record, h.expired[0]) < 0
}

// isRecordExpired is isExpired for a document that has not been read; ok is false if the
// probe cannot decide.
func (h *visibility) isRecordExpired(record []byte) (hidden, ok bool) {
	if !h.probed {
		return false, false
	}
	h.due = 0
	if h.outsideExpired(record) {
		return false, true
	}
	_, hidden = slices.BinarySearchFunc(h.expired, record, bytes.Compare)
	return hidden, true
}

// probeIndexes probes the indexes for hidden documents, once enough documents were
// checked to make that pay off. Stages call it between two documents. REQUIRES:
// checksDocuments.
func (s *source) probeIndexes(ctx context.Context) error {
	if err := invariant.Require(s.checksDocuments(), "exec: the source checks documents"); err != nil {
		return err
	}
	h := s.visibility
	if h.checked < h.nextProbe || h.probed {
		return nil
	}
	h.nextProbe = max(h.checked, h.nextProbe) * probeGrowth
	most := max(minProbe, h.checked/probeShare)
	e := RuleEntries{source: s.again()}
	for _, r := range h.rules {
		err := e.each(ctx, r, r.DueRanges(h.now), func(row *stage.Row) (bool, error) {
			h.expired = append(h.expired, bytes.Clone(row.Record))
			return len(h.expired) <= most, nil
		})
		if err != nil {
			return err
		}
	}
	if h.probed = len(h.expired) <= most; !h.probed {
		h.expired = nil
	}
	slices.SortFunc(h.expired, bytes.Compare)
	return nil
}

// isRowExpired is isExpired for a row, and sets the instant of the row.
// REQUIRES: mayHide.
func (s *source) isRowExpired(ctx context.Context, row *stage.Row) (hidden bool, err error) {
	if err := invariant.Require(s.mayHide(), "exec: the source may hide something"); err != nil {
		return false, err
	}
	if s.visibility.rules == nil {
		return false, nil
	}
	if err := s.probeIndexes(ctx); err != nil {
		return false, err
	}
	hidden = s.isExpired(row.Record, row.Doc)
	row.Due = s.visibility.due
	return hidden, nil
}

// setDue sets the instant of a row to that of the last checked document.
func (s *source) setDue(row *stage.Row) {
	if s.checksDocuments() {
		row.Due = s.visibility.due
	}
}

// expiredSince reports whether a row has come due since it was made.
func (s *source) expiredSince(row *stage.Row) bool {
	return s.visibility != nil && row.Due != 0 && row.Due <= s.visibility.now
}

// isRowExpiredLater is isExpired for a row of an earlier batch, whose document has at
// least the fields of withDueFields.
func (s *source) isRowExpiredLater(row *stage.Row) bool {
	h := s.visibility
	if h == nil {
		return false
	}
	if h.rules != nil {
		return s.isExpired(row.Record, row.Doc)
	}
	s.setMeasurementDue(row)
	return row.Due <= h.now
}

// withDueFields adds to the names of fields those that tell when a document is due; nil
// stands for all.
func (s *source) withDueFields(fields []string) []string {
	if s.visibility == nil {
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
	for _, r := range s.visibility.rules {
		paths = append(paths, r.Reads()...)
		if !add(r.Index.Filter) {
			return nil
		}
	}
	for _, r := range s.visibility.bucketRules {
		paths = append(paths, s.visibility.options.TimeField)
		if !add(r.Filter) {
			return nil
		}
	}
	return expr.FirstNames(append(paths, fields...))
}

// dueSize is the length of the instant that a record carries through a sort.
const dueSize = 8

func withDue(record []byte, due int64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(record)+dueSize), record...), uint64(due))
}

func splitDue(record []byte) ([]byte, int64) {
	at := len(record) - dueSize
	return record[:at:at], int64(binary.BigEndian.Uint64(record[at:]))
}

// countVisible counts the documents of the collection that are not hidden: all in the
// source's snapshot, except those that are due by the indexes of the hiding rules in the
// same snapshot. (The collection's own count is of another state
// while removal runs.)
func (s *source) countVisible(ctx context.Context) (int64, error) {
	n, _, err := storage.ReadCounter(s.reader, s.coll.Ident)
	if err != nil || s.visibility.noneExpired {
		return n, err
	}
	e := RuleEntries{source: s.again()}
	if len(s.visibility.rules) > 1 || s.visibility.rules[0].Index.Multikey().Any() {
		e.CountOnce()
	}
	for _, r := range s.visibility.rules {
		due, err := e.Count(ctx, r, r.DueRanges(s.visibility.now))
		if err != nil {
			return 0, err
		}
		n -= due
	}
	return n, nil
}

// mayHoldRows reports whether rows of a plan may wait in it between two batches: then
// each must carry its instant.
func mayHoldRows(n plan.Node) bool {
	return has(n, func(n plan.Node) bool {
		switch n := n.(type) {
		case *plan.Sort: // checks the documents again
			return !n.Entries && !has(n.Input, func(n plan.Node) bool {
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

// readsDocuments reports whether the stage of a node reads the documents of the
// rows that its inputs find.
func readsDocuments(n plan.Node) bool {
	switch n.(type) {
	case *plan.Fetch, *plan.TextOr:
		return true
	}
	return false
}
