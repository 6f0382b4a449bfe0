package exec

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
)

// Distinct calls yield with each document (or the part of it that an index
// holds) that can bring a new value of path, until it returns false. Where an
// index begins with path, it reads one entry for each value.
func (x *Executor) Distinct(ctx context.Context, c *catalog.Collection, q *Query, path string, yield func(bson.Doc) (bool, error)) (*Counted, error) {
	r, err := x.start(ctx, c, q, DistinctPlan(q, path))
	if err != nil {
		return nil, err
	}
	defer r.close()
	out := &Counted{Summary: Summary(r.winner.node), Stats: r.stats}
	var row Row
	for {
		ok, err := r.next(ctx, &row)
		more := ok
		if err == nil && ok {
			more, err = yield(row.Doc)
		}
		if err != nil {
			return nil, mongoerr.Under(err, "Executor error during distinct command")
		}
		if !more {
			out.Keys, out.Docs = totals(r.winner.stage)
			return out, nil
		}
	}
}

// DistinctPlan prepares a query for the distinct values of a path, and turns its
// plans that read nothing but an index which holds the path, or its elements where
// all documents are asked for, into ones that skip from value to value.
func DistinctPlan(q *Query, path string) func(plan.Node) plan.Node {
	q.Distinct, q.Paths, q.NoExpress = path, []string{path}, true
	shape, err := project.ParseFind(new(bson.Builder).Int32("_id", 0).Int32(path, 1).Finish(), nil)
	if path == "_id" {
		shape, err = project.ParseFind(new(bson.Builder).Int32("_id", 1).Finish(), nil)
	}
	all := plan.MatchesAll(q.Filter)
	return func(n plan.Node) plan.Node {
		in := n
		fetch, fetching := n.(*plan.Fetch)
		if fetching {
			in = fetch.Input
		}
		s, ok := in.(*plan.IndexScan)
		if !ok || s.Min != nil || s.Max != nil || s.Filter != nil {
			return n
		}
		for i, p := range s.Index.Parts {
			if p.Path != path || p.Plugin != "" {
				continue
			}
			elements := s.Index.MultikeyPart(i)
			if elements && !(all && i == 0 && s.Index.HoldsElements(path)) || fetching && !elements {
				return n
			}
			scan := &plan.DistinctScan{Index: s.Index, Bounds: s.Bounds, Field: i, Backward: s.Backward, Elements: elements}
			if err != nil { // a path that no projection may name
				return scan
			}
			return &plan.Projection{Input: scan, Kind: plan.ProjectionCovered, Spec: shape}
		}
		return n
	}
}
