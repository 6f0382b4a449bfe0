package expire

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

// visit removes what is due by one rule, within the limits, and says whether
// it stopped at one. A failure of the visit is logged and not returned; what
// is returned ends the pass.
func (m *Monitor) visit(ctx context.Context, r rule) (hit bool, err error) {
	return m.visitAfter(ctx, r, func(*track) int64 { return math.MinInt64 })
}

// visitAfter is visit for what is due since an instant.
func (m *Monitor) visitAfter(ctx context.Context, r rule, since func(*track) int64) (hit bool, err error) {
	gate := &m.o.Dispatcher.Gate
	if err := gate.Enter(ctx); err != nil {
		return false, err
	}
	defer gate.Leave()
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil {
		return false, nil
	}
	k := m.tracks.of(r)
	if c.IsTimeseries() {
		return m.visitBuckets(ctx, c, r, k)
	}
	d, ok := m.deletion(ctx, c, r, k, since)
	if !ok {
		return false, nil
	}
	budgets := m.tracks.budgets(c, d.Rule, k, m.params.budget())
	docs, spent := m.allow(d, k, budgets)
	if spent {
		return false, nil
	}
	m.say(ctx, slog.LevelDebug, logVisit, "running TTL job for index", slog.String("namespace", c.Namespace.String()), slog.String("index", r.index))
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	op := m.o.Dispatcher.BeginBackground(client, command.KindRemove, c.Namespace.String(), d.Statement(), cancel)
	defer op.End()
	op.Op().SetPlanSummary(d.Summary())
	gone := int64(0)
	d.Progress = func(b exec.Batch) {
		m.Stats.Deleted.Add(b.Docs)
		if !d.Single {
			m.Stats.batch(b)
		}
		k.book(b)
		for _, of := range budgets {
			of.take(b.Docs, b.Bytes)
		}
		gone += b.Docs
		op.Op().SetProgress(command.Progress{Message: fmt.Sprintf("TTL: removed %d documents by %s", gone, ruleName(r))})
		pause(work, m.governor.worked(b.Time))
	}
	begun := time.Now()
	dropped, err := m.dropWindows(work, c, d, docs < unlimited || d.MaxBytes > 0)
	if err != nil && !isInterrupt(ctx, err) {
		m.logError(ctx, c, r, err) // the documents can go one by one
		err = nil
	}
	var done exec.Visited
	if err == nil {
		done, err = m.o.Exec.DeleteExpired(work, c, d)
	}
	dropped.addTo(&done)
	took := time.Since(begun)
	m.report(ctx, op, c, r, done, took, err)
	switch {
	case err == nil:
		spent := done.More && done.Docs-dropped.Docs >= docs
		k.ended(d, done, Visit{begun, took, Removed{done.Docs, done.Bytes, done.KeysDeleted}, done.More}, spent)
		return done.More && !spent, nil
	case isInterrupt(ctx, err):
		return false, err
	case !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled):
		m.logError(ctx, c, r, err)
	}
	return false, nil
}

// client is what currentOp, the profiler and the log call the monitor.
const client = "TTLMonitor"

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// deletion is what a visit of r removes now, or false where the rule is gone,
// switched off, or cannot work.
func (m *Monitor) deletion(ctx context.Context, c *catalog.Collection, r rule, k *track, since func(*track) int64) (*exec.BatchedDelete, bool) {
	d := &exec.BatchedDelete{Rule: ruleOf(c, r), Now: m.o.Catalog.Clock.Judged()}
	if d.Rule == nil {
		m.skipSpecial(ctx, c, r)
		return nil, false
	}
	k.follow(c, d.Rule, d.Now)
	if d.Since = since(k); d.Since != math.MinInt64 {
		d.Now = c.WholeUntil(d.Rule, d.Now)
	}
	if closed(d.Rule, d.Now) || len(d.Rule.RangesBetween(d.Since, d.Now)) == 0 {
		return nil, false
	}
	k.Lock()
	if k.place.in == d.Rule.Index.Ident && d.Since == math.MinInt64 {
		d.After = k.place.entry
	}
	k.Unlock()
	p := m.params
	if !p.BatchDeletes.Load() {
		d.Single = true
		return d, true
	}
	d.MaxDocs, d.MaxTime = p.IndexDocs.Load(), time.Duration(p.IndexTimeMS.Load())*time.Millisecond
	d.BatchDocs, d.BatchBytes = p.BatchDocs.Load(), p.BatchDocBytes.Load()
	d.BatchTime = time.Duration(p.BatchTimeMS.Load()) * time.Millisecond
	return d, true
}

