package unpack

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Unpack is the stage that reads measurements in any order: those of the buckets below,
// then the open ones, source by source.
type Unpack struct {
	stats  stage.Stats
	node   *plan.Unpack
	input  stage.Stage
	setDue func(*stage.Row)
	open   []measurements.Source
	filter *stage.Filter
	prunes []*match.Compare // see ruledOut

	bucket []byte // the record key of the current bucket
	rows   *timeseries.Rows
	at, to int
	whole  bool // the filter need not be evaluated on its rows
	over   bool // there are no more buckets
	reader *measurements.Reader
	ms     []timeseries.Measurement // of the current source, and the next one
	nextMs int
	record []byte
	packed bucketColumns
}

// Options are what a stage reads apart from the buckets below it.
type Options struct {
	Env *expr.Env // of the query
	// Open are the sources with open measurements, and Reader reads those.
	Open   []measurements.Source
	Reader *measurements.Reader
	// SetDue sets the Due of a row with a measurement.
	SetDue func(*stage.Row)
}

// New makes the stage of a plan.Unpack; in delivers the buckets.
func New(n *plan.Unpack, in stage.Stage, o Options) stage.Stage {
	u := Unpack{
		stats: stage.Stats{Node: n}, node: n, input: in, setDue: o.SetDue, filter: stage.NewFilter(n.Filter, o.Env),
		prunes: comparedNumbers(n.Filter), open: openSources(n, o.Open, stage.NewFilter(n.Meta, o.Env)), reader: o.Reader,
	}
	if n.Ends != nil {
		return &ends{Unpack: u, env: o.Env}
	}
	if n.Order != 0 {
		return &ordered{Unpack: u}
	}
	return &u
}

// openSources are the sources that a query can find open measurements of.
func openSources(n *plan.Unpack, all []measurements.Source, meta *stage.Filter) []measurements.Source {
	var found []measurements.Source
	for _, s := range all {
		if s.Last < n.From || s.First > n.To {
			continue
		}
		if meta != nil {
			// An error of the filter, which only expressions can have, recurs on the
			// source's measurements.
			probe := new(bson.Builder).Value(n.Options.MetaField, s.Meta).Finish()
			if ok, err := meta.Match(probe); err == nil && !ok {
				continue
			}
		}
		found = append(found, s)
	}
	return found
}

func (s *Unpack) Stats() *stage.Stats   { return &s.stats }
func (s *Unpack) Inputs() []stage.Stage { return []stage.Stage{s.input} }

func (s *Unpack) Close() error {
	err := s.reader.Close()
	if e := s.input.Close(); e != nil {
		err = e
	}
	return err
}

// wants sets the fields of a measurement that are read.
func (s *Unpack) wants() func(string) bool {
	if s.node.Paths == nil {
		return nil
	}
	return func(name string) bool { return slices.Contains(s.node.Paths, name) }
}

func (s *Unpack) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	switch {
	case s.rows != nil:
		return s.next(row)
	case !s.over:
		return s.openBucket(ctx, row)
	}
	return s.nextOpen(row)
}

// openBucket unpacks the next bucket.
func (s *Unpack) openBucket(ctx context.Context, row *stage.Row) (stage.State, error) {
	b, err := s.bucketBelow(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	if b != nil && !ruledOut(s.prunes, b, s.node.Options.MetaField) {
		if s.rows, s.at, s.to, err = s.unpacked(b); err != nil {
			return stage.EOF, err
		}
		s.bucket = append(s.bucket[:0], row.Record...)
		s.whole = s.filter == nil || s.node.Whole
	}
	return s.stats.Count(stage.NeedTime), nil
}

// bucketBelow does one unit of work for the next bucket from below, into row; nil if
// there is none yet, or none left (over).
func (s *Unpack) bucketBelow(ctx context.Context, row *stage.Row) (*timeseries.Bucket, error) {
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return nil, err
	}
	s.over = state == stage.EOF
	if state != stage.Advanced {
		return nil, nil
	}
	b, err := timeseries.Open(row.Doc, s.node.Options)
	if err != nil {
		return nil, corrupt(err)
	}
	return b, nil
}

// unpacked opens the rows of a bucket that are within the query's times.
func (s *Unpack) unpacked(b *timeseries.Bucket) (r *timeseries.Rows, lo, hi int, err error) {
	if r, lo, hi, err = b.RowsBetween(s.wants(), s.node.From, s.node.To); err != nil {
		return nil, 0, 0, corrupt(err)
	}
	return r, lo, hi, nil
}

// next returns the next row of the current bucket.
func (s *Unpack) next(row *stage.Row) (stage.State, error) {
	if s.at >= s.to {
		s.rows = nil
		return s.stats.Count(stage.NeedTime), nil
	}
	i := s.at
	s.at++
	s.record = appendBucketRecord(s.record[:0], i, s.bucket)
	return s.emit(row, s.rows.Doc(i), s.whole)
}

// emit returns a measurement that matches the filter.
func (s *Unpack) emit(row *stage.Row, doc bson.Doc, whole bool) (stage.State, error) {
	*row = stage.Row{Record: s.record, Doc: doc}
	s.setDue(row)
	s.stats.DocsExamined++
	if !whole {
		pass, err := s.filter.Match(doc)
		if err != nil || !pass {
			return s.stats.Count(stage.NeedTime), err
		}
	}
	return s.stats.Count(stage.Advanced), nil
}

// nextOpen returns the next open measurement.
func (s *Unpack) nextOpen(row *stage.Row) (stage.State, error) {
	if s.nextMs < len(s.ms) {
		m := &s.ms[s.nextMs]
		s.record = appendOpenRecord(s.record[:0], &s.open[0], m.Time, s.nextMs)
		if s.nextMs++; s.nextMs == len(s.ms) {
			s.open = s.open[1:]
		}
		return s.emit(row, m.Doc, s.filter == nil)
	}
	if len(s.open) == 0 {
		return s.stats.Count(stage.EOF), s.reader.Close()
	}
	var err error
	s.nextMs = 0
	if s.ms, err = s.reader.Read(&s.open[0], s.node.From, s.node.To); err != nil {
		return stage.EOF, err
	}
	if len(s.ms) == 0 {
		s.open = s.open[1:]
	}
	return s.stats.Count(stage.NeedTime), nil
}

func corrupt(err error) error { return errors.Join(storage.ErrCorruption, err) }

// comparedNumbers returns the conditions of a filter that compare a field of
// measurements with a number, which a bucket's statistics can rule out.
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

// ruledOut reports whether no measurement of a bucket can satisfy all conditions. If
// the least and the greatest value of a field are numbers, all its values are.
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

// isRealNumber reports whether v is a number, and not NaN, which sorts before all
// numbers but compares less than none.
func isRealNumber(v bson.Value) bool {
	return v.IsNumber() && !math.IsNaN(bson.ToDouble(v))
}
