package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// visitBuckets is visit for a rule of a time-series collection: its own, or
// that of a TTL index with a filter on the metaField. What budgets and counters
// call a document is a bucket here. (Manual: "Set up Automatic Removal for Time
// Series Collections (TTL)".)
func (m *Monitor) visitBuckets(ctx context.Context, c *catalog.Collection, r rule, k *track) (hit bool, err error) {
	d := m.bucketExpiry(c, r)
	if d == nil {
		return false, nil
	}
	budgets := m.tracks.budgets(c, &catalog.Rule{Rule: d.Rule.Rule}, k, m.params.budget())
	docs, bytes := k.left(budgets)
	if docs == 0 {
		return false, nil
	}
	if docs < unlimited && (d.MaxDocs == 0 || docs < d.MaxDocs) {
		d.MaxDocs = docs
	}
	if bytes < unlimited {
		d.MaxBytes = bytes
	}
	m.say(ctx, slog.LevelDebug, logVisit, "running TTL job for index", slog.String("namespace", c.Namespace.String()), slog.String("index", r.index))
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	op := m.o.Dispatcher.BeginBackground(client, command.KindRemove, c.Namespace.String(), d.Statement(c.Settings.Timeseries), cancel)
	defer op.End()
	d.Progress = func(b exec.Batch) {
		m.Stats.Deleted.Add(b.Docs)
		m.Stats.batch(b)
		k.book(b)
		for _, of := range budgets {
			of.take(b.Docs, b.Bytes)
		}
		pause(work, m.governor.worked(b.Time))
	}
	begun := time.Now()
	done, err := m.o.Exec.ExpireBuckets(work, c, d)
	took := time.Since(begun)
	m.report(ctx, op, c, r, done, took, err)
	switch {
	case err == nil:
		spent := done.More && done.Docs >= docs
		k.Lock()
		k.ns, k.Spent = c.Namespace.String(), spent
		k.Last = Visit{begun, took, Removed{done.Docs, done.Bytes, done.KeysDeleted}, done.More}
		k.Unlock()
		return done.More && !spent, nil
	case isInterrupt(ctx, err):
		return false, err
	case !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled):
		m.logError(ctx, c, r, err)
	}
	return false, nil
}

// bucketExpiry is what a visit of a rule removes now, or nil where the rule is
// gone or removes nothing at this hour.
func (m *Monitor) bucketExpiry(c *catalog.Collection, r rule) *exec.BucketExpiry {
	now := m.o.Catalog.Clock.Judged()
	for _, in := range c.BucketRules() {
		if in.Name != r.index || !in.Settings.Window.Open(time.UnixMilli(now)) {
			continue
		}
		d := &exec.BucketExpiry{Rule: in, Now: now, MaxDocs: m.params.IndexDocs.Load()}
		d.MaxTime = time.Duration(m.params.IndexTimeMS.Load()) * time.Millisecond
		return d
	}
	return nil
}
