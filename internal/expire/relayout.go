package expire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Relayout changes a filled collection to windows of expiry, or back, while it is in
// use (docs/rfcs/0019-layouts.md). A pass that finds a filled collection without
// windows asks for it (asksRelayout); relays does it, one collection after another.

const (
	// relayEvery is how often the monitor checks for collections that no pass has
	// asked for: those that were interrupted, and those whose windows no longer serve
	// a rule.
	relayEvery = 10 * time.Second
	// relayBackAfter is how long windows have no rule before they are given up: whoever
	// drops a TTL index usually creates another one.
	relayBackAfter = 10 * time.Minute
	// relayAgainAfter is when a relayout that was killed or has failed continues, and
	// relayThinkAfter when it is considered again where it would gain nothing, or
	// could not begin. That is many passes, of which at most one waits for it.
	relayAgainAfter, relayThinkAfter = time.Minute, 10 * time.Minute
	// relayLeast is the least number of documents for which relayout is worthwhile.
	relayLeast = 1000
	// relayPartBytes is the size of a part: at most so much is on disk twice.
	relayPartBytes = 64 << 20
	// relayUnfreed is how many bytes of moved documents may still be on disk while
	// relayout continues, or one in relayUnfreedShare of the collection's bytes where
	// that is more. Usually it is one or two parts; a reader's snapshot keeps everything.
	relayUnfreed, relayUnfreedShare = 4 * relayPartBytes, 8
	// relaySpaceEvery is how often it checks again.
	relaySpaceEvery = time.Second
	// relayExpire and relayDue are shares of the documents, one in so many: the share
	// that must ever expire for relayout to begin, and the share that must be due for
	// passes to leave them to it.
	relayExpire, relayDue = 2, 4
)

// relays is the monitor's state of relayouts.
type relays struct {
	wake chan struct{} // capacity 1: a pass has asked
	// least, part and unfreed are relayLeast, relayPartBytes and relayUnfreed, except
	// in tests, which also pause after each step.
	least, part, unfreed int64
	rest                 atomic.Int64 // nanoseconds
	// docs is how many documents have moved since the start, and runs how many
	// relayouts have ended.
	docs, runs atomic.Int64

	mu    sync.Mutex
	asked map[catalog.UUID]bool
	after map[catalog.UUID]time.Time // not before
	idle  map[catalog.UUID]time.Time // since when windows have no rule
	now   relayProgress
}

// relayProgress is the progress of the running relayout.
type relayProgress struct {
	collection  catalog.UUID // zero: none
	ns          string
	leave       bool // passes leave what is due to it
	begun       time.Time
	done, total int64
}

func newRelays() *relays {
	return &relays{wake: make(chan struct{}, 1), least: relayLeast, part: relayPartBytes, unfreed: relayUnfreed, asked: map[catalog.UUID]bool{}, after: map[catalog.UUID]time.Time{}, idle: map[catalog.UUID]time.Time{}}
}

// left estimates how long the rest will take, from what has been done.
func (p *relayProgress) left() time.Duration {
	if p.done == 0 {
		return 0
	}
	return time.Duration(float64(time.Since(p.begun)) * float64(p.total-p.done) / float64(p.done)).Round(time.Second)
}

// mayRelay reports whether the layout of a collection may be changed here and now.
func (m *Monitor) mayRelay(c *catalog.Collection) bool {
	return m.relayOn(c) && m.o.Dispatcher.TakesWrites() == nil
}

// relayOn reports whether parameters and settings allow to change the layout of a
// collection.
func (m *Monitor) relayOn(c *catalog.Collection) bool {
	return m.params.Relayout.Load() && !m.o.Catalog.NoWindows.Load() && m.params.Enabled.Load() && m.params.BatchDeletes.Load() &&
		c.Settings.Expiry.Relayout != schema.RelayoutOff && len(c.Archiving()) == 0 // it removes what is due
}

// relayPermit allows documents to be moved while parameters and settings do.
func (m *Monitor) relayPermit() *catalog.Permit {
	return &catalog.Permit{Units: &m.units, InForce: m.relayOn}
}

