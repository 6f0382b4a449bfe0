package forecast

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// FirstDue returns, from a rule's index, the earliest instant after another
// one; schema.Never for none. After the smallest number it is the earliest of
// all.
func FirstDue(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *catalog.Rule, after int64) (int64, error) {
	s, done := x.RuleEntries(c)
	defer done()
	return s.First(ctx, r, r.RangesBetween(after, schema.Never-1))
}

// FirstBucketDue returns the first instant after after, up to now, at which
// measurements may become due by a rule, or schema.Never: those of a bucket, or
// the open ones of a source, together. Single measurements (exact) are left to
// passes.
func FirstBucketDue(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *measurements.Rule, after, now int64) (int64, error) {
	o := c.Settings.Timeseries
	from, upTo := r.Before(after), r.Before(now)
	first := c.FirstOpenEnd(from, r.Settings.Exact, func(s *measurements.Source) bool { return r.Wants(o, s) })
	end, err := firstEnd(ctx, x, c, r, from, upTo)
	if err != nil {
		return 0, err
	}
	if first = min(first, end); first > upTo {
		return schema.Never, nil
	}
	return r.DueAt(first), nil
}

// firstEnd returns the end of a bucket of the rule that ends after from, the
// first one if the rule has no filter; if none ends by upTo, it may be
// Never.
func firstEnd(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *measurements.Rule, from, upTo int64) (int64, error) {
	o := c.Settings.Timeseries
	if r.Filter == nil {
		return x.Catalog.FirstEnd(c, from)
	}
	var b bson.Builder
	b.OpenDoc("control.max."+o.TimeField).Date("$gt", from).Date("$lte", upTo).Close()
	b.OpenDoc("control.min."+o.TimeField).Date("$lte", upTo).Close()
	filter, err := r.Buckets(o, b.Finish())
	if err != nil {
		return 0, err
	}
	q := &exec.Query{Query: plan.Query{Filter: filter, Limit: 1}}
	q.Collation, q.Collator = r.Collation()
	if ix := c.Index(r.Name); ix != nil && ix.Form != nil {
		q.Hint = bson.String(r.Name)
	}
	cur, err := x.Find(ctx, c.Buckets(), q)
	if err != nil {
		return 0, err
	}
	defer cur.Close()
	doc, err := cur.Next(ctx)
	if err != nil || doc == nil {
		return schema.Never, err
	}
	return doc.Lookup("control").Doc().Lookup("max").Doc().Lookup(o.TimeField).Date(), nil
}
