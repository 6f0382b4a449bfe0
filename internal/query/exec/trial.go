package exec

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
)

const (
	// trialWorks bounds the units of work of each candidate
	// (internalQueryPlanEvaluationWorks).
	trialWorks = 10000
	// trialResults ends a trial early (internalQueryPlanEvaluationMaxResults).
	trialResults = 101
	// evictionRatio is how many times the works of its entry a cached plan may
	// take before the plans are tried again (internalQueryCacheEvictionRatio).
	evictionRatio = 10
	// maxEntryPlan bounds each plan in an entry of the plan cache, in bytes.
	maxEntryPlan = 1 << 20
)

// candidate is a plan in a trial, with its results so far.
type candidate struct {
	node  plan.Node
	stage stage.Stage
	rows  []stage.Row
	ended bool
	err   error
	bytes int            // of large rows
	hold  memory.Holding // for them
	full  bool           // out of memory
}

// trial runs the candidates side by side, one unit of work each in turn, until one has
// enough results or is done, and returns the most productive one. A candidate that fails
// drops out; if all fail, trial returns the first one's error.
func trial(ctx context.Context, cs []*candidate, limit int64) (*candidate, error) {
	if len(cs) == 1 {
		return cs[0], nil
	}
	for works := int64(0); works < limit; works++ {
		if works%stage.CtxEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		over := false
		for _, c := range cs {
			if c.err == nil {
				c.work(ctx)
				over = over || c.enough()
			}
		}
		if over {
			break
		}
	}
	var best *candidate
	for _, c := range cs {
		if c.err == nil && (best == nil || c.score() > best.score()) {
			best = c
		}
	}
	if best == nil {
		return nil, cs[0].err
	}
	return best, nil
}

// enough reports whether a candidate has ended its trial.
func (c *candidate) enough() bool {
	return c.err != nil || c.ended || c.full || c.scoredStage().Stats().Advanced >= trialResults
}

// scoredStage returns the stage whose results are counted: the one below a count or a
// write, which have no results of their own.
func (c *candidate) scoredStage() stage.Stage {
	switch s := c.stage.(type) {
	case *count:
		if s.input != nil {
			return s.input
		}
	case *wouldWrite:
		return s.input
	}
	return c.stage
}

func (c *candidate) work(ctx context.Context) {
	var row stage.Row
	state, err := c.stage.Work(ctx, &row)
	c.err = err
	switch {
	case err != nil:
	case state == stage.EOF:
		c.ended = true
	case state == stage.Advanced:
		c.rows = append(c.rows, row.Clone())
		if len(row.Doc) > largeDocument {
			c.bytes += len(row.Doc)
			c.full = c.hold.Set(c.bytes) != nil
		}
	}
}

// score returns the results per unit of work, with small bonuses that break ties for
// plans without fetch, without sort and without intersection, and a large one for being
// done.
func (c *candidate) score() float64 {
	st := c.scoredStage().Stats()
	works := float64(max(st.Works, 1))
	bonus := min(1/(10*works), 1e-4)
	score := 1 + float64(st.Advanced)/works
	if !has(c.node, func(n plan.Node) bool { _, ok := n.(*plan.AndSorted); return ok }) {
		score += bonus
	}
	if !has(c.node, func(n plan.Node) bool { _, ok := n.(*plan.Fetch); return ok }) {
		score += bonus
	}
	if !has(c.node, func(n plan.Node) bool { _, ok := n.(*plan.Sort); return ok }) {
		score += bonus
	}
	if c.ended {
		score++
	}
	return score
}

func has(n plan.Node, is func(plan.Node) bool) bool {
	if is(n) {
		return true
	}
	for _, in := range n.Inputs() {
		if has(in, is) {
			return true
		}
	}
	return false
}

// runner reads the results of a plan, those of its trial first.
type runner struct {
	candidate *candidate
	at        int
	works     int
}