// closed says whether settings keep a rule from removing anything now.
func closed(r *catalog.Rule, now int64) bool {
	return r.Settings.Paused || !r.Settings.Window.Open(time.UnixMilli(now))
}

// allow puts what budgets leave into the limits of a visit. docs is how many
// documents that is at the most; spent says that it is nothing.
func (m *Monitor) allow(d *exec.BatchedDelete, k *track, budgets []*budget) (docs int64, spent bool) {
	docs, bytes := k.left(budgets)
	if docs == 0 {
		return 0, true
	}
	if docs < unlimited && (d.MaxDocs == 0 || docs < d.MaxDocs) {
		d.MaxDocs = docs
	}
	if bytes < unlimited {
		d.MaxBytes = bytes
	}
	return docs, false
}

// left is how many documents and bytes budgets leave.
func (k *track) left(budgets []*budget) (docs, bytes int64) {
	docs, bytes = unlimited, unlimited
	for _, b := range budgets {
		n, size := b.left(time.Now())
		docs, bytes = min(docs, n), min(bytes, size)
	}
	k.Lock()
	defer k.Unlock()
	k.Spent = docs == 0
	return docs, bytes
}

// ended books the end of a visit.
func (k *track) ended(d *exec.BatchedDelete, done exec.Visited, v Visit, spent bool) {
	k.Lock()
	defer k.Unlock()
	if d.Since == math.MinInt64 {
		k.place = place{d.Rule.Index.Ident, done.Place}
	}
	if !done.More {
		k.cleared = max(k.cleared, d.Now)
	}
	k.Spent = spent
	k.Last = v
}

// forgetPlace has the next visit begin at the first entry.
func (k *track) forgetPlace() {
	k.Lock()
	defer k.Unlock()
	k.place = place{}
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

// skipSpecial counts and logs a TTL index that can be none.
func (m *Monitor) skipSpecial(ctx context.Context, c *catalog.Collection, r rule) {
	ix := c.Index(r.index)
	if ix == nil || !ix.Ready || !ix.IsTTL() {
		return
	}
	m.Stats.InvalidIndexSkips.Add(1)
	m.o.Log.LogAttrs(ctx, slog.LevelError, "special index can't be used as a TTL index, skipping TTL job", slog.String("c", "INDEX"),
		slog.Int("id", logSpecial), slog.String("namespace", c.Namespace.String()), slog.String("index", ix.Spec.String()))
}

// report profiles a visit that removed something, and logs it where it was
// slow. (mongod's profiler knows nothing of these deletes; its manual says it
// does.)
func (m *Monitor) report(ctx context.Context, op *command.Background, c *catalog.Collection, r rule, done exec.Visited, took time.Duration, err error) {
	if done.Docs == 0 {
		return
	}
	s := &op.Op().Stats
	s.IsQuery, s.IsWrite = true, true
	s.KeysExamined, s.DocsExamined = done.KeysExamined, done.DocsExamined
	s.NDeleted, s.KeysDeleted = done.Docs, done.KeysDeleted
	s.ExecStats = done.Stats
	if !op.Note(ctx, err) {
		return
	}
	attrs := []slog.Attr{slog.String("c", "INDEX"), slog.Int("id", logDeleted), slog.String("namespace", c.Namespace.String()),
		slog.String("index", r.index), slog.Int64("numDeleted", done.Docs), slog.Int64("numKeysDeleted", done.KeysDeleted),
		slog.Int64("numKeysExamined", done.KeysExamined), slog.Int64("numDocsExamined", done.DocsExamined), slog.String("duration", took.String())}
	text := "Deleted expired documents using index"
	if r.index == "" {
		text = "Deleted expired documents using clustered index scan"
		attrs[1], attrs[3] = slog.Int("id", logDeletedClustered), slog.Bool("extendedRange", false)
	}
	m.o.Log.LogAttrs(ctx, slog.LevelInfo, text, attrs...)
}

func (m *Monitor) logError(ctx context.Context, c *catalog.Collection, r rule, err error) {
	e := mongoerr.From(err)
	m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error running TTL job on collection", slog.String("c", "INDEX"), slog.Int("id", logError),
		slog.Group("error", slog.Int("code", int(e.Code)), slog.String("codeName", e.Code.String()), slog.String("errmsg", e.Message)),
		slog.String("namespace", c.Namespace.String()), slog.String("index", r.index))
}
