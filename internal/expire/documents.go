package expire

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// documentRemover removes documents: whole windows of expiry as ranges, and the others
// one by one.
type documentRemover struct {
	m  *Monitor
	c  *catalog.Collection
	by rule
	*BatchedDelete
	// leave leaves what is not in windows to a relayout.
	leave bool
	// later says that time was up while windows were archived: they are not for removal one by one.
	later bool
}

// documents returns the remover of a visit of r, or nil if the rule no longer exists,
// is switched off, or cannot work.
func (m *Monitor) documents(ctx context.Context, c *catalog.Collection, r rule, k *ruleState, archives bool, since func(*ruleState) int64) remover {
	d := &BatchedDelete{Rule: ruleOf(c, r), Now: m.o.Catalog.Clock.ExpiryTime()}
	if d.Rule == nil {
		m.skipSpecial(ctx, c, r)
		return nil
	}
	k.follow(c, d.Rule, d.Now)
	if archives != (d.Rule.Settings.Archive != nil) {
		return nil // else a pass would wait for a store, and a due check make an object for each second
	}
	if d.Since = since(k); d.Since != math.MinInt64 {
		d.Now = c.WholeUntil(d.Rule, d.Now)
	}
	if c.Sharding().Moves() || m.closed(d.Rule.Rule) || // what lies there may be another shard's
		len(d.Rule.RangesBetween(d.Since, d.Now)) == 0 {
		return nil
	}
	k.Lock()
	if k.place.in == d.Rule.Index.Ident && d.Since == math.MinInt64 {
		d.After = k.place.entry
	}
	k.Unlock()
	p := m.params
	if !p.BatchDeletes.Load() {
		d.Single = true
		return &documentRemover{m: m, c: c, by: r, BatchedDelete: d}
	}
	d.MaxDocs, d.MaxTime = p.IndexDocs.Load(), time.Duration(p.IndexTimeMS.Load())*time.Millisecond
	d.BatchDocs, d.BatchBytes = p.BatchDocs.Load(), p.BatchDocBytes.Load()
	d.BatchTime = time.Duration(p.BatchTimeMS.Load()) * time.Millisecond
	return &documentRemover{m: m, c: c, by: r, BatchedDelete: d}
}

func (d *documentRemover) rule() *schema.Rule { return d.Rule.Rule }
func (d *documentRemover) find(c *catalog.Collection) *schema.Rule {
	return inForce(c, d.by)
}
func (d *documentRemover) limits() *Limits     { return &d.Limits }
func (d *documentRemover) statement() bson.Doc { return d.Statement() }
func (d *documentRemover) summary() string     { return d.Summary() }

// singly checks each document again under its lock (invariant never-early).
// What is also due by a rule that archives is left to that one.
func (d *documentRemover) singly(ctx context.Context, v *removal) (Visited, error) {
	if d.leave {
		return Visited{}, nil
	}
	if d.Rule.Settings.Archive != nil {
		return d.archive(ctx, v)
	}
	return d.Run(ctx, d.m.o.Exec, d.c)
}

// ranges removes the windows of expiry that are wholly due. It leaves to singly
// what is due in others, and everything where a budget applies: a range cannot be
// removed in part.
func (d *documentRemover) ranges(ctx context.Context, v *removal, budgeted bool) (catalog.Dropped, error) {
	archives := d.Rule.Settings.Archive != nil
	if d.Single || budgeted || !archives && len(d.c.Archiving()) > 0 || !d.c.WindowedBy(d.Rule) {
		return catalog.Dropped{}, nil
	}
	if archives {
		return d.archiveRanges(ctx, v)
	}
	rest := v.resting(ctx)
	gone, err := d.m.o.Catalog.DropWindows(ctx, d.c, catalog.Drop{
		Rule: d.Rule, Now: d.Now, MaxTime: d.MaxTime, Permit: d.Permit,
		Did: func(step catalog.Dropped, took time.Duration) {
			if step.Docs > 0 {
				v.bookRange(step, took)
			}
		},
		Rest: func(took time.Duration, alone bool) error {
			if alone {
				return rest(took)
			}
			pause(ctx, d.m.governor.worked(took)) // inside the gate: other steps of it may be running
			return nil
		},
	})
	if err != nil || gone.Windows == 0 {
		return gone, err
	}
	// singly would step over the rule's own entries each time.
	return gone, d.m.o.Catalog.SweepFirst(ctx, d.c, d.Rule, d.Now, v.sweeping(ctx))
}

func (d *documentRemover) ended(k *ruleState, done Visited) {
	if d.leave {
		return // the rest is unknown
	}
	if d.Since == math.MinInt64 {
		k.place = place{d.Rule.Index.Ident, done.Place}
	}
	if !done.More {
		k.cleared = max(k.cleared, d.Now)
	}
}

// ruleOf finds a rule that is in force, or returns nil.
func ruleOf(c *catalog.Collection, r rule) *catalog.Rule {
	for _, in := range c.Rules() {
		if r.index == "" && in.Kind == schema.ByID || r.index != "" && in.Kind != schema.ByID && in.Index.Name == r.index {
			return in
		}
	}
	return nil
}

// skipSpecial counts and logs a TTL index of a type that cannot expire
// documents.
func (m *Monitor) skipSpecial(ctx context.Context, c *catalog.Collection, r rule) {
	ix := c.Index(r.index)
	if ix == nil || !ix.Ready || !ix.IsTTL() {
		return
	}
	m.Stats.InvalidIndexSkips.Add(1)
	m.o.Log.LogAttrs(ctx, slog.LevelError, "special index can't be used as a TTL index, skipping TTL job", slog.String("c", "INDEX"),
		slog.Int("id", logSpecial), slog.String("namespace", c.Namespace.String()), slog.String("index", ix.Shown().String()))
}
