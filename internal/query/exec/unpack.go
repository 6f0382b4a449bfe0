package exec

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// The record of a measurement is one of these bytes, and for one in a bucket
// its number there and the bucket's record key, for an open one the key of its
// source, its time and its number among those.
const (
	inBucket = 'b'
	isOpen   = 'o'
)

func appendBucketRecord(dst []byte, i int, bucket []byte) []byte {
	return append(binary.AppendUvarint(append(dst, inBucket), uint64(i)), bucket...)
}

// splitBucketRecord is the number of a measurement in its bucket, and the
// bucket's record key.
func splitBucketRecord(record []byte) (i int, bucket catalog.RecordKey) {
	u, n := binary.Uvarint(record[1:])
	return int(u), record[1+max(n, 0):]
}

// unpack reads measurements: those of the buckets below, then the open ones,
// source by source.
type unpack struct {
	stats  Stats
	node   *plan.Unpack
	input  Stage
	source *source
	open   []measurements.Source
	filter *filter
	prunes []*match.Compare // see ruledOut

	bucket []byte // the record key of the bucket at hand
	rows   *timeseries.Rows
	at, to int
	whole  bool // the filter has nothing to say about its rows
	over   bool // there are no more buckets
	reader *measurements.Reader
	ms     []timeseries.Measurement // of the source at hand, and which is next
	nextMs int
	record []byte
	packed bucketColumns
}

// unpacker makes the stage of a plan.Unpack.
func (b *builder) unpacker(n *plan.Unpack) Stage {
	u := unpack{
		stats: Stats{Node: n}, node: n, input: b.build(n.Input), source: b.source, filter: newFilter(n.Filter, b.env),
		prunes: comparedNumbers(n.Filter), open: openSources(n, b.open, newFilter(n.Meta, b.env)),
		reader: b.source.coll.NewOpenReader(b.source.reader),
	}
	if n.Ends != nil {
		return &unpackEnds{unpack: u, env: b.env}
	}
	if n.Order != 0 {
		return &unpackOrdered{unpack: u}
	}
	return &u
}

// openSources are the sources that a query can find open measurements of.
func openSources(n *plan.Unpack, all []measurements.Source, meta *filter) []measurements.Source {
	var found []measurements.Source
	for _, s := range all {
		if s.Last < n.From || s.First > n.To {
			continue
		}
		if meta != nil {
			// An error of the filter, which there is none of without expressions, is
			// met again on the source's measurements.
			probe := new(bson.Builder).Value(n.Options.MetaField, s.Meta).Finish()
			if ok, err := meta.match(probe); err == nil && !ok {
				continue
			}
		}
		found = append(found, s)
	}
	return found
}

func (s *unpack) Stats() *Stats   { return &s.stats }
func (s *unpack) Inputs() []Stage { return []Stage{s.input} }

func (s *unpack) Close() error {
	err := s.reader.Close()
	if e := s.input.Close(); e != nil {
		err = e
	}
	return err
}

// wants says which fields are read of a measurement.
func (s *unpack) wants() func(string) bool {
	if s.node.Paths == nil {
		return nil
	}
	return func(name string) bool { return slices.Contains(s.node.Paths, name) }
}

func (s *unpack) Work(ctx context.Context, row *Row) (State, error) {
	switch {
	case s.rows != nil:
		return s.next(row)
	case !s.over:
		return s.openBucket(ctx, row)
	}
	return s.nextOpen(row)
}

// openBucket takes the next bucket from below.
func (s *unpack) openBucket(ctx context.Context, row *Row) (State, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return EOF, err
	}
	switch state {
	case EOF:
		s.over = true
	case Advanced:
		b, err := timeseries.Open(row.Doc, s.node.Options)
		if err != nil {
			return EOF, corrupt(err)
		}
		if ruledOut(s.prunes, b, s.node.Options.MetaField) {
			break
		}
		if s.rows, s.at, s.to, err = s.unpacked(b); err != nil {
			return EOF, err
		}
		s.bucket = append(s.bucket[:0], row.Record...)
		s.whole = s.filter == nil || s.node.Whole
	}
	return s.stats.Count(NeedTime), nil
}