// next returns the next row, valid until the following call.
func (r *runner) next(ctx context.Context, row *stage.Row) (bool, error) {
	c := r.candidate
	if r.at < len(c.rows) {
		*row = c.rows[r.at]
		c.rows[r.at] = stage.Row{}
		r.at++
		return true, nil
	}
	if c.ended {
		return false, c.err
	}
	for {
		if r.works++; r.works%stage.CtxEvery == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		state, err := c.stage.Work(ctx, row)
		if err != nil {
			c.err, c.ended = err, true
			return false, err
		}
		switch state {
		case stage.Advanced:
			return true, nil
		case stage.EOF:
			c.ended = true
			return false, nil
		}
	}
}

// totals sums the counters of a tree of stages.
func totals(s stage.Stage) (keys, docs int64) {
	st := s.Stats()
	keys, docs = st.KeysExamined, st.DocsExamined
	for _, in := range s.Inputs() {
		k, d := totals(in)
		keys, docs = keys+k, docs+d
	}
	return keys, docs
}

// Summary is a plan in a few words, as planSummary shows it.
func Summary(n plan.Node) string {
	switch n := n.(type) {
	case *plan.IndexScan:
		return "IXSCAN " + patternText(n.Index.Key)
	case *plan.GeoNear:
		return n.Stage() + " " + patternText(n.Index.Key)
	case *plan.CountScan:
		return "COUNT_SCAN " + patternText(n.Index.Key)
	case *plan.DistinctScan:
		return "DISTINCT_SCAN " + patternText(n.Index.Key)
	case *plan.Express:
		return expressSummary(n)
	}
	ins := n.Inputs()
	if len(ins) == 0 {
		return n.Stage()
	}
	s, last := "", ""
	for _, in := range ins {
		// The scans into which a sort splits one scan are alike.
		if t := Summary(in); t != last {
			if s != "" {
				s += ", "
			}
			s, last = s+t, t
		}
	}
	return s
}

// patternText formats the pattern of an index for plan summaries: directions are always
// 1 or -1.
func patternText(key bson.Doc) string {
	var b bson.Builder
	for name, v := range key.All() {
		switch {
		case !v.IsNumber():
		case bson.ToDouble(v) < 0:
			v = bson.Int32(-1)
		default:
			v = bson.Int32(1)
		}
		b.Value(name, v)
	}
	return b.Finish().String()
}

func expressSummary(n *plan.Express) string {
	s := "EXPRESS_IXSCAN { _id: 1 }"
	switch {
	case n.Index != nil:
		s = "EXPRESS_IXSCAN " + patternText(n.Index.Key)
	case n.Clustered:
		s = "EXPRESS_CLUSTERED_IXSCAN"
	}
	if n.Write != "" {
		s += "," + n.Write
	}
	return s
}

// trialShare is the share of the collection's documents that a trial may examine if that
// is more than trialWorks (internalQueryPlanEvaluationCollFraction).
const trialShare = 0.3

// choice says how a plan was chosen.
type choice struct {
	shape     plan.Shape // "" if there was only one
	key       string
	tried     bool // a trial
	cached    bool // a cached plan
	replanned bool // a trial after a cached plan was given up
}

// choose makes the best candidate the winner.
func (r *running) choose(ctx context.Context) error {
	r.query.Env.Watch(ctx)
	if len(r.rejected) == 0 {
		return nil
	}
	if !cacheable(r.query) {
		return r.try(ctx)
	}
	r.identify()
	l := plancache.Of(r.coll)
	if p := l.Lookup(r.coll, r.key); p != nil && p.Active {
		if done, err := r.replay(ctx, p); done || err != nil {
			r.x.Counts.CacheHits.Add(1)
			return err
		}
		l.Doubt(r.key)
		r.replanned = true
		r.x.Counts.Replanned.Add(1)
		if err := r.rebuild(); err != nil {
			return err
		}
	}
	r.x.Counts.CacheMisses.Add(1)
	all := r.candidates()
	if err := r.try(ctx); err != nil {
		return err
	}
	l.Store(r.coll, newEntry(r.query, r.shape, r.key, r.winner, all))
	return nil
}