// asksRelayout reports whether a pass leaves what is due by a rule to relayout, which it
// requests if it has not begun. hasDue is true if something is due.
func (m *Monitor) asksRelayout(c *catalog.Collection, r *catalog.Rule, k *ruleState) bool {
	if !m.mayRelay(c) || c.IsTimeseries() {
		return false
	}
	x := m.relays
	if in := c.RelayServes(); in != nil && in.Index.Name == r.Index.Name {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.now.collection == c.UUID && x.now.leave
	}
	if in := c.RelayRule(); in == nil || in.Index.Name != r.Index.Name || c.Count() < x.least || m.budgeted(c, r, k) {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Now().Before(x.after[c.UUID]) {
		return false
	}
	if s, err := m.o.Catalog.SampleRelay(c, r, m.o.Catalog.Clock.ExpiryTime()); err != nil || !worthRelaying(s) {
		x.after[c.UUID] = time.Now().Add(relayThinkAfter) // one by one until then
		return false
	}
	x.asked[c.UUID] = true
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return true
}

// worthRelaying reports whether enough documents expire at all for windows to pay.
func worthRelaying(s catalog.RelaySample) bool { return s.Expire*relayExpire >= s.Docs }

// budgeted reports whether a budget bounds removal by a rule: then documents are not
// removed as ranges.
func (m *Monitor) budgeted(c *catalog.Collection, r *catalog.Rule, k *ruleState) bool {
	docs, bytes := k.left(m.budgets(c, r.Own.Budget, k))
	return docs < unlimited || bytes < unlimited
}

// relayAll is the goroutine that changes layouts, until ctx ends.
func (m *Monitor) relayAll(ctx context.Context) {
	tick := time.NewTicker(relayEvery)
	defer tick.Stop()
	for { // at once at first: a relayout may have been interrupted
		m.relayDue(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-m.relays.wake:
		}
	}
}

// relayDue changes the layout of all collections for which it is due.
func (m *Monitor) relayDue(ctx context.Context) {
	if m.o.Dispatcher.Gate.Locks() > 0 {
		return
	}
	for _, db := range m.o.Catalog.Databases() {
		for _, c := range m.o.Catalog.Collections(db) {
			if ctx.Err() == nil && !c.IsTimeseries() && m.o.Dispatcher.MayWrite(db) == nil && m.mayRelay(c) && m.relays.due(c) {
				m.tryRelay(ctx, c)
			}
		}
	}
}

// due reports whether the relayout of a collection is due, or to be considered.
func (x *relays) due(c *catalog.Collection) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	if !c.WindowsIdle() {
		delete(x.idle, c.UUID)
	} else if x.idle[c.UUID].IsZero() {
		x.idle[c.UUID] = now
	}
	if now.Before(x.after[c.UUID]) {
		return false
	}
	return c.Relaying() || x.asked[c.UUID] || c.WindowsIdle() && now.Sub(x.idle[c.UUID]) >= relayBackAfter
}

// ended removes the request for a relayout, which is not tried again for some
// time.
func (x *relays) ended(c *catalog.Collection) {
	x.mu.Lock()
	defer x.mu.Unlock()
	again := relayThinkAfter
	if x.now.collection == c.UUID { // it had begun
		again = relayAgainAfter
	}
	delete(x.asked, c.UUID)
	x.now = relayProgress{}
	for id, at := range x.after { // of collections that may no longer exist
		if time.Since(at) > 0 {
			delete(x.after, id)
		}
	}
	x.after[c.UUID] = time.Now().Add(again)
}

// tryRelay changes the layout of one collection, as far as it gets, in a separate
// goroutine: see yield.
func (m *Monitor) tryRelay(ctx context.Context, c *catalog.Collection) {
	defer m.relays.ended(c)
	var err error
	var run sync.WaitGroup
	run.Go(func() { err = m.relay(ctx, c) })
	run.Wait()
	if err == nil || ctx.Err() != nil || mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.Interrupted, mongoerr.UserWritesBlocked) ||
		errors.Is(err, catalog.ErrRelayWaits) || errors.Is(err, catalog.ErrNoPermit) || m.o.Dispatcher.TakesWrites() != nil {
		return
	}
	m.o.Log.LogAttrs(ctx, slog.LevelWarn, "Error changing the layout of a collection", slog.String("c", "INDEX"), slog.Int("id", logRelayFailed),
		slog.String("namespace", c.Namespace.String()), slog.String("error", mongoerr.From(err).Message))
}

// relayRun is a running relayout.
type relayRun struct {
	m           *Monitor
	c           *catalog.Collection
	pass        *gatePass
	op          *command.Background
	v           *removal // counts what is removed; nil if nothing may be
	moved, gone int64
	end         func() // ends what yield began, nil if it did not
}

