package expire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// remover removes what is due by a rule: documents (documents.go), or the buckets of a
// time-series collection (buckets.go).
type remover interface {
	rule() *schema.Rule
	// find returns the rule in another descriptor of the collection, or nil.
	find(*catalog.Collection) *schema.Rule
	limits() *Limits
	// statement and summary are what currentOp and the profiler show.
	statement() bson.Doc
	summary() string
	// ranges removes what needs no write for each document. budgeted says that a
	// budget bounds how much may be removed.
	ranges(ctx context.Context, v *removal, budgeted bool) (catalog.Dropped, error)
	// singly removes the rest, within the limits.
	singly(ctx context.Context, v *removal) (Visited, error)
	// ended notes up to where nothing is left. The lock of the rule's state is held.
	ended(k *ruleState, done Visited)
}

// removal is a running visit.
type removal struct {
	m       *Monitor
	c       *catalog.Collection
	r       rule
	k       *ruleState
	by      remover
	pass    *gatePass
	budgets []*budget
	op      *command.Background
	begunAt int64 // the monitor's limits when the visit began
	batched bool  // counted in batchedDeletes
	gone    Removed
	yielded func() // ends what yield began, nil if it did not
}

// remove visits a rule with its remover. It returns whether the visit stopped at a
// limit. Ranges go first, then the rest by its index, whose order is that of the
// instants (invariant oldest-first).
func (v *removal) remove(ctx context.Context) (hit bool, err error) {
	m, limits := v.m, v.by.limits()
	v.budgets = m.budgets(v.c, v.by.rule().Own.Budget, v.k)
	docs, spent := v.allow(limits)
	if spent {
		return false, nil
	}
	m.say(ctx, slog.LevelDebug, logVisit, "running TTL job for index", slog.String("namespace", v.c.Namespace.String()), slog.String("index", v.r.index))
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.op = m.o.Dispatcher.BeginBackground(client, command.KindRemove, v.c.Namespace.String(), v.by.statement(), cancel)
	defer v.op.End()
	v.op.Op().SetPlanSummary(v.by.summary())
	defer v.ended()
	limits.Permit = v.permit()
	limits.Progress = func(b Batch) error {
		v.book(b)
		v.giveWay()
		return v.pass.pause(work, m.governor.worked(b.Time))
	}
	begun := time.Now()
	dropped, err := v.by.ranges(work, v, docs < unlimited || limits.MaxBytes > 0)
	if err != nil && !isInterrupt(ctx, err) && !errors.Is(err, catalog.ErrNoPermit) && !mongoerr.Is(err, mongoerr.UserWritesBlocked) && m.o.Dispatcher.TakesWrites() == nil {
		m.logError(ctx, v.c, v.r, err) // the rest can be removed one by one
		err = nil
	}
	var done Visited
	if err == nil {
		done, err = v.by.singly(work, v)
	}
	spent = done.More && done.Docs >= docs
	done.Docs += dropped.Docs
	done.Bytes += dropped.Bytes
	done.KeysDeleted += dropped.Keys
	done.More = done.More || dropped.More
	took := time.Since(begun)
	m.report(ctx, v.op, v.c, v.r, done, took, err)
	switch {
	case err == nil:
		v.k.Lock()
		defer v.k.Unlock()
		v.by.ended(v.k, done)
		v.k.Spent = spent
		v.k.Last = Visit{begun, took, v.gone, done.More}
		return done.More && !spent, nil
	case errors.Is(err, catalog.ErrNoPermit):
		return true, nil // the next visit uses the rule as it is now
	case isInterrupt(ctx, err):
		return false, err
	case m.o.Dispatcher.TakesWrites() != nil:
		return false, err // another member continues
	case !mongoerr.Is(err, mongoerr.NamespaceNotFound, mongoerr.QueryPlanKilled):
		m.logError(ctx, v.c, v.r, err)
		m.fail(err)
	}
	return false, nil
}