// identify identifies the query's shape and its candidates.
func (r *running) identify() {
	r.shape = plan.ShapeOf(&r.query.Query)
	var sigs []string
	for _, c := range r.candidates() {
		sigs = append(sigs, plan.Signature(c.node))
	}
	r.key = r.shape.Key(sigs)
}

func (r *running) candidates() []*candidate {
	return append([]*candidate{r.winner}, r.rejected...)
}

// try runs the trial of all candidates.
func (r *running) try(ctx context.Context) error {
	limit := max(trialWorks, int64(trialShare*float64(r.builder.count)))
	began, all := time.Now(), r.candidates()
	best, err := trial(ctx, all, limit)
	r.x.Counts.Trials.Add(1)
	r.x.Counts.TrialMicros.Add(time.Since(began).Microseconds())
	for _, c := range all {
		r.x.Counts.TrialWorks.Add(c.stage.Stats().Works)
	}
	if err != nil {
		return err
	}
	r.tried = true
	r.elect(best)
	return nil
}

func (r *running) elect(best *candidate) {
	r.rejected = others(r.candidates(), best)
	r.winner, r.runner.candidate = best, best
}

// replay runs a cached plan until it has as many results as a trial needs; false if it
// took too long, or failed.
func (r *running) replay(ctx context.Context, p *plancache.Entry) (bool, error) {
	for _, c := range r.candidates() {
		if plan.Signature(c.node) != p.Signature {
			continue
		}
		for works := int64(0); works < p.Works*evictionRatio; works++ {
			if works%stage.CtxEvery == 0 && ctx.Err() != nil {
				return false, context.Cause(ctx)
			}
			c.work(ctx)
			if c.err != nil {
				return false, nil
			}
			if c.enough() {
				r.elect(c)
				r.cached = true
				return true, nil
			}
		}
	}
	return false, nil
}

// rebuild builds all candidates again.
func (r *running) rebuild() error {
	for _, c := range r.candidates() {
		if err := c.stage.Close(); err != nil {
			return err
		}
		stage, err := r.built(c.node)
		if err != nil {
			return err
		}
		*c = candidate{node: c.node, stage: stage, hold: c.hold}
	}
	return nil
}

// cacheable reports whether the outcome of a trial may be cached for other queries of
// the same shape.
func cacheable(q *Query) bool {
	return q.Hint.IsMissing() && q.Min == nil && q.Max == nil && !q.Tailable && !q.ReturnKey && q.Sort.Natural() == 0 &&
		!(plan.MatchesAll(q.Filter) && q.Sort.IsEmpty())
}

// newEntry makes the cache entry of a trial that best has won.
func newEntry(q *Query, shape plan.Shape, key string, best *candidate, all []*candidate) *plancache.Entry {
	p := &plancache.Entry{
		Shape: shape, Key: key, Signature: plan.Signature(best.node),
		Query: q.Filter.Text().Clone(), Sort: orEmpty(q.Sort.Spec()), Projection: projectionSpec(q.Projection), Collation: q.Collation.Clone(),
		Works: best.stage.Stats().Works, Created: time.Now(), IndexFilterSet: q.Allowed != nil && q.Preferred == nil, Plan: plan.Explain(best.node, nil, maxEntryPlan),
	}
	for _, c := range append([]*candidate{best}, others(all, best)...) {
		p.Stats = append(p.Stats, c.stats(false, maxEntryPlan))
		p.Scores = append(p.Scores, c.score())
	}
	return p
}

func projectionSpec(p *project.Projection) bson.Doc {
	if p == nil {
		return bson.Empty
	}
	return p.Serialize().Clone()
}

func orEmpty(d bson.Doc) bson.Doc {
	if d == nil {
		return bson.Empty
	}
	return d.Clone()
}

func others(all []*candidate, best *candidate) []*candidate {
	var out []*candidate
	for _, c := range all {
		if c != best {
			out = append(out, c)
		}
	}
	return out
}
