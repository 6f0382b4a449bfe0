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
	if p.HasSource() {
		stats, err := drive(ctx, nil, p, r, v)
		if err != nil {
			return err
		}
		b.OpenArray("stages")
		writeStages(b, 0, p.Serialize(), stats, v)
		b.Close()
		return nil
	}
	rest, err := pushDown(q, p)
	if err != nil {
		return err
	}
	if err := searchByDistance(c, q, p); err != nil {
		return err
	}
	e := &Explained{Query: q, Adjust: x.reads(c, q, rest)}
	measured := c != nil && c.IsTimeseries()
	if len(rest.Stages) == 0 && !measured {
		return x.Explain(ctx, c, ns, e, v, b)
	}
	var stats []*pipeline.StageStats
	e.drive = func(ctx context.Context, cur *Cursor) (err error) {
		stats, err = drive(ctx, cur, rest, r, v)
		return err
	}
	b.OpenArray("stages").OpenDoc("0").OpenDoc("$cursor")
	if err := x.Explain(ctx, c, ns, e, v, b); err != nil {
		return err
	}
	b.Close().Close()
	n := 1
	for _, s := range e.above {
		b.OpenDoc(bson.Index(n))
		s.write(b, v)
		b.Close()
		n++
	}
	list := rest.Serialize()
	if e.skips {
		list[0] = new(bson.Builder).OpenDoc("$groupByDistinctScan").Doc("newRoot", rest.GroupRoot()).Close().Finish()
	}
	writeStages(b, n, list, stats, v)
	b.Close()
	return nil
}

// writeStages writes stages as the elements of an array from the n-th on.
func writeStages(b *bson.Builder, n int, list []bson.Doc, stats []*pipeline.StageStats, v Verbosity) {
	for i, d := range list {
		b.OpenDoc(bson.Index(n + i))
		if name, arg := d.First(); name == "$facet" {
			writeFacet(b, arg.Doc(), i, stats, v)
		} else {
			b.Fields(d)
		}
		if v > QueryPlanner {
			writeStageStats(b, i, stats)
		}
		b.Close()
	}
}

// writeFacet writes the i-th stage, a $facet: each of its pipelines as stages
// behind one that hands it the documents.
func writeFacet(b *bson.Builder, facet bson.Doc, i int, stats []*pipeline.StageStats, v Verbosity) {
	var branches []pipeline.Branch
	if i < len(stats) {
		branches = stats[i].Branches()
	}
	b.OpenDoc("$facet")
	for name, list := range facet.All() {
		var branch pipeline.Branch
		if len(branches) > 0 {
			branch, branches = branches[0], branches[1:]
		}
		b.OpenArray(name).OpenDoc("0").OpenDoc("$internalFacetTeeConsumer").Close()
		if v > QueryPlanner {
			b.Int64("nReturned", branch.Read).Int64("executionTimeMillisEstimate", branch.Time.Milliseconds())
		}
		b.Close()
		var stages []bson.Doc
		for s := range list.Doc().Values() {
			stages = append(stages, s.Doc())
		}
		writeStages(b, 1, stages, branch.Stages, v)
		b.Close()
	}
	b.Close()
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
	if l := st.Looked(); l != nil {
		b.Int64("totalDocsExamined", l.Docs).Int64("totalKeysExamined", l.Keys).Int64("collectionScans", l.Scans)
		b.Strings("indexesUsed", l.Indexes...)
	}
	b.Int64("nReturned", st.Returned).Int64("executionTimeMillisEstimate", st.Time.Milliseconds())
}

// drive runs a pipeline over a cursor, nil where it has a source of its own, to
// its end, where v asks for that, and returns what each stage did. It leaves
// the cursor open.
func drive(ctx context.Context, cur *Cursor, p *pipeline.Pipeline, r *pipeline.Run, v Verbosity) ([]*pipeline.StageStats, error) {
	if v == QueryPlanner {
		return nil, nil
	}
	var stats []*pipeline.StageStats
	observed := *r
	observed.Stats = &stats
	p = p.Reading()
	var in pipeline.Iterator
	if cur != nil {
		in = withMeta(kept{cur}, cur.r.meta.value, p, &observed)
	}
	out, err := p.Open(in, &observed)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	for d := bson.Empty; err == nil && d != nil; {
		d, err = out.Next(ctx)
	}
	return stats, err
}

// kept is a cursor that stays open when the pipeline over it is closed.
type kept struct{ *Cursor }

func (kept) Close() {}
