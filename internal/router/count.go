package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/node"
)

// count answers {count: collection, query, skip, limit} with the sum of the shards'
// counts. A shard counts only the documents that it owns.
func (r *Router) count() *command.Command {
	return &command.Command{
		Name: "count", Flags: command.TakesReadConcern | command.APIv1, Help: "count objects in collection", Run: r.runCount,
	}
}

func (r *Router) runCount(ctx context.Context, op *command.Op) error {
	ns, err := collection(op)
	if err != nil {
		return err
	}
	r.sampleRead(op, ns, "count", document(op.Body.Lookup("query")))
	err = r.byRoute(ctx, op, ns, func(rt *route) error {
		shards, err := rt.targets(op, document(op.Body.Lookup("query")), nil, document(op.Body.Lookup("collation")))
		if err != nil {
			return err
		}
		skip := sizeOf(op.Body.Lookup("skip"), 0)
		limit, err := node.CountLimit(op.Body.Lookup("limit"))
		if err != nil {
			return err
		}
		split := len(shards) > 1 && (skip > 0 || limit > 0)
		counts, err := each(shards, func(shard string) (int64, error) {
			b := new(bson.Builder).String("count", op.Collection)
			if split {
				appendRest(b, op.Body, "skip", "limit")
				if limit > 0 {
					b.Int64("limit", plus(skip, limit))
				}
			} else {
				appendRest(b, op.Body)
			}
			rt.appendVersions(b, shard)
			a, err := r.ask(ctx, op, question{shard: shard, db: op.DB, body: b.Finish(), reads: true})
			return sizeOf(a.Reply.Lookup("n"), 0), err
		})
		if err != nil {
			return err
		}
		var n int64
		for _, c := range counts {
			n += c
		}
		if split {
			n = max(n-skip, 0)
			if limit > 0 {
				n = min(n, limit)
			}
		}
		op.Reply.Int("n", n)
		return nil
	})
	if v := resolvedView(err); v != nil {
		return r.countOnView(ctx, op, v)
	}
	return err
}

// countOnView counts the results of a view's aggregation.
func (r *Router) countOnView(ctx context.Context, op *command.Op, v *view) error {
	list, err := v.stages(op)
	if err != nil {
		return err
	}
	found, err := r.aggregateView(ctx, op, v, list)
	if err != nil {
		return err
	}
	n := int64(0)
	if len(found) > 0 {
		n = sizeOf(found[0].Lookup("n"), 0)
	}
	op.Reply.Int("n", n)
	return nil
}
