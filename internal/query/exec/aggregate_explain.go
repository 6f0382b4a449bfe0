package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// ExplainAggregate writes the explain of a pipeline into b: that of its query
// where nothing is left above it, else a list of stages, each with what it did
// where v asks for that. Nothing is written: a $merge or an $out is left out of
// the execution.
func (x *Executor) ExplainAggregate(ctx context.Context, c *catalog.Collection, ns string, q *Query, p *pipeline.Pipeline, r *pipeline.Run, v Verbosity, b *bson.Builder) error {
	var stats []*pipeline.StageStats
	if v > QueryPlanner {
		var err error
		if stats, err = x.observe(ctx, c, *q, p, *r); err != nil {
			return err
		}
	}
	rest := p
	n := 0
	if !p.HasSource() {
		var err error
		if rest, err = pushDown(q, p); err != nil {
			return err
		}
		if err = searchByDistance(c, q, p); err != nil {
			return err
		}
		adjust := reads(q, rest)
		if len(rest.Stages) == 0 {
			return x.Explain(ctx, c, ns, &Explained{Query: q}, v, b)
		}
		b.OpenArray("stages").OpenDoc("0").OpenDoc("$cursor")
		if err := x.Explain(ctx, c, ns, &Explained{Query: q, Adjust: adjust}, v, b); err != nil {
			return err
		}
		b.Close().Close()
		n = 1
	} else {
		b.OpenArray("stages")
	}
	for i, d := range rest.Serialize() {
		b.OpenDoc(bson.Index(n)).Fields(d)
		if v > QueryPlanner {
			writeStageStats(b, i, stats)
		}
		b.Close()
		n++
	}
	b.Close()
	return nil
}

// writeStageStats writes what the i-th stage above the query did.
func writeStageStats(b *bson.Builder, i int, stats []*pipeline.StageStats) {
	if i >= len(stats) {
		b.Int64("nReturned", 0).Int64("executionTimeMillisEstimate", 0)
		return
	}
	st := stats[i]
	if sp := st.Spilled(); sp != nil {
		b.Bool("usedDisk", sp.Spills > 0).Int64("spills", sp.Spills).Int64("spilledDataStorageSize", sp.SpilledBytes)
	}
	b.Int64("nReturned", st.Returned).Int64("executionTimeMillisEstimate", st.Time.Milliseconds())
}

// observe runs a pipeline to its end and returns what each stage above the
// query did.
func (x *Executor) observe(ctx context.Context, c *catalog.Collection, q Query, p *pipeline.Pipeline, r pipeline.Run) ([]*pipeline.StageStats, error) {
	var stats []*pipeline.StageStats
	r.Stats = &stats
	a, err := x.Aggregate(ctx, c, &q, p.Reading(), &r)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	for {
		d, err := a.out.Next(ctx)
		if err != nil || d == nil {
			return stats, err
		}
	}
}