// unpacked opens the rows of a bucket that lie within the times wanted.
func (s *unpack) unpacked(b *timeseries.Bucket) (r *timeseries.Rows, lo, hi int, err error) {
	if r, lo, hi, err = b.RowsBetween(s.wants(), s.node.From, s.node.To); err != nil {
		return nil, 0, 0, corrupt(err)
	}
	return r, lo, hi, nil
}

// next answers with the next row of the bucket at hand.
func (s *unpack) next(row *Row) (State, error) {
	if s.at >= s.to {
		s.rows = nil
		return s.stats.Count(NeedTime), nil
	}
	i := s.at
	s.at++
	s.record = appendBucketRecord(s.record[:0], i, s.bucket)
	return s.emit(row, s.rows.Doc(i), s.whole)
}

// emit answers with a measurement that passes the filter.
func (s *unpack) emit(row *Row, doc bson.Doc, whole bool) (State, error) {
	*row = Row{Record: s.record, Doc: doc}
	s.source.setMeasurementDue(row)
	s.stats.DocsExamined++
	if !whole {
		pass, err := s.filter.match(doc)
		if err != nil || !pass {
			return s.stats.Count(NeedTime), err
		}
	}
	return s.stats.Count(Advanced), nil
}

// nextOpen answers with the next open measurement.
func (s *unpack) nextOpen(row *Row) (State, error) {
	if s.nextMs < len(s.ms) {
		m := &s.ms[s.nextMs]
		s.record = appendOpenRecord(s.record[:0], &s.open[0], m.Time, s.nextMs)
		if s.nextMs++; s.nextMs == len(s.ms) {
			s.open = s.open[1:]
		}
		return s.emit(row, m.Doc, s.filter == nil)
	}
	if len(s.open) == 0 {
		return s.stats.Count(EOF), s.reader.Close()
	}
	var err error
	s.nextMs = 0
	if s.ms, err = s.reader.Read(&s.open[0], s.node.From, s.node.To); err != nil {
		return EOF, err
	}
	if len(s.ms) == 0 {
		s.open = s.open[1:]
	}
	return s.stats.Count(NeedTime), nil
}

