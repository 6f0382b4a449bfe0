package expire

import (
	"context"
	"log/slog"
	"math"
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
	k.followBuckets(c, &d.Rule, d.Now)
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
	dropped, err := m.dropBuckets(work, c, d, k, docs < unlimited || d.MaxBytes > 0)
	if err != nil && !isInterrupt(ctx, err) {
		m.logError(ctx, c, r, err) // the buckets can go one by one
		err = nil
	}
	var done exec.Visited
	if err == nil {
		done, err = m.o.Exec.ExpireBuckets(work, c, d)
	}
	dropped.addTo(&done)
	took := time.Since(begun)
	m.report(ctx, op, c, r, done, took, err)
	switch {
	case err == nil:
		spent := done.More && done.Docs-dropped.Docs >= docs
		k.Lock()
		k.Spent = spent
		k.Last = Visit{begun, took, Removed{done.Docs, done.Bytes, done.KeysDeleted}, done.More}
		if !done.More {
			k.cleared = max(k.cleared, d.Now)
		}
		k.Unlock()
		return done.More && !spent, nil
	case isInterrupt(ctx, err):
		return false, err
	case !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled):
		m.logError(ctx, c, r, err)
	}
	return false, nil
}

// dropBuckets removes what is due by a collection's own rule as ranges. It leaves
// all to the visit where a budget says how many may go: a range goes whole.
func (m *Monitor) dropBuckets(ctx context.Context, c *catalog.Collection, d *exec.BucketExpiry, k *track, budgeted bool) (dropped, error) {
	if !m.params.BatchDeletes.Load() || budgeted || d.Rule.Name != "" {
		return dropped{}, nil
	}
	begun := time.Now()
	gone, err := m.o.Catalog.DropBuckets(ctx, c, &d.Rule, d.Now)
	if gone.Docs > 0 {
		m.bookRange(gone, time.Since(begun), k)
	}
	if err != nil || gone.Docs == 0 {
		return dropped{gone}, err
	}
	return dropped{gone}, m.o.Catalog.SweepByTime(ctx, c)
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

// hasDueBuckets is hasDue for a rule of a time-series collection.
func (m *Monitor) hasDueBuckets(ctx context.Context, c *catalog.Collection, r rule, k *track) (bool, error) {
	now := m.o.Catalog.Clock.Judged()
	for _, in := range c.BucketRules() {
		if in.Name != r.index {
			continue
		}
		k.followBuckets(c, &in, now)
		k.Lock()
		since := k.cleared
		wanted := m.params.WakeWhenDue.Load() || k.Spent
		k.Unlock()
		due, err := m.o.Exec.FirstBucketDue(ctx, c, &in, since, now)
		if err != nil {
			return false, err
		}
		k.late(due, now)
		if in.Settings.Exact && since == math.MinInt64 {
			due = now // the rule has changed: there may be parts of buckets
		}
		return due <= now && wanted && in.Settings.Window.Open(time.UnixMilli(now)), nil
	}
	return false, nil
}

// followBuckets is follow for a rule of a time-series collection.
func (k *track) followBuckets(c *catalog.Collection, r *catalog.BucketRule, now int64) {
	in := c.Ident
	if ix := c.Index(r.Name); ix != nil {
		in = ix.Ident
	}
	k.followRule(c.Namespace.String(), in, r.Seconds, now)
}
