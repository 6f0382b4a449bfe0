package expire

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// visit removes what is due by one rule, within the limits, and returns whether
// it stopped at one. A failure of the visit is logged and not returned; an
// error that is returned ends the pass.
func (m *Monitor) visit(ctx context.Context, r rule) (hit bool, err error) {
	hit, err = m.visitAfter(ctx, r, false, func(*ruleState) int64 { return math.MinInt64 })
	if k := m.states.known(r); k != nil {
		k.goOn()
	}
	return hit, err
}

// visitAfter is visit for what is due since an instant. archives says that it is an archiver's,
// whose rules no others visit, and which visits no others.
func (m *Monitor) visitAfter(ctx context.Context, r rule, archives bool, since func(*ruleState) int64) (hit bool, err error) {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil {
		return false, nil
	}
	pass, err := m.enter(ctx, c.Namespace.DB)
	if mongoerr.Is(err, mongoerr.UserWritesBlocked) {
		m.logError(ctx, c, r, err)
		m.fail(err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer pass.leave()
	limits := m.limits.Load()
	if !m.params.Enabled.Load() {
		return false, nil // since the pass began
	}
	if c = c.Latest(); c == nil {
		return false, nil
	}
	k := m.states.of(r)
	var by remover
	if c.IsTimeseries() {
		by = m.buckets(c, r, k)
	} else {
		by = m.documents(ctx, c, r, k, archives, since)
	}
	if d, ok := by.(*documentRemover); ok && d.Since == math.MinInt64 && m.asksRelayout(c, d.Rule, k) {
		if d.leave = true; !c.Relaying() {
			return false, nil
		}
	}
	if by == nil {
		return false, nil
	}
	v := removal{m: m, c: c, r: r, k: k, by: by, pass: pass, begunAt: limits, batched: m.params.BatchDeletes.Load()}
	return v.remove(ctx)
}

// client is the monitor's name in currentOp, the profiler and the log.
const client = "TTLMonitor"

// pause waits for a while, or until ctx ends.
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

// closed reports whether settings forbid a rule to remove anything now.
func (m *Monitor) closed(r *schema.Rule) bool { return r.Settings.Paused || m.shut(r) }

// shut reports whether this is not an hour of the day at which a rule may remove anything.
func (m *Monitor) shut(r *schema.Rule) bool {
	w := r.Settings.Window
	return w != nil && !w.Open(time.UnixMilli(m.o.Catalog.Clock.ExpiryTime()))
}

// report profiles a visit that removed something, and logs it where it was
// slow. (mongod's profiler does not record these deletes, though its manual
// says so.)
func (m *Monitor) report(ctx context.Context, op *command.Background, c *catalog.Collection, r rule, done Visited, took time.Duration, err error) {
	if done.Docs == 0 {
		return
	}
	s := &op.Op().Stats
	s.IsQuery, s.IsWrite = true, true
	s.KeysExamined, s.DocsExamined = done.KeysExamined, done.DocsExamined
	s.NDeleted, s.KeysDeleted = done.Docs, done.KeysDeleted
	if done.Stats != nil { // else ranges went only
		s.ExecStats = command.StagedFunc(done.Stats)
	}
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
