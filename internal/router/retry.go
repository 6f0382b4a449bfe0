package router

import (
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxStale bounds the retries of a statement with a refreshed route.
	maxStale = 10
	// maxStalePause bounds the pause before a retry.
	maxStalePause = 500 * time.Millisecond
)

// isStale reports whether err says that the route was stale.
func isStale(err error) bool {
	return mongoerr.Is(err, mongoerr.StaleConfig, mongoerr.StaleDbVersion, mongoerr.StaleEpoch)
}

// staleNamespace returns the namespace of a stale error, "" if it has none.
func staleNamespace(err error) string {
	var e *mongoerr.Error
	if errors.As(err, &e) {
		if v := bson.Doc(e.Extra).Lookup("ns"); e.Extra != nil && v.Type == bson.TypeString {
			return v.Str()
		}
	}
	return ""
}

// byRoute runs a statement by the route of its namespace, and retries with a refreshed
// route while a shard reports it as stale. try must have had no effect then.
func (r *Router) byRoute(ctx context.Context, op *command.Op, ns string, try func(rt *route) error) error {
	rt, err := r.route(ctx, ns)
	if err != nil {
		return err
	}
	for stale := 0; ; stale++ {
		err := try(rt)
		if !isStale(err) || stale == maxStale || r.staleInTransaction(op, rt, err) {
			return err
		}
		if rt, err = r.afterStale(ctx, rt, err, stale); err != nil {
			return err
		}
	}
}

// afterStale pauses and returns the refreshed route. The pause gives the shards time to
// learn their versions.
func (r *Router) afterStale(ctx context.Context, rt *route, stale error, times int) (*route, error) {
	if ns := staleNamespace(stale); ns != "" && ns != rt.ns {
		r.routes.forget(func(n string) bool { return n == ns })
	}
	if times > 0 {
		if err := client.Sleep(ctx, min(time.Millisecond<<times, maxStalePause)); err != nil {
			return nil, err
		}
	}
	return r.fresher(ctx, rt)
}
