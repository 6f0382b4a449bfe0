package exec

import (
	"cmp"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// distance is the stage of a plan.Distance: it takes all rows in, and delivers
// them by their distance.
type distance struct {
	stats  Stats
	node   *plan.Distance
	input  Stage
	source *source
	found  []nearRow
	bytes  int
	memory memory.Holding
	full   bool
}

func (s *distance) Stats() *Stats   { return &s.stats }
func (s *distance) Inputs() []Stage { return []Stage{s.input} }

// Close gives memory back.
func (s *distance) Close() error {
	s.found = nil
	s.memory.Release()
	return s.input.Close()
}

func (s *distance) Work(ctx context.Context, row *Row) (State, error) {
	if s.full {
		return s.emit(row)
	}
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return EOF, err
	}
	switch state {
	case EOF:
		s.full = true
		slices.SortStableFunc(s.found, func(a, b nearRow) int { return cmp.Compare(a.distance, b.distance) })
	case Advanced:
		err = s.measure(row)
	}
	return s.stats.Count(NeedTime), err
}

// measure keeps a row that lies within the distances wanted.
func (s *distance) measure(row *Row) error {
	near := s.node.Near.Near
	d, point, ok := nearest(s.node.Part.Values(row.Doc), near.Point)
	if !ok || d < near.Min || d > near.Max {
		return nil
	}
	s.bytes += len(row.Doc) + len(row.Record) + len(point.Data)
	if s.bytes > extsort.MaxMemory {
		return mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "a search by distance over measurements exceeded memory limit of %d bytes", extsort.MaxMemory)
	}
	if err := s.memory.Set(s.bytes); err != nil {
		return err
	}
	s.found = append(s.found, nearRow{distance: d, record: slices.Clone(row.Record), doc: row.Doc.Clone(), point: point.Clone()})
	return nil
}

// emit delivers the nearest of what is left.
func (s *distance) emit(row *Row) (State, error) {
	if len(s.found) == 0 {
		return s.stats.Count(EOF), nil
	}
	r := s.found[0]
	s.found = s.found[1:]
	*row = Row{Record: r.record, Doc: r.doc, Meta: &Meta{Distance: s.node.Near.Near.Report(r.distance), Point: r.point}}
	s.source.setMeasurementDue(row)
	return s.stats.Count(Advanced), nil
}
