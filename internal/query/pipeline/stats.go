package pipeline

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// StageStats counts what a stage did, for explain.
type StageStats struct {
	Stage    Stage
	Returned int64
	// Time is spent in the stage and in those below it.
	Time time.Duration
}

// observe wraps the iterator of a stage so that it counts.
func observe(in Iterator, s Stage, r *Run) Iterator {
	st := &StageStats{Stage: s}
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
