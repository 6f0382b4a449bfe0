package unpack

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// ends finds the newest or the oldest measurement of each group, and skips buckets
// whose statistics rule out a better one. Buckets come from below roughly in the order
// of their times, newest or oldest first; open measurements come before them, source by
// source.
type ends struct {
	Unpack
	env    *expr.Env
	groups map[string]*endGroup
	order  []*endGroup
	probe  bson.Builder
	buf    []byte
	key    []byte
}

// endGroup is the best measurement of a group so far.
type endGroup struct {
	at     int64 // its time, inverted if the oldest is wanted
	record []byte
	doc    bson.Doc // nil for none yet
}

// rank maps a time so that better measurements have greater ranks.
func (s *ends) rank(at int64) int64 {
	if s.node.Ends.Newest {
		return at
	}
	return ^at
}

// best returns the greatest rank that measurements between two times can have.
func (s *ends) best(first, last int64) int64 {
	if s.node.Ends.Newest {
		return min(last, s.node.To)
	}
	return ^max(first, s.node.From)
}

// group returns the group of a meta value.
func (s *ends) group(meta bson.Value) (*endGroup, error) {
	o := s.node.Options
	s.probe.Reset(s.buf[:0])
	s.probe.Value(o.MetaField, meta)
	s.buf = s.probe.Finish()
	id, err := s.node.Ends.ID.Eval(s.env.WithRoot(s.buf))
	if err != nil {
		return nil, err
	}
	if id.IsMissing() {
		id = bson.Null
	}
	s.key = keystring.Append(s.key[:0], id, false, nil)
	g := s.groups[string(s.key)]
	if g == nil {
		g = &endGroup{at: math.MinInt64}
		s.groups[string(s.key)] = g
		s.order = append(s.order, g)
	}
	return g, nil
}

// hopeless reports whether no measurement between two times can be better than the
// group's current one.
func (s *ends) hopeless(g *endGroup, first, last int64) bool {
	return g.doc != nil && s.best(first, last) <= g.at
}

func (s *ends) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	switch {
	case s.groups == nil:
		s.groups = map[string]*endGroup{}
		return s.stats.Count(stage.NeedTime), nil
	case len(s.open) > 0:
		src := s.open[0]
		s.open = s.open[1:]
		return s.stats.Count(stage.NeedTime), s.takeOpen(src)
	case !s.over:
		b, err := s.bucketBelow(ctx, row)
		if err == nil && b != nil {
			err = s.takeBucket(b, row)
		}
		return s.stats.Count(stage.NeedTime), err
	case len(s.order) == 0:
		return s.stats.Count(stage.EOF), nil
	}
	g := s.order[0]
	s.order = s.order[1:]
	if g.doc == nil {
		return s.stats.Count(stage.NeedTime), nil
	}
	*row = stage.Row{Record: g.record, Doc: g.doc}
	s.setDue(row)
	return s.stats.Count(stage.Advanced), nil
}

// takeBucket finds the best measurement of a bucket.
func (s *ends) takeBucket(b *timeseries.Bucket, row *stage.Row) error {
	g, err := s.group(b.Meta)
	if err != nil || s.hopeless(g, b.Start, b.Last) || ruledOut(s.prunes, b, s.node.Options.MetaField) {
		return err
	}
	rows, lo, hi, err := s.unpacked(b)
	if err != nil {
		return err
	}
	step, i := 1, lo
	if s.node.Ends.Newest {
		step, i = -1, hi-1
	}
	for ; lo <= i && i < hi && (g.doc == nil || s.rank(rows.Time(i)) > g.at); i += step {
		doc := rows.Doc(i)
		s.stats.DocsExamined++
		if s.filter != nil && !s.node.Whole {
			if ok, err := s.filter.Match(doc); err != nil {
				return err
			} else if !ok {
				continue
			}
		}
		g.at, g.doc = s.rank(rows.Time(i)), doc.Clone()
		g.record = appendBucketRecord(nil, i, row.Record)
		return nil
	}
	return nil
}

// takeOpen finds the best open measurement of a source.
func (s *ends) takeOpen(src measurements.Source) error {
	g, err := s.group(src.Meta)
	if err != nil || s.hopeless(g, src.First, src.Last) {
		return err
	}
	at, found, err := s.reader.Newest(&src)
	if err != nil || !found {
		return err
	}
	if s.node.Ends.Newest && at <= s.node.To {
		if err := s.takeMeasurements(g, &src, at); err != nil || g.doc != nil && g.at >= s.rank(at) {
			return err
		}
	}
	return s.takeMeasurements(g, &src, s.node.From)
}

// takeMeasurements finds the best of the open measurements from a time on.
func (s *ends) takeMeasurements(g *endGroup, src *measurements.Source, from int64) error {
	ms, err := s.reader.Read(src, max(from, s.node.From), s.node.To)
	if err != nil {
		return err
	}
	step, i := 1, 0
	if s.node.Ends.Newest {
		step, i = -1, len(ms)-1
	}
	for ; 0 <= i && i < len(ms) && (g.doc == nil || s.rank(ms[i].Time) > g.at); i += step {
		s.stats.DocsExamined++
		if ok, err := s.filter.Match(ms[i].Doc); err != nil {
			return err
		} else if !ok {
			continue
		}
		g.at, g.doc = s.rank(ms[i].Time), ms[i].Doc
		g.record = appendOpenRecord(nil, src, ms[i].Time, i)
		break
	}
	return nil
}
