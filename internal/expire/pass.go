package expire

import (
	"context"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// rule names one thing that expires documents: an index of a collection, or
// its own expireAfterSeconds where index is empty.
type rule struct {
	collection catalog.UUID
	index      string
}

// place is where the last visit of a rule ended, in the keyspace of its index.
type place struct {
	in    storage.Ident
	entry []byte
}

// pass repeats sub-passes until nothing is left that was due. An interrupt
// ends it early and uncounted.
func (m *Monitor) pass(ctx context.Context) error {
	m.say(ctx, levelDebug3, logStarting, "thread awake")
	m.places = map[rule]place{}
	for {
		more, err := m.subPass(ctx)
		if err != nil {
			return err
		}
		if !more {
			m.Stats.Passes.Add(1)
			return nil
		}
	}
}

// subPass visits every rule once, and those that hit a limit again and again
// until ttlMonitorSubPassTargetSecs are over. It returns whether a rule still
// has work.
func (m *Monitor) subPass(ctx context.Context) (more bool, err error) {
	begun := time.Now()
	work := m.rules()
	all := work
	for len(work) > 0 {
		var again []rule
		for _, r := range work {
			hit, err := m.visit(ctx, r)
			if err != nil {
				return false, err
			}
			if hit {
				again = append(again, r)
			}
		}
		work = again
		if time.Since(begun) >= time.Duration(m.params.SubPassSecs.Load())*time.Second {
			break
		}
	}
	m.Stats.SubPasses.Add(1)
	m.note(all, work)
	return len(work) > 0, nil
}

// note counts, for each rule, the sub-passes in a row that did not exhaust it;
// at the limit the server would raise the priority of its deletes, and counts
// that.
func (m *Monitor) note(all, left []rule) {
	open := make(map[rule]bool, len(left))
	for _, r := range left {
		open[r] = true
	}
	for _, r := range all {
		if !open[r] {
			delete(m.unexhausted, r)
			continue
		}
		m.unexhausted[r]++
		if m.unexhausted[r] == m.params.LowPriority.Load()+1 {
			m.Stats.PriorityIncreases.Add(1)
		}
	}
}

// rules lists what may expire documents now.
func (m *Monitor) rules() []rule {
	var rs []rule
	for _, t := range m.o.Catalog.TTL() {
		r := rule{collection: t.Collection.UUID}
		if t.Index != nil {
			r.index = t.Index.Name
		}
		rs = append(rs, r)
	}
	return rs
}

// visit removes what is due by one rule, within the limits, and says whether
// it stopped at one. A failure of the visit is logged and not returned; what
// is returned ends the pass.
func (m *Monitor) visit(ctx context.Context, r rule) (hit bool, err error) {
	gate := &m.o.Dispatcher.Gate
	if err := gate.Enter(ctx); err != nil {
		return false, err
	}
	defer gate.Leave()
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil {
		return false, nil
	}
	d, ok := m.deletion(ctx, c, r)
	if !ok {
		return false, nil
	}
	m.say(ctx, slog.LevelDebug, logVisit, "running TTL job for index", slog.String("namespace", c.Namespace.String()), slog.String("index", r.index))
	d.Progress = func(b exec.Batch) {
		m.Stats.Deleted.Add(b.Docs)
		if !d.Single {
			m.Stats.batch(b)
		}
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	op := m.o.Dispatcher.BeginBackground("TTLMonitor", command.KindRemove, c.Namespace.String(), d.Statement(), cancel)
	defer op.End()
	op.Op().SetPlanSummary(d.Summary())
	if p := m.places[r]; p.in == d.Rule.Index.Ident {
		d.After = p.entry
	}
	begun := time.Now()
	done, err := m.o.Exec.DeleteExpired(work, c, d)
	m.report(ctx, op, c, r, done, time.Since(begun), err)
	switch {
	case err == nil:
		m.places[r] = place{d.Rule.Index.Ident, done.Place}
		return done.More, nil
	case isInterrupt(ctx, err):
		return false, err
	case !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled):
		m.logError(ctx, c, r, err)
	}
	return false, nil
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

// deletion is what a visit of r removes now, or false where the rule is gone,
// switched off, or cannot work.
func (m *Monitor) deletion(ctx context.Context, c *catalog.Collection, r rule) (*exec.BatchedDelete, bool) {
	d := &exec.BatchedDelete{Rule: ruleOf(c, r), Now: m.o.Catalog.Clock.Judged()}
	if d.Rule == nil {
		m.skipSpecial(ctx, c, r)
		return nil, false
	}
	if d.Rule.Settings.Paused || len(d.Rule.DueRanges(d.Now)) == 0 {
		return nil, false
	}
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

func (m *Monitor) logError(ctx context.Context, c *catalog.Collection, r rule, err error) {
	e := mongoerr.From(err)
	m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error running TTL job on collection", slog.String("c", "INDEX"), slog.Int("id", logError),
		slog.Group("error", slog.Int("code", int(e.Code)), slog.String("codeName", e.Code.String()), slog.String("errmsg", e.Message)),
		slog.String("namespace", c.Namespace.String()), slog.String("index", r.index))
}
