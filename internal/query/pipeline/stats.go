package pipeline

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// StageStats counts what a stage did, for explain.
type StageStats struct {
	Stage    Stage
	Returned int64
	// Time is spent in the stage and in those below it.
	Time time.Duration
	it   Iterator
}

// Spilled are the counters of a sort in the stage, nil if there is none.
func (s *StageStats) Spilled() *extsort.Stats {
	if sp, ok := s.it.(interface{ spilled() *extsort.Stats }); ok {
		return sp.spilled()
	}
	return nil
}

func (s *sorting) spilled() *extsort.Stats   { return &s.rows.Stats }
func (s *sampling) spilled() *extsort.Stats  { return &s.rows.Stats }
func (s *bucketing) spilled() *extsort.Stats { return &s.rows.Stats }

// spilled are the counters of the sort into partitions.
func (w *windowing) spilled() *extsort.Stats {
	if w.rows.sorter == nil {
		return nil
	}
	return &w.rows.sorter.Stats
}

func (w *grouping) spilled() *extsort.Stats {
	if w.space == nil {
		return &extsort.Stats{}
	}
	return &w.space.stats
}

// observe wraps the iterator of a stage so that it counts.
func observe(in Iterator, s Stage, r *Run) Iterator {
	st := &StageStats{Stage: s, it: in}
	*r.Stats = append(*r.Stats, st)
	return &observed{in, st}
}

type observed struct {
	Iterator
	stats *StageStats
}

func (o *observed) Next(ctx context.Context) (bson.Doc, error) {
	start := time.Now()
	d, err := o.Iterator.Next(ctx)
	o.stats.Time += time.Since(start)
	if d != nil {
		o.stats.Returned++
	}
	return d, err
}
