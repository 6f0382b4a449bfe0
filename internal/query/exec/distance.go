package exec

import (
	"cmp"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// distance is the stage of a plan.Distance: it consumes all rows, and returns them in
// the order of their distance.
type distance struct {
	stats  stage.Stats
	node   *plan.Distance
	input  stage.Stage
	source *source
	found  []nearRow
	bytes  int
	memory memory.Holding
	full   bool
}

func (s *distance) Stats() *stage.Stats   { return &s.stats }
func (s *distance) Inputs() []stage.Stage { return []stage.Stage{s.input} }

// Close gives memory back.
func (s *distance) Close() error {
	s.found = nil
	s.memory.Release()
	return s.input.Close()
}

func (s *distance) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.full {
		return s.emit(row)
	}
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	switch state {
	case stage.EOF:
		s.full = true
		slices.SortStableFunc(s.found, func(a, b nearRow) int { return cmp.Compare(a.distance, b.distance) })
	case stage.Advanced:
		err = s.measure(row)
	}
	return s.stats.Count(stage.NeedTime), err
}

// measure keeps a row that is within the query's distances.
func (s *distance) measure(row *stage.Row) error {
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

// emit returns the nearest of the remaining rows.
func (s *distance) emit(row *stage.Row) (stage.State, error) {
	if len(s.found) == 0 {
		return s.stats.Count(stage.EOF), nil
	}
	r := s.found[0]
	s.found = s.found[1:]
	*row = stage.Row{Record: r.record, Doc: r.doc, Meta: &stage.Meta{Distance: s.node.Near.Near.Report(r.distance), Point: r.point}}
	s.source.setMeasurementDue(row)
	return s.stats.Count(stage.Advanced), nil
}
