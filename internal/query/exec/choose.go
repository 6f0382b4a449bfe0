package exec

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/query/plan"
)

// trialShare is the part of the collection's documents that a trial may look at
// where that is more than trialWorks (internalQueryPlanEvaluationCollFraction).
const trialShare = 0.3

// choice tells how a plan was chosen.
type choice struct {
	shape     plan.Shape // "" where there was nothing to choose
	key       string
	tried     bool // plans were tried against each other
	cached    bool // the plan came from the cache
	replanned bool // a cached plan was given up
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
	l := learnedOf(r.coll)
	if p := l.plan(r.coll, r.key); p != nil && p.Active {
		if done, err := r.replay(ctx, p); done || err != nil {
			r.x.Counts.CacheHits.Add(1)
			return err
		}
		l.doubt(r.key)
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
	l.store(r.coll, newCachedPlan(r.query, r.shape, r.key, r.winner, all))
	return nil
}

// identify names the query's shape and the plans that there are for it.
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

// replay runs the plan of a cache entry until it has as many results as a trial
// asks for; false says that it took too long for that, or failed.
func (r *running) replay(ctx context.Context, p *CachedPlan) (bool, error) {
	for _, c := range r.candidates() {
		if plan.Signature(c.node) != p.signature {
			continue
		}
		for works := int64(0); works < p.Works*evictionRatio; works++ {
			if works%ctxEvery == 0 && ctx.Err() != nil {
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

// rebuild makes all candidates anew.
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
