package exec

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Set by expire_test.go.
var (
	FirstBucketDue func(ctx context.Context, x *Executor, c *catalog.Collection, r *measurements.Rule, after, now int64) (int64, error)
	ExpireBuckets  func(ctx context.Context, x *Executor, c *catalog.Collection, r measurements.Rule, now int64) (more bool, err error)
)

// firstDue is the earliest instant by a rule.
func (h *house) firstDue(ctx context.Context, c *catalog.Collection, r *catalog.Rule) (int64, error) {
	e, done := h.exec.RuleEntries(c)
	defer done()
	return e.First(ctx, r, r.RangesBetween(math.MinInt64, schema.Never-1))
}
