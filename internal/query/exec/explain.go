package exec

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Verbosity is how much an explain tells.
type Verbosity uint8

// The verbosities. Each includes the previous one.
const (
	QueryPlanner      Verbosity = iota // the plan; nothing runs
	ExecutionStats                     // and the statistics of its execution
	AllPlansExecution                  // and the trial of each candidate
)

// Explained is a statement to explain: a query and what happens to its
// documents.
type Explained struct {
	Query *Query
	// Counting explains a count.
	Counting bool
	// Kind is "" for a query, or the Kind of a plan.Write.
	Kind string
	// Single says that a Write ends after one document, Simple that it is an update or
	// a delete that may use the express path by _id.
	Single, Simple bool
	// Returns says, for a Write, that it returns the document (findAndModify).
	Returns bool
	// Would says, for a Write, whether the document would be changed.
	Would func(doc bson.Doc) (bool, error)
	// Upserts says that the statement would insert where nothing matches.
	Upserts bool
	// above are the stages of a query over measurements; Explain finds them.
	above []shownStage
	// Adjust changes each candidate plan, or is nil.
	Adjust func(plan.Node) plan.Node

	drive func(context.Context, *Cursor) error // runs what is above the query; nil for nothing
	skips bool                                 // the plan skips from group to group
	whole bool                                 // the query is the whole pipeline
}

// expressKinds has the names of writes on the express path.
var expressKinds = map[string]string{"UPDATE": "EXPRESS_UPDATE", "DELETE": "EXPRESS_DELETE"}

// write puts the statement's write on top of a plan.
func (e *Explained) write(n plan.Node) plan.Node {
	if _, ok := n.(*plan.EOF); ok { // there is no collection
		return n
	}
	if x, ok := n.(*plan.Express); ok {
		if x.Scan != nil {
			return &plan.Write{Input: x.Scan, Kind: e.Kind}
		}
		short := *x
		short.Write = expressKinds[e.Kind]
		return &short
	}
	return &plan.Write{Input: n, Kind: e.Kind}
}

// Explain writes queryPlanner and, beyond that verbosity, executionStats into
// b. (Manual: "Explain Results".)
func (x *Executor) Explain(ctx context.Context, c *catalog.Collection, ns string, e *Explained, v Verbosity, b *bson.Builder) error {
	adjust := e.Adjust
	if e.Counting {
		adjust = x.counting(c, e.Query)
	}
	if e.Kind != "" {
		adjust = e.write
		e.Query.NoExpress = !e.Simple || !e.Single || e.Upserts
	}
	start := time.Now()
	r, err := x.prepare(ctx, c, e.Query, adjust)
	if err != nil {
		return err
	}
	defer r.close()
	planned := time.Since(start)
	for _, cand := range r.candidates() {
		if w, ok := cand.stage.(*wouldWrite); ok {
			w.would, w.upserts, w.single, w.returns = e.Would, e.Upserts, e.Single, e.Returns
		}
	}
	r.identify()
	all := r.candidates()
	if len(all) > 1 {
		if err := r.try(ctx); err != nil {
			return err
		}
	}
	shown := r.winner
	if u, above := unpacking(r.winner.stage); u != nil && e.Kind == "" {
		ns = r.source.coll.Namespace.String()
		shown = &candidate{node: u.Stats().Node.Inputs()[0], stage: u.Inputs()[0]}
		e.above = shownStages(u, above)
	}
	r.explainPlanner(b, ns, planned, shown, e.whole)
	e.skips = skips(r.winner.node)
	if v == QueryPlanner {
		return nil
	}
	return r.explainExecution(ctx, b, v, e.drive, shown)
}

// shown returns the client's filter in normal form.
func (q *Query) shown() bson.Doc {
	n, _ := match.WithoutOwned(q.Filter.Root())
	if n == nil {
		return bson.Empty
	}
	return match.Serialize(n)
}

