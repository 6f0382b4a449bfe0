package exec_test

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/expire/forecast"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// The tests of exec let measurements expire, too. Package expire imports exec, so it is
// handed to them from here.
func init() {
	exec.FirstBucketDue = forecast.FirstBucketDue
	exec.ExpireBuckets = func(ctx context.Context, x *exec.Executor, c *catalog.Collection, r measurements.Rule, now int64) (bool, error) {
		done, err := (&expire.BucketExpiry{Rule: r, Now: now}).Run(ctx, x, c)
		return done.More, err
	}
}
