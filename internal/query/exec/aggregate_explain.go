package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// ExplainAggregate writes the explain of a pipeline into b: that of its query
// if nothing is left above it, else a list of stages, each with what it did
// where v asks for that. Nothing is written: a $merge or an $out is left out of
// the execution.
func (x *Executor) ExplainAggregate(ctx context.Context, c *catalog.Collection, ns string, q *Query, p *pipeline.Pipeline, r *pipeline.Run, v Verbosity, b *bson.Builder) error {
	if p.HasSource() {
		stats, err := drive(ctx, nil, p, r, v)
		if err != nil {
			return err
		}
		b.OpenArray("stages")
		err = (&stageWriter{x, ctx, r, v, b}).pipeline(0, p, p.Serialize(), stats)
		b.Close()
		return err
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
		e.whole = true
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
	err = (&stageWriter{x, ctx, r, v, b}).pipeline(n, rest, list, stats)
	b.Close()
	return err
}

// stageWriter writes the stages of an explain to b.
type stageWriter struct {
	x   *Executor
	ctx context.Context
	r   *pipeline.Run
	v   Verbosity
	b   *bson.Builder
}

// pipeline writes a pipeline, whose stages are printed as list, as the elements
// of an array from the n-th on.
func (w *stageWriter) pipeline(n int, p *pipeline.Pipeline, list []bson.Doc, stats []*pipeline.StageStats) error {
	for i, d := range list {
		var st *pipeline.StageStats
		if i < len(stats) {
			st = stats[i]
		}
		if s, ok := p.Stages[i].(*pipeline.SetWindowFields); ok {
			n += w.sorting(n+i, s, st)
		}
		w.b.OpenDoc(bson.Index(n + i))
		if err := w.stage(p.Stages[i], d, st); err != nil {
			return err
		}
		if w.v > QueryPlanner {
			writeStageStats(w.b, st)
		}
		w.b.Close()
	}
	return nil
}

// sorting writes the sort at the start of a $setWindowFields as the n-th element, and
// returns the number of elements.
func (w *stageWriter) sorting(n int, s *pipeline.SetWindowFields, st *pipeline.StageStats) int {
	d := s.Sorting()
	if d == nil {
		return 0
	}
	w.b.OpenDoc(bson.Index(n)).Fields(d)
	if w.v > QueryPlanner {
		var sorted extsort.Stats
		var returned, millis int64
		if st != nil {
			returned, millis = st.Returned, st.Time.Milliseconds()
			if sp := st.Spilled(); sp != nil {
				sorted = *sp
			}
		}
		w.b.Int64("totalDataSizeSortedBytesEstimate", sorted.Bytes)
		writeSpills(w.b, &sorted)
		w.b.Int64("nReturned", returned).Int64("executionTimeMillisEstimate", millis)
	}
	w.b.Close()
	return 1
}

func writeSpills(b *bson.Builder, s *extsort.Stats) {
	b.Bool("usedDisk", s.Spills > 0).Int64("spills", s.Spills).Int64("spilledDataStorageSize", s.SpilledBytes)
}

// writeWindowed writes the memory use of a $setWindowFields's functions.
func writeWindowed(b *bson.Builder, u *pipeline.Windowed) {
	b.OpenDoc("maxFunctionMemoryUsageBytes")
	for i, path := range u.Paths {
		b.Int64(path, u.Functions[i])
	}
	b.Close().Int64("maxTotalMemoryUsageBytes", u.Total).Bool("usedDisk", u.Spilled)
}

// stage writes a stage that is printed as d; st is nil if it has not run.
func (w *stageWriter) stage(s pipeline.Stage, d bson.Doc, st *pipeline.StageStats) error {
	switch s := s.(type) {
	case *pipeline.Facet:
		return w.facet(s, st)
	case *pipeline.UnionWith:
		if w.v == QueryPlanner || st != nil && st.Reached() {
			return w.union(s)
		}
	}
	w.b.Fields(d)
	return nil
}

// facet writes a $facet: each of its pipelines as stages after one that supplies the
// documents.
func (w *stageWriter) facet(f *pipeline.Facet, st *pipeline.StageStats) error {
	var branches []pipeline.Branch
	if st != nil {
		branches = st.Branches()
	}
	w.b.OpenDoc("$facet")
	for name, p := range f.Pipelines() {
		var branch pipeline.Branch
		if len(branches) > 0 {
			branch, branches = branches[0], branches[1:]
		}
		w.b.OpenArray(name).OpenDoc("0").OpenDoc("$internalFacetTeeConsumer").Close()
		if w.v > QueryPlanner {
			w.b.Int64("nReturned", branch.Read).Int64("executionTimeMillisEstimate", branch.Time.Milliseconds())
		}
		w.b.Close()
		if err := w.pipeline(1, p, p.Serialize(), branch.Stages); err != nil {
			return err
		}
		w.b.Close()
	}
	w.b.Close()
	return nil
}

// explainer is a pipeline.World that can explain what it reads.
type explainer interface {
	Explain(ctx context.Context, ns pipeline.Namespace, p *pipeline.Pipeline, r *pipeline.Run, v Verbosity, b *bson.Builder) error
}

// union writes a $unionWith with the explain of its pipeline, which it runs again.
func (w *stageWriter) union(u *pipeline.UnionWith) error {
	ns, p, r := u.Other(w.r)
	var sub bson.Builder
	sub.Reset(nil)
	var err error
	if world, ok := w.r.World.(explainer); ok && ns.Coll != "" {
		err = world.Explain(w.ctx, ns, p, r, w.v, &sub)
	} else {
		err = w.x.ExplainAggregate(w.ctx, nil, ns.String(), nil, p, r, w.v, &sub)
	}
	if err != nil {
		return err
	}
	w.b.OpenDoc("$unionWith")
	if ns.Coll != "" {
		w.b.String("coll", ns.Coll)
	}
	found := sub.Finish()
	if stages := found.Lookup("stages"); !stages.IsMissing() {
		w.b.Value("pipeline", stages)
	} else {
		w.b.OpenArray("pipeline").OpenDoc("0").Doc("$cursor", found).Close().Close()
	}
	w.b.Close()
	return nil
}

// writeStageStats writes the statistics of a stage above the query, nothing if st is nil.
func writeStageStats(b *bson.Builder, st *pipeline.StageStats) {
	if st == nil {
		b.Int64("nReturned", 0).Int64("executionTimeMillisEstimate", 0)
		return
	}
	if u := st.Windowed(); u != nil {
		writeWindowed(b, u)
	} else if sp := st.Spilled(); sp != nil {
		if _, ok := st.Stage.(*pipeline.Sort); ok {
			b.Int64("totalDataSizeSortedBytesEstimate", sp.Bytes)
		}
		writeSpills(b, sp)
	}
	if l := st.LookupStats(); l != nil {
		b.Int64("totalDocsExamined", l.Docs).Int64("totalKeysExamined", l.Keys).Int64("collectionScans", l.Scans)
		b.Strings("indexesUsed", l.Indexes...)
	}
	if a := st.Archived(); a != nil {
		b.Int64("objectsRead", a.Objects).Int64("rowGroupsRead", a.RowGroups).Int64("bytesRead", a.Bytes)
	}
	b.Int64("nReturned", st.Returned).Int64("executionTimeMillisEstimate", st.Time.Milliseconds())
}

// drive runs a pipeline over a cursor to its end, if v requires that, and returns the
// statistics of each stage. The cursor is nil if the pipeline has a source of its own.
// It stays open.
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

// The explain of a query over measurements is that of a pipeline: the plan that
// finds buckets is its $cursor, and what the query does with the measurements
// are stages of their own.

// shownStage is one of those stages, with its statistics.
type shownStage struct {
	doc   bson.Doc
	stats *stage.Stats
}

// unpacking finds the stage that unpacks buckets, and what is above it, from
// the top; nil if there is none.
func unpacking(s stage.Stage) (u stage.Stage, above []stage.Stage) {
	for {
		if _, ok := s.Stats().Node.(*plan.Unpack); ok {
			return s, above
		}
		ins := s.Inputs()
		if len(ins) != 1 {
			return nil, nil
		}
		above = append(above, s)
		s = ins[0]
	}
}

// shownStages are the stages of a query over measurements, first to last.
func shownStages(u stage.Stage, above []stage.Stage) []shownStage {
	all := []shownStage{{shownUnpack(u.Stats().Node.(*plan.Unpack)), u.Stats()}}
	for i := len(above) - 1; i >= 0; i-- {
		st := above[i].Stats()
		var b bson.Builder
		switch n := st.Node.(type) {
		case *plan.Sort:
			b.OpenDoc("$sort").Doc("sortKey", n.Pattern.Spec())
			if n.Limit > 0 {
				b.Int64("limit", n.Limit)
			}
			b.Close()
		case *plan.Skip:
			b.Int64("$skip", n.N)
		case *plan.Limit:
			b.Int64("$limit", n.N)
		case *plan.Projection:
			b.Doc("$project", n.Spec.Serialize())
		default:
			continue
		}
		all = append(all, shownStage{b.Finish(), st})
	}
	return all
}

func shownUnpack(n *plan.Unpack) bson.Doc {
	var b bson.Builder
	b.OpenDoc("$_internalUnpackBucket")
	if n.Paths == nil {
		b.OpenArray("exclude").Close()
	} else {
		b.Strings("include", n.Paths...)
	}
	b.String("timeField", n.Options.TimeField)
	if n.Options.MetaField != "" {
		b.String("metaField", n.Options.MetaField)
	}
	b.Int("bucketMaxSpanSeconds", n.Options.MaxSpanSeconds)
	if n.Filter != nil {
		b.Doc("eventFilter", match.Serialize(n.Filter))
	}
	return b.Close().Finish()
}

// write writes the stage as an element of the stages.
func (s shownStage) write(b *bson.Builder, v Verbosity) {
	b.Fields(s.doc)
	if v > QueryPlanner {
		b.Int64("nReturned", s.stats.Advanced).Int64("executionTimeMillisEstimate", s.stats.Time.Milliseconds())
	}
}