func (r *running) explainPlanner(b *bson.Builder, ns string, planned time.Duration, shown *candidate, whole bool) {
	shape := r.shape.Hash()
	cached := ""
	if r.coll != nil {
		if p := plancache.Of(r.coll).Lookup(r.coll, r.key); p != nil && p.Active {
			cached = p.Signature
		}
	}
	b.OpenDoc("queryPlanner").String("namespace", ns)
	b.Doc("parsedQuery", r.query.shown())
	b.Bool("indexFilterSet", r.query.Allowed != nil && r.query.Preferred == nil)
	if p := r.query.Preferred; p != nil {
		b.Doc("querySettings", p.Settings)
	}
	b.String("queryHash", shape).String("planCacheShapeHash", shape).String("planCacheKey", r.key)
	b.Int64("optimizationTimeMillis", planned.Milliseconds())
	if whole {
		b.Bool("optimizedPipeline", true)
	}
	reached := r.query.Reached
	b.Bool("maxIndexedOrSolutionsReached", reached.Or).Bool("maxIndexedAndSolutionsReached", reached.And).Bool("maxScansToExplodeReached", reached.Explode)
	b.Bool("prunedSimilarIndexes", false)
	write := func(name string, c *candidate) {
		b.OpenDoc(name).Bool("isCached", cached != "" && plan.Signature(c.node) == cached).Fields(plan.Explain(c.node, nil, explainRoom(b))).Close()
	}
	write("winningPlan", shown)
	b.OpenArray("rejectedPlans")
	for i, c := range r.rejected {
		write(bson.Index(i), c)
	}
	b.Close().Close()
}

// explainExecution runs the winner, with drive if that is not nil, and writes
// executionStats.
func (r *running) explainExecution(ctx context.Context, b *bson.Builder, v Verbosity, drive func(context.Context, *Cursor) error, shown *candidate) error {
	var candidates []bson.Doc
	if v == AllPlansExecution {
		for _, c := range append([]*candidate{r.winner}, r.rejected...) {
			if len(r.rejected) > 0 {
				candidates = append(candidates, c.stats(true, explainRoom(b)/(len(r.rejected)+2)))
			}
		}
	}
	start := time.Now()
	n, runErr := int64(0), error(nil)
	if drive != nil {
		if err := drive(ctx, &Cursor{r: r}); err != nil {
			return err
		}
		n = r.winner.stage.Stats().Advanced
	} else if n, runErr = r.drain(ctx); ctx.Err() != nil {
		return runErr
	}
	elapsed := time.Since(start)
	b.OpenDoc("executionStats").Bool("executionSuccess", runErr == nil)
	if runErr != nil {
		b.String("errorMessage", runErr.Error())
	}
	if shown != r.winner {
		n = shown.stage.Stats().Advanced
	}
	b.Fields(shown.execution(n, elapsed, explainRoom(b)))
	if v == AllPlansExecution {
		b.OpenArray("allPlansExecution")
		for i, d := range candidates {
			b.Doc(bson.Index(i), d)
		}
		b.Close()
	}
	b.Close()
	return nil
}

// drain runs the winner to its end, and counts its results.
func (r *running) drain(ctx context.Context) (n int64, err error) {
	var row stage.Row
	for {
		ok, err := r.next(ctx, &row)
		if err != nil || !ok {
			return n, err
		}
		n++
	}
}

// maxExplainReply is the size of explain's reply, in bytes, from which on plans are
// truncated: the rest must still fit into a document.
const maxExplainReply = 15 << 20

// explainRoom returns the maximum size of the next plan in b.
func explainRoom(b *bson.Builder) int { return min(plan.MaxExplain, maxExplainReply-b.Len()) }

// execution is executionStats of a candidate that returned n documents. Its plan
// takes no more than room bytes.
func (c *candidate) execution(n int64, elapsed time.Duration, room int) bson.Doc {
	keys, docs := totals(c.stage)
	var b bson.Builder
	b.Int("nReturned", n).Int("executionTimeMillis", elapsed.Milliseconds())
	b.Int("totalKeysExamined", keys).Int("totalDocsExamined", docs)
	b.OpenDoc("executionStages").Bool("isCached", false).Fields(plan.Explain(c.node, countersOf(c.stage), room)).Close()
	return b.Finish()
}

// stats returns the document about a candidate's trial in allPlansExecution and in the
// plan cache.
func (c *candidate) stats(scored bool, room int) bson.Doc {
	keys, docs := totals(c.stage)
	var b bson.Builder
	b.Int("nReturned", int64(len(c.rows))).Int("executionTimeMillisEstimate", c.stage.Stats().Time.Milliseconds())
	b.Int("totalKeysExamined", keys).Int("totalDocsExamined", docs)
	if scored {
		b.Double("score", c.score())
	}
	b.Doc("executionStages", plan.Explain(c.node, countersOf(c.stage), room))
	return b.Finish()
}