// appendOpenRecord appends the record of an open measurement, which has a number
// among those of its source.
func appendOpenRecord(dst []byte, src *measurements.Source, at int64, i int) []byte {
	dst = measurements.AppendTime(append(append(dst, isOpen), src.Key...), at)
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

// prepareMeasurements is prepare for a time-series collection.
func (x *Executor) prepareMeasurements(c *catalog.Collection, q *Query, adjust func(plan.Node) plan.Node) (*running, error) {
	r := &running{x: x, coll: c, query: q}
	r.readsSortKey()
	var prefix []byte
	if meta, ok := plan.MetaPoint(&q.Query, c.Settings.Timeseries); ok {
		prefix = measurements.SourcePrefix(meta)
	}
	snapshot, open, err := x.Catalog.MeasurementView(c, prefix)
	if err != nil {
		return nil, err
	}
	r.snapshot = snapshot
	hinted := q.Query
	r.source = source{coll: c.Buckets(), reader: r.snapshot}
	r.open()
	r.source.loadTimeseriesVisibility(x.Catalog, c)
	visible := r.source.visibility.filter()
	if visible != nil {
		hinted.Filter = match.FilterOf(match.AndOf(q.Filter.Root(), visible))
	}
	if hinted.Hint, err = bucketHint(c, q.Hint); err != nil {
		r.abandon()
		return nil, err
	}
	n, err := plan.Measurements(x.describe(r.source.coll), &hinted, c.Settings.Timeseries)
	if err != nil {
		r.abandon()
		return nil, err
	}
	if adjust != nil {
		all := n
		n = adjust(n)
		if count, ok := n.(*plan.Count); ok && count.Input == nil && visible != nil {
			n = &plan.Count{Input: all, Skip: count.Skip, Limit: count.Limit}
		}
	}
	r.builder = builder{source: &r.source, env: q.Env, coll: q.Collator, meta: &r.meta, count: c.Count(), open: open}
	if has(n, knowsMeta) {
		q.Env.Meta = r.meta.value
	}
	if q.AllowDiskUse {
		r.builder.spillDir = x.SpillDir
	}
	stage, err := r.built(n)
	if err != nil {
		r.abandon()
		return nil, err
	}
	r.first = candidate{node: n, stage: stage}
	r.winner, r.runner.candidate = &r.first, &r.first
	return r, nil
}

// filter is what measurements of the first batch must fulfil to be visible; nil for
// nothing. Those of later batches are checked by their instants.
func (h *visibility) filter() match.Node {
	if h == nil {
		return nil
	}
	var nodes []match.Node
	for i := range h.bucketRules {
		r := &h.bucketRules[i]
		if r.Filter == nil {
			nodes = append(nodes, match.NewCompare(h.options.TimeField, match.Gt, bson.Date(r.Before(h.now)), nil))
		} else {
			nodes = append(nodes, &match.Nor{Children: []match.Node{r.DueNow(h.options, h.now)}})
		}
	}
	return match.AndOf(nodes...)
}

// bucketHint turns a hint about measurements into one about their buckets.
func bucketHint(c *catalog.Collection, hint bson.Value) (bson.Value, error) {
	for _, ix := range c.Indexes() {
		switch {
		case hint.Type == bson.TypeString && hint.Str() == ix.Name:
		case hint.Type == bson.TypeDocument && bson.CompareDocs(hint.Doc(), ix.Key, nil) == 0:
		default:
			continue
		}
		if ix.Form == nil && !ix.Hidden {
			return bson.Document(new(bson.Builder).Int32("$natural", 1).Finish()), nil
		}
		return bson.String(ix.Name), nil
	}
	return hint, nil
}

func corrupt(err error) error { return errors.Join(storage.ErrCorruption, err) }

// comparedNumbers are the conditions of a filter that compare a field of
// measurements with a number: those that a bucket's statistics can rule out.
func comparedNumbers(n match.Node) []*match.Compare {
	if n == nil {
		return nil
	}
	var out []*match.Compare
	for _, c := range match.Conjuncts(n) {
		cmp, ok := c.(*match.Compare)
		if ok && isRealNumber(cmp.Value) && !strings.Contains(cmp.FieldPath(), ".") {
			out = append(out, cmp)
		}
	}
	return out
}

// ruledOut says whether no measurement of a bucket can fulfil all conditions.
// Where the least and the greatest value of a field are numbers, all are.
func ruledOut(cs []*match.Compare, b *timeseries.Bucket, meta string) bool {
	for _, c := range cs {
		if meta != "" && c.FieldPath() == meta {
			continue
		}
		lo, hi := b.Min.Lookup(c.FieldPath()), b.Max.Lookup(c.FieldPath())
		if !isRealNumber(lo) || !isRealNumber(hi) {
			continue
		}
		below, above := bson.CompareNumbers(hi, c.Value), bson.CompareNumbers(lo, c.Value)
		switch c.Op {
		case match.Gt:
			if below <= 0 {
				return true
			}
		case match.Gte:
			if below < 0 {
				return true
			}
		case match.Lt:
			if above >= 0 {
				return true
			}
		case match.Lte:
			if above > 0 {
				return true
			}
		case match.Eq:
			if below < 0 || above > 0 {
				return true
			}
		}
	}
	return false
}

// isRealNumber says whether v is a number, and not NaN, which is less than all
// others in order and no less than any in a comparison.
func isRealNumber(v bson.Value) bool {
	return v.IsNumber() && !math.IsNaN(bson.ToDouble(v))
}
