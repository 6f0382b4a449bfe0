package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

const (
	// trialWorks is how many units of work each candidate gets at the most
	// (internalQueryPlanEvaluationWorks).
	trialWorks = 10000
	// trialResults ends a trial early (internalQueryPlanEvaluationMaxResults).
	trialResults = 101
)

// candidate is a plan in a trial, with the results that it has delivered.
type candidate struct {
	node  plan.Node
	stage Stage
	rows  []Row
	ended bool
	err   error
}

// trial runs the candidates side by side, one unit of work each in turn, until
// one has enough results or is through, and returns the most productive one.
// A candidate that fails drops out; where all fail, the first one's error
// counts.
func trial(ctx context.Context, cs []*candidate) (*candidate, error) {
	if len(cs) == 1 {
		return cs[0], nil
	}
	for works := 0; works < trialWorks; works++ {
		if works%ctxEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		over := false
		for _, c := range cs {
			if c.err == nil {
				c.work(ctx)
				over = over || c.ended || len(c.rows) >= trialResults
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

func (c *candidate) work(ctx context.Context) {
	var row Row
	state, err := c.stage.Work(ctx, &row)
	c.err = err
	switch {
	case err != nil:
	case state == EOF:
		c.ended = true
	case state == Advanced:
		row.Record, row.Doc = bytes.Clone(row.Record), row.Doc.Clone()
		row.Key, row.Bits, row.Sort = bytes.Clone(row.Key), bytes.Clone(row.Bits), bytes.Clone(row.Sort)
		c.rows = append(c.rows, row)
	}
}

// score is results per unit of work, with small bonuses that break ties for
// plans without fetch and without sort, and a large one for being through.
func (c *candidate) score() float64 {
	st := c.stage.Stats()
	works := float64(max(st.Works, 1))
	bonus := min(1/(10*works), 1e-4)
	score := 1 + float64(st.Advanced)/works
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

// ctxEvery is how many units of work go by between two looks at the context.
const ctxEvery = 128

// runner pulls results out of a plan, those of its trial first.
type runner struct {
	candidate *candidate
	at        int
	works     int
}

// next returns the next row, valid until the following call.
func (r *runner) next(ctx context.Context, row *Row) (bool, error) {
	c := r.candidate
	if r.at < len(c.rows) {
		*row = c.rows[r.at]
		c.rows[r.at] = Row{}
		r.at++
		return true, nil
	}
	if c.ended {
		return false, c.err
	}
	for {
		if r.works++; r.works%ctxEvery == 0 && ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		state, err := c.stage.Work(ctx, row)
		if err != nil {
			c.err, c.ended = err, true
			return false, err
		}
		switch state {
		case Advanced:
			return true, nil
		case EOF:
			c.ended = true
			return false, nil
		}
	}
}

// totals sums the counters of a tree of stages.
func totals(s Stage) (keys, docs int64) {
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
		return "IXSCAN " + bson.Doc(n.Index.Key).String()
	case *plan.CountScan:
		return "COUNT_SCAN " + bson.Doc(n.Index.Key).String()
	case *plan.DistinctScan:
		return "DISTINCT_SCAN " + bson.Doc(n.Index.Key).String()
	}
	ins := n.Inputs()
	if len(ins) == 0 {
		return n.Stage()
	}
	s := ""
	for i, in := range ins {
		if i > 0 {
			s += ", "
		}
		s += Summary(in)
	}
	return s
}