// countersOf prints the counters of running stages by their nodes.
func countersOf(root stage.Stage) plan.Counters {
	byNode := map[plan.Node]stage.Stage{}
	var walk func(stage.Stage)
	walk = func(s stage.Stage) {
		if n := s.Stats().Node; byNode[n] == nil {
			byNode[n] = s
		}
		for _, in := range s.Inputs() {
			walk(in)
		}
	}
	walk(root)
	return func(n plan.Node, b *bson.Builder, specific bool) {
		s, ok := byNode[n]
		if !ok {
			return
		}
		if specific {
			specificCounters(s, b)
			return
		}
		writeStats(s.Stats(), b)
	}
}

// writeStats prints the counters that all stages have.
func writeStats(s *stage.Stats, b *bson.Builder) {
	b.Int("nReturned", s.Advanced).Int("executionTimeMillisEstimate", s.Time.Milliseconds())
	b.Int("works", s.Works).Int("advanced", s.Advanced).Int("needTime", s.NeedTime)
	b.Int32("needYield", 0).Int32("saveState", 0).Int32("restoreState", 0)
	b.Int32("isEOF", map[bool]int32{true: 1}[s.EOF])
}

func specificCounters(s stage.Stage, b *bson.Builder) {
	st := s.Stats()
	switch s := s.(type) {
	case *collScan:
		b.Int("docsExamined", st.DocsExamined)
	case *idHack:
		b.Int("keysExamined", st.KeysExamined).Int("docsExamined", st.DocsExamined)
	case *indexScan:
		b.Int("keysExamined", st.KeysExamined).Int("seeks", st.Seeks).Int("dupsTested", st.DupsTested).Int("dupsDropped", st.DupsDropped)
	case *distinctScan:
		b.Int("keysExamined", st.KeysExamined)
	case *sortMerge:
		b.Int("dupsTested", st.DupsTested).Int("dupsDropped", st.DupsDropped)
	case *countScan:
		b.Int("keysExamined", st.KeysExamined)
	case *geoNear:
		s.describeSearch(b)
	case *fetch:
		b.Int("docsExamined", st.DocsExamined).Int("alreadyHasObj", s.had)
	case *fetchedRing:
		b.Int("docsExamined", st.DocsExamined).Int32("alreadyHasObj", 0)
	case *textOr:
		b.Int("docsExamined", st.DocsExamined)
	case *textMatch:
		b.Int("docsRejected", s.rejected)
	case *or:
		b.Int("dupsTested", st.DupsTested).Int("dupsDropped", st.DupsDropped)
	case *sorter:
		r := &s.rows.Stats
		b.Int("totalDataSizeSorted", r.Bytes).Bool("usedDisk", r.Spills > 0).Int("spills", r.Spills).Int("spilledDataStorageSize", r.SpilledBytes)
	case *count:
		b.Int("nCounted", s.n).Int32("nSkipped", 0)
	case *wouldWrite:
		s.counters(b)
	}
}

// wouldWrite replaces a write in an explain: it only counts what the write would do.
type wouldWrite struct {
	stats            stage.Stats
	input            stage.Stage
	kind             string
	would            func(bson.Doc) (bool, error)
	upserts, single  bool
	returns          bool
	matched, changed int64
}

func (s *wouldWrite) Stats() *stage.Stats   { return &s.stats }
func (s *wouldWrite) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *wouldWrite) Close() error          { return s.input.Close() }

func (s *wouldWrite) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.single && s.matched > 0 {
		return s.stats.Count(stage.EOF), nil
	}
	state, err := s.input.Work(ctx, row)
	if err != nil || state != stage.Advanced {
		return s.stats.Count(state), err
	}
	s.matched++
	changes := true
	if s.would != nil {
		if changes, err = s.would(row.Doc); err != nil {
			return stage.EOF, err
		}
	}
	if changes {
		s.changed++
	}
	if s.returns {
		return s.stats.Count(stage.Advanced), nil
	}
	return s.stats.Count(stage.NeedTime), nil
}

func (s *wouldWrite) counters(b *bson.Builder) {
	if s.kind != "UPDATE" && s.kind != "EXPRESS_UPDATE" {
		b.Int("nWouldDelete", s.changed)
		return
	}
	upsert := int32(0)
	if s.upserts && s.matched == 0 {
		upsert = 1
	}
	b.Int("nMatched", s.matched).Int("nWouldModify", s.changed).Int32("nWouldUpsert", upsert)
}