// budgets returns those that a visit must keep within.
func (m *Monitor) budgets(c *catalog.Collection, own schema.Budget, k *ruleState) []*budget {
	return m.states.budgets(c, own, k, m.params.budget(), m.o.Shares != nil && c.Sharding() != nil)
}

// permit lets the visit continue while its rule and the limits are unchanged, and the rule's
// window is open: any change ends it, and the next visit begins with the new ones (invariant
// brake).
func (v *removal) permit() *catalog.Permit {
	was := v.by.rule()
	return &catalog.Permit{Units: &v.m.units, InForce: func(latest *catalog.Collection) bool {
		if v.m.limits.Load() != v.begunAt || latest == nil || v.m.shut(was) {
			return false
		}
		return latest == v.c || sameArchiving(latest, v.c) && latest.Settings.Expiry.Budget == v.c.Settings.Expiry.Budget && v.by.find(latest).Same(was)
	}}
}

// sameArchiving reports whether the same rules archive, and where: what they let expire no other
// rule removes.
func sameArchiving(a, b *catalog.Collection) bool {
	return slices.EqualFunc(a.Archiving(), b.Archiving(), func(x, y *catalog.Rule) bool { return x.Same(y.Rule) })
}

// giveWay makes the rest of a visit yield to clients, where there are any.
func (v *removal) giveWay() {
	if !v.m.o.Guest && v.yielded == nil && v.m.governor.Busy() {
		v.yielded = yield()
	}
}

func (v *removal) ended() {
	if v.yielded != nil {
		v.yielded()
	}
}

// book counts what was removed, and reports it: where the number of batches is
// not given, by batches of the usual size.
func (v *removal) book(b Batch) {
	if n := v.m.params.BatchDocs.Load(); b.Batches == 0 {
		b.Batches = 1
		if n > 0 {
			b.Batches = (b.Docs + n - 1) / n
		}
	}
	v.m.Stats.Deleted.Add(b.Docs)
	if v.batched {
		v.m.Stats.batch(b)
	}
	v.k.book(b)
	for _, of := range v.budgets {
		of.take(b.Docs, b.Bytes)
	}
	v.gone.add(removedBy(b))
	text := fmt.Sprintf("TTL: removed %d documents by %s", v.gone.Documents, ruleName(v.r))
	if v.gone.Buckets > 0 {
		text = fmt.Sprintf("TTL: removed %d documents in %d buckets by %s", v.gone.Documents, v.gone.Buckets, ruleName(v.r))
	}
	v.op.Op().SetProgress(command.Progress{Message: text})
}

// bookRange counts what was removed as a range.
func (v *removal) bookRange(gone catalog.Dropped, took time.Duration) {
	v.book(Batch{Docs: gone.Docs, Bytes: gone.Bytes, KeysDeleted: gone.Keys, Measurements: gone.Measurements, Time: took})
}

// sweeping is called after each step of a sweep.
func (v *removal) sweeping(ctx context.Context) func(time.Duration) error {
	return func(took time.Duration) error { return v.pass.pause(ctx, v.m.governor.worked(took)) }
}

// resting is called after each unit that removes a range, and while its documents are listed,
// outside of gates and units: a
// brake or fsyncLock need not wait for the pause. It does not make the visit yield: a unit
// closes the collection's gate, and a thread of lower priority would keep it closed for
// long where others want the processors.
func (v *removal) resting(ctx context.Context) func(time.Duration) error {
	return func(took time.Duration) error {
		return v.pass.pause(ctx, v.m.governor.ranged(took))
	}
}

// allow lowers the limits of a visit to what budgets leave. docs is the most
// documents that allows; spent says that it is none.
func (v *removal) allow(limits *Limits) (docs int64, spent bool) {
	docs, bytes := v.k.left(v.budgets)
	if docs == 0 {
		return 0, true
	}
	if docs < unlimited && (limits.MaxDocs == 0 || docs < limits.MaxDocs) {
		limits.MaxDocs = docs
	}
	if bytes < unlimited {
		limits.MaxBytes = bytes
	}
	return docs, false
}