// relay changes the layout of a collection, from where the last attempt ended.
func (m *Monitor) relay(ctx context.Context, c *catalog.Collection) error {
	pass, err := m.enter(ctx, c.Namespace.DB)
	if err != nil {
		return err
	}
	defer pass.leave()
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &relayRun{m: m, c: c, pass: pass}
	if going, err := x.begin(work); err != nil || !going {
		return err
	}
	x.op = m.o.Dispatcher.BeginBackground(client, command.KindCommand, c.Namespace.String(), new(bson.Builder).String("relayout", c.Namespace.Coll).Finish(), cancel)
	defer x.op.End()
	defer func() {
		if x.end != nil {
			x.end()
		}
	}()
	begun := time.Now()
	if err := x.parts(work); err != nil {
		if cause := context.Cause(work); cause != nil {
			err = cause
		}
		return err
	}
	m.relays.runs.Add(1)
	x.noteVisit(begun)
	windows := false
	if now := c.Latest(); now != nil {
		windows = now.Windowed()
	}
	m.say(ctx, slog.LevelInfo, logRelaid, "changed the layout of a collection", slog.String("namespace", c.Namespace.String()),
		slog.Bool("windows", windows), slog.Int64("moved", x.moved), slog.Int64("numDeleted", x.gone), slog.String("duration", time.Since(begun).String()))
	return nil
}

// begin begins a relayout that has not begun, if it is worthwhile; going says that
// there is something to do.
func (x *relayRun) begin(ctx context.Context) (going bool, err error) {
	m, c := x.m, x.c.Latest()
	if c == nil {
		return false, nil
	}
	leave := false
	if r := c.RelayServes(); r != nil || !c.Relaying() && !c.WindowsIdle() {
		if !c.Relaying() {
			r = c.RelayRule()
		}
		if r == nil {
			return false, nil
		}
		s, err := m.o.Catalog.SampleRelay(c, r, m.o.Catalog.Clock.ExpiryTime())
		if err != nil {
			return false, err
		}
		if !c.Relaying() && !worthRelaying(s) {
			return false, nil
		}
		leave = s.Due*relayDue >= s.Docs
		if !c.Relaying() {
			err = m.o.Catalog.BeginRelay(ctx, c, r, m.relayPermit())
		}
		if err != nil {
			return false, err
		}
	} else if !c.Relaying() {
		if _, err := m.o.Catalog.Sweep(ctx, c, x.pause(ctx)); err != nil {
			return false, err
		}
		if err := m.o.Catalog.BeginRelay(ctx, c, nil, m.relayPermit()); err != nil {
			return false, err
		}
	}
	if x.c = c.Latest(); x.c == nil || !x.c.Relaying() {
		return false, nil
	}
	total, err := m.o.Catalog.RelayLeft(x.c)
	m.relays.mu.Lock()
	m.relays.now = relayProgress{collection: x.c.UUID, ns: x.c.Namespace.String(), leave: leave, begun: time.Now(), total: total}
	m.relays.mu.Unlock()
	m.say(ctx, slog.LevelInfo, logRelays, "changing the layout of a collection", slog.String("namespace", x.c.Namespace.String()), slog.Int64("documents", total))
	return true, err
}

// noteVisit counts the relayout as a visit of the rule by which it has removed
// documents.
func (x *relayRun) noteVisit(begun time.Time) {
	if x.gone == 0 || x.v == nil {
		return
	}
	k := x.v.k
	k.Lock()
	defer k.Unlock()
	k.Last = Visit{At: begun, Took: time.Since(begun), Removed: x.v.gone}
}

// relayCost is how many times its own time a step of a relayout takes of the processors:
// what it writes is flushed and compacted after it.
const relayCost = 4

// pause is called after each step.
func (x *relayRun) pause(ctx context.Context) func(time.Duration) error {
	return func(took time.Duration) error { return x.pass.pause(ctx, x.m.governor.worked(took)) }
}

// parts goes through the half that documents leave until none is left there.
func (x *relayRun) parts(ctx context.Context) error {
	var from catalog.RecordKey
	for {
		if x.c = x.c.Latest(); x.c == nil || !x.c.Relaying() || !x.m.mayRelay(x.c) {
			return catalog.ErrRelayWaits
		}
		if waits, err := x.awaitSpace(ctx, from); err != nil {
			return err
		} else if waits {
			continue
		}
		o := catalog.Relay{From: from, Bytes: int(x.m.relays.part), Permit: x.m.relayPermit(),
			Alone: func() bool { return !x.m.governor.Busy() },
			Did:   func(s catalog.RelayStep, took time.Duration) error { return x.did(ctx, s, took) }}
		x.judge(ctx, &o)
		next, end, err := x.m.o.Catalog.RelayPart(ctx, x.c, o)
		switch {
		case errors.Is(err, catalog.ErrNoPermit):
			continue // by what holds now
		case err != nil:
			return err
		case !end:
			from = next
			continue
		}
		done, err := x.m.o.Catalog.EndRelay(ctx, x.c, x.pause(ctx))
		if err != nil || done {
			return err
		}
		from = nil
	}
}

