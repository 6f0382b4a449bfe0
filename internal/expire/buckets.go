package expire

import (
	"context"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/expire/forecast"
	"github.com/mayflydb/mayfly/internal/schema"
)

// bucketRemover removes the measurements of a time-series collection, by its own rule or
// by that of a TTL index with a filter on the metaField. Budgets and metrics.ttl count a
// bucket as a document. (Manual: "Set up Automatic Removal for Time Series Collections
// (TTL)".)
type bucketRemover struct {
	m *Monitor
	c *catalog.Collection
	*BucketExpiry
}

// buckets returns the remover of a visit, or nil if the rule no longer exists or may
// not remove anything at this hour, or while ranges move.
func (m *Monitor) buckets(c *catalog.Collection, r rule, k *ruleState) remover {
	now := m.o.Catalog.Clock.ExpiryTime()
	for _, in := range c.BucketRules() {
		if in.Name != r.index || c.Sharding().Moves() || m.shut(in.Rule) {
			continue
		}
		k.followBuckets(c, &in, now)
		d := &BucketExpiry{Rule: in, Now: now}
		d.MaxDocs, d.MaxTime = m.params.IndexDocs.Load(), time.Duration(m.params.IndexTimeMS.Load())*time.Millisecond
		return &bucketRemover{m, c, d}
	}
	return nil
}

func (d *bucketRemover) rule() *schema.Rule { return d.Rule.Rule }
func (d *bucketRemover) find(c *catalog.Collection) *schema.Rule {
	return inForce(c, rule{c.UUID, d.Rule.Name})
}
func (d *bucketRemover) limits() *Limits     { return &d.Limits }
func (d *bucketRemover) statement() bson.Doc { return d.Statement(d.c.Settings.Timeseries) }
func (d *bucketRemover) summary() string     { return "" }

func (d *bucketRemover) singly(ctx context.Context, _ *removal) (Visited, error) {
	return d.Run(ctx, d.m.o.Exec, d.c)
}

// ranges removes what is due by a collection's own rule. Where a budget applies
// it leaves everything to singly: a range cannot be removed in part.
func (d *bucketRemover) ranges(ctx context.Context, v *removal, budgeted bool) (catalog.Dropped, error) {
	if !v.batched || budgeted || d.Rule.Name != "" {
		return catalog.Dropped{}, nil
	}
	begun := time.Now()
	gone, err := d.m.o.Catalog.DropBuckets(ctx, d.c, &d.Rule, d.Now, d.Permit, v.sweeping(ctx), v.resting(ctx))
	if gone.Docs == 0 {
		return gone, err
	}
	v.bookRange(gone, time.Since(begun))
	if err != nil {
		return gone, err
	}
	return gone, d.m.o.Catalog.SweepByTime(ctx, d.c, v.sweeping(ctx))
}

func (d *bucketRemover) ended(k *ruleState, done Visited) {
	if !done.More {
		k.cleared = max(k.cleared, d.Now)
	}
}

// hasDueBuckets is hasDue for a rule of a time-series collection.
func (m *Monitor) hasDueBuckets(ctx context.Context, c *catalog.Collection, r rule, k *ruleState) (bool, error) {
	now := m.o.Catalog.Clock.ExpiryTime()
	for _, in := range c.BucketRules() {
		if in.Name != r.index {
			continue
		}
		k.followBuckets(c, &in, now)
		k.Lock()
		since := k.cleared
		wanted := m.params.WakeWhenDue.Load() || k.Spent
		k.Unlock()
		due, err := forecast.FirstBucketDue(ctx, m.o.Exec, c, &in, since, now)
		if err != nil {
			return false, err
		}
		k.late(due, now)
		if in.Settings.Exact && since == math.MinInt64 {
			due = now // the rule has changed: there may be parts of buckets
		}
		return due <= now && wanted && !m.shut(in.Rule), nil
	}
	return false, nil
}

// followBuckets is follow for a rule of a time-series collection.
func (k *ruleState) followBuckets(c *catalog.Collection, r *measurements.Rule, now int64) {
	in := c.Ident
	if ix := c.Index(r.Name); ix != nil {
		in = ix.Ident
	}
	k.followRule(c.Namespace.String(), in, r.Seconds, now)
}
