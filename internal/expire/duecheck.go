package expire

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/expire/forecast"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// dueCheckInterval is the time between two due checks.
	dueCheckInterval = time.Second
	// dueCheckShare bounds the share of time that due checks take, as a divisor: with
	// very many rules they happen less often.
	dueCheckShare = 100
)

// checkDue is a due check: it finds the rules by which something has come due since
// their last complete visit, and visits them, until the next pass. It does not count as
// a pass, and leaves to the pass what was written with an instant already in the past.
// It returns how long to wait before the next due check.
func (m *Monitor) checkDue(ctx context.Context, rules []rule, until time.Time) (time.Duration, error) {
	work, wait, err := m.findDue(ctx, rules)
	for err == nil && len(work) > 0 && time.Now().Before(until) {
		work, err = m.round(ctx, work, m.visitDue)
	}
	return wait, err
}

// checkBetween is a due check in a pass, between its visits of the rules in work, which may be
// long: it visits the others once.
func (m *Monitor) checkBetween(ctx context.Context, rules, work []rule) (time.Duration, error) {
	due, wait, err := m.findDue(ctx, rules)
	due = slices.DeleteFunc(due, func(r rule) bool { return slices.Contains(work, r) })
	if err == nil && len(due) > 0 {
		_, err = m.round(ctx, due, m.visitDue)
	}
	return wait, err
}

// findDue returns the rules by which something has come due since their last complete visit, and
// how long to wait before it is asked again. It notes for how long that has been due.
func (m *Monitor) findDue(ctx context.Context, rules []rule) (work []rule, wait time.Duration, err error) {
	if !m.params.Enabled.Load() || m.o.Dispatcher.Gate.Locks() > 0 {
		return nil, dueCheckInterval, nil
	}
	begun := time.Now()
	for _, r := range rules {
		if err := m.raiseWatermark(ctx, r); err != nil {
			return nil, dueCheckInterval, err
		}
		if m.o.Dispatcher.TakesWrites() != nil {
			continue // but documents are hidden here, too
		}
		if c := m.o.Catalog.LookupUUID(r.collection); c != nil && m.o.Dispatcher.MayWrite(c.Namespace.DB) != nil {
			continue
		}
		due, err := m.hasDue(ctx, r)
		if err != nil {
			return nil, dueCheckInterval, err
		}
		if due {
			work = append(work, r)
		}
	}
	return work, max(dueCheckInterval, dueCheckShare*time.Since(begun)), nil
}

// raiseWatermark raises the expiry watermark of a collection that hides expired
// documents, once nothing due is left.
func (m *Monitor) raiseWatermark(ctx context.Context, r rule) error {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil || c.Hiding() == nil {
		return nil
	}
	return m.o.Catalog.RaiseWatermark(c, func(r *catalog.Rule) (int64, error) {
		return forecast.FirstDue(ctx, m.o.Exec, c, r, math.MinInt64)
	})
}

// changed returns the rules whose time to live has changed since the last due
// check.
func (m *Monitor) changed() (rs []rule) {
	for _, t := range m.o.Catalog.TTL() {
		r := rule{collection: t.Collection.UUID}
		seconds := t.Collection.Settings.ExpireAfterSeconds
		if t.Index != nil {
			r.index, seconds = t.Index.Name, t.Index.ExpireAfterSeconds
		}
		if k := m.states.known(r); k != nil && k.other(seconds) {
			rs = append(rs, r)
		}
	}
	return rs
}

// visitDue is visit for what has come due since the rule's last complete visit.
func (m *Monitor) visitDue(ctx context.Context, r rule) (bool, error) {
	return m.visitAfter(ctx, r, false, func(k *ruleState) int64 {
		k.Lock()
		defer k.Unlock()
		return k.cleared
	})
}

// hasDue reports whether something has come due by a rule since its last complete visit,
// and notes for how long.
func (m *Monitor) hasDue(ctx context.Context, r rule) (bool, error) {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil {
		return false, nil
	}
	k := m.states.of(r)
	if c.IsTimeseries() {
		return m.hasDueBuckets(ctx, c, r, k)
	}
	in := ruleOf(c, r)
	if in == nil {
		return false, nil
	}
	k.follow(c, in, m.o.Catalog.Clock.ExpiryTime())
	now := c.WholeUntil(in, m.o.Catalog.Clock.ExpiryTime())
	k.Lock()
	since := k.cleared
	wanted := m.params.WakeWhenDue.Load() || k.Spent
	k.Unlock()
	due := int64(schema.Never)
	if len(in.RangesBetween(since, now)) > 0 {
		var err error
		if due, err = forecast.FirstDue(ctx, m.o.Exec, c, in, since); err != nil {
			return false, err
		}
	}
	k.late(due, now)
	return due <= now && wanted && !m.closed(in.Rule), nil
}

// Share returns the share of time in which removal runs: less than 1 while it
// yields to the foreground.
func (m *Monitor) Share() float64 { return m.governor.Share() }

// Status returns what the monitor knows of a rule of a collection, by the name
// of its index; "" for the collection's own expireAfterSeconds.
func (m *Monitor) Status(c *catalog.Collection, index string) Record {
	k := m.states.known(rule{c.UUID, index})
	if k == nil {
		return Record{}
	}
	return k.record()
}

// Each calls f for each rule known to the monitor.
func (m *Monitor) Each(f func(ns, rule string, r Record)) {
	for _, r := range m.rules() {
		k := m.states.known(r)
		if k == nil {
			continue
		}
		rec := k.record()
		k.Lock()
		ns := k.ns
		k.Unlock()
		if ns != "" {
			f(ns, ruleName(r), rec)
		}
	}
}
