package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Distinct calls yield with each document (or the part of it that an index
// holds) that can bring a new value of path, until it returns false. Where an
// index begins with path, it reads one entry for each value.
func (x *Executor) Distinct(ctx context.Context, c *catalog.Collection, q *Query, path string, yield func(bson.Doc) (bool, error)) (*Counted, error) {
	r, err := x.start(ctx, c, q, DistinctPlan(path))
	if err != nil {
		return nil, err
	}
	defer r.close()
	out := &Counted{Summary: Summary(r.winner.node)}
	var row Row
	for {
		ok, err := r.next(ctx, &row)
		if err != nil {
			return nil, err
		}
		more := ok
		if ok {
			more, err = yield(row.Doc)
		}
		if err != nil {
			return nil, err
		}
		if !more {
			out.Keys, out.Docs = totals(r.winner.stage)
			return out, nil
		}
	}
}

// DistinctPlan turns a plan that scans an index beginning with path, and reads
// nothing else, into one that skips from value to value.
func DistinctPlan(path string) func(plan.Node) plan.Node {
	return func(n plan.Node) plan.Node {
		f, ok := n.(*plan.Fetch)
		if !ok || f.Filter != nil {
			return n
		}
		s, ok := f.Input.(*plan.IndexScan)
		if !ok || s.Index.IsMultikey() || s.Index.Parts[0].Path != path || s.Index.Parts[0].Plugin != "" || s.Index.Collator != nil ||
			s.Backward || s.Min != nil || s.Max != nil || s.Index.Handle.(*catalog.Index).Records {
			return n
		}
		return &plan.DistinctScan{Index: s.Index, Bounds: s.Bounds, Field: 0}
	}
}