// awaitSpace waits a while where disk space is short: until the space of the documents
// up to a place, which have moved, is freed, or there is space for the next ones.
func (x *relayRun) awaitSpace(ctx context.Context, upTo catalog.RecordKey) (waits bool, err error) {
	unfreed, err := x.m.o.Catalog.RelayUnfreed(x.c, upTo)
	if err != nil {
		return false, err
	}
	if unfreed <= max(x.m.relays.unfreed, x.c.DataSize()/relayUnfreedShare) && x.m.o.Catalog.Engine().Spare(2*relayPartBytes) {
		return false, nil
	}
	x.tell(func(*relayProgress) string {
		return fmt.Sprintf("Relayout: waiting for disk space, %d MB are not freed yet", unfreed>>20)
	})
	return true, x.pass.pause(ctx, relaySpaceEvery)
}

// tell reports the progress in currentOp.
func (x *relayRun) tell(text func(*relayProgress) string) {
	r := x.m.relays
	r.mu.Lock()
	p := command.Progress{Message: text(&r.now), Done: r.now.done, Total: r.now.total}
	r.mu.Unlock()
	x.op.Op().SetProgress(p)
}

// judge makes due documents stay behind, where their rule may remove them.
func (x *relayRun) judge(ctx context.Context, o *catalog.Relay) {
	m, r := x.m, x.c.RelayServes()
	if x.v = nil; r == nil {
		return
	}
	of := rule{x.c.UUID, r.Index.Name}
	k := m.states.of(of)
	limits := m.limits.Load()
	if m.budgeted(x.c, r, k) {
		return
	}
	by := m.documents(ctx, x.c, of, k, false, func(*ruleState) int64 { return math.MinInt64 })
	if by == nil {
		return // paused, or its window of time is closed
	}
	d := by.(*documentRemover)
	x.v = &removal{m: m, c: x.c, r: of, k: k, by: by, pass: x.pass, op: x.op, begunAt: limits, batched: true}
	x.v.budgets = m.budgets(x.c, r.Own.Budget, k)
	o.Rule, o.Now, o.Drops = d.Rule, d.Now, x.v.permit().InForce
}

// did counts a step, reports it, and yields to clients.
func (x *relayRun) did(ctx context.Context, s catalog.RelayStep, took time.Duration) error {
	m := x.m
	m.relays.docs.Add(s.Moved)
	x.moved += s.Moved
	x.gone += s.Gone.Docs
	if s.Gone.Docs > 0 {
		x.v.bookRange(s.Gone, took)
	}
	x.tell(func(p *relayProgress) string {
		p.done += s.Passed
		p.total = max(p.total, p.done)
		return fmt.Sprintf("Relayout: moving documents, %s left", p.left())
	})
	if !m.o.Guest && x.end == nil && m.governor.Busy() {
		x.end = yield()
	}
	return x.pass.pause(ctx, max(time.Duration(m.relays.rest.Load()), m.governor.worked(relayCost*took)))
}

// Relayouts writes the section relayout of serverStatus.
func (m *Monitor) Relayouts() bson.Doc {
	x := m.relays
	x.mu.Lock()
	defer x.mu.Unlock()
	running := x.now.collection != catalog.UUID{}
	var b bson.Builder
	b.Bool("running", running).Int64("documentsMoved", x.docs.Load()).Int64("collections", x.runs.Load())
	if running {
		b.String("ns", x.now.ns)
		x.now.append(&b)
	}
	return b.Finish()
}

// append writes the progress.
func (p *relayProgress) append(b *bson.Builder) {
	b.Int64("documents", p.done).Int64("of", p.total).Int64("secondsLeft", int64(p.left().Seconds()))
}

// appendRelayout writes the progress of a collection's relayout, for the report on
// its rules.
func (m *Monitor) appendRelayout(b *bson.Builder, c *catalog.Collection) {
	if !c.Relaying() {
		return
	}
	x := m.relays
	x.mu.Lock()
	p := x.now
	x.mu.Unlock()
	b.OpenDoc("relayout")
	switch {
	case p.collection == c.UUID:
		b.String("state", "running")
		p.append(b)
	case !m.mayRelay(c):
		b.String("state", "off")
	default:
		b.String("state", "waits")
	}
	b.Close()
}
