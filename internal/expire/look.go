package expire

import (
	"context"
	"math"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// lookInterval is the time between two looks for what has come due.
	lookInterval = time.Second
	// lookShare bounds the part of the time that looking takes: with very many
	// rules it happens less often.
	lookShare = 100
)

// lookAt finds those of rules by which something has come due since they were last
// through, and visits those, until the next pass. Unlike the pass it does not
// count as one, and what was written with an instant that lay in the past
// already is left to it. It returns how long to wait before the next look.
func (m *Monitor) lookAt(ctx context.Context, rules []rule, until time.Time) (time.Duration, error) {
	if !m.params.Enabled.Load() || m.o.Dispatcher.Gate.Locks() > 0 || len(rules) == 0 {
		return lookInterval, nil
	}
	begun := time.Now()
	var work []rule
	for _, r := range rules {
		if err := m.raiseWatermark(ctx, r); err != nil {
			return lookInterval, err
		}
		if m.o.Dispatcher.TakesWrites() != nil {
			continue // what is hidden is so here, too
		}
		due, err := m.hasDue(ctx, r)
		if err != nil {
			return lookInterval, err
		}
		if due {
			work = append(work, r)
		}
	}
	wait := max(lookInterval, lookShare*time.Since(begun))
	for len(work) > 0 && time.Now().Before(until) {
		var err error
		if work, err = m.round(ctx, work, m.visitDue); err != nil {
			return wait, err
		}
	}
	return wait, nil
}

// raiseWatermark has the collection of a rule that hides know when its next document is
// due, where nothing is left that was.
func (m *Monitor) raiseWatermark(ctx context.Context, r rule) error {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil || c.Hiding() == nil {
		return nil
	}
	return m.o.Catalog.RaiseWatermark(c, func(r *catalog.Rule) (int64, error) {
		return m.o.Exec.FirstDue(ctx, c, r, math.MinInt64)
	})
}

// changed are the rules whose time to live is another than when they were looked
// at last.
func (m *Monitor) changed() (rs []rule) {
	for _, t := range m.o.Catalog.TTL() {
		r := rule{collection: t.Collection.UUID}
		seconds := t.Collection.Settings.ExpireAfterSeconds
		if t.Index != nil {
			r.index, seconds = t.Index.Name, t.Index.ExpireAfterSeconds
		}
		if k := m.tracks.known(r); k != nil && k.other(seconds) {
			rs = append(rs, r)
		}
	}
	return rs
}

// visitDue is visit for what has come due since the rule was last through.
func (m *Monitor) visitDue(ctx context.Context, r rule) (bool, error) {
	return m.visitAfter(ctx, r, func(k *track) int64 {
		k.Lock()
		defer k.Unlock()
		return k.cleared
	})
}

// hasDue says whether something has come due by a rule since it was last
// through, and notes for how long.
func (m *Monitor) hasDue(ctx context.Context, r rule) (bool, error) {
	c := m.o.Catalog.LookupUUID(r.collection)
	if c == nil {
		return false, nil
	}
	k := m.tracks.of(r)
	if c.IsTimeseries() {
		return m.hasDueBuckets(ctx, c, r, k)
	}
	in := ruleOf(c, r)
	if in == nil {
		return false, nil
	}
	k.follow(c, in, m.o.Catalog.Clock.Judged())
	now := c.WholeUntil(in, m.o.Catalog.Clock.Judged())
	k.Lock()
	since := k.cleared
	wanted := m.params.WakeWhenDue.Load() || k.Spent
	k.Unlock()
	due := int64(schema.Never)
	if len(in.RangesBetween(since, now)) > 0 {
		var err error
		if due, err = m.o.Exec.FirstDue(ctx, c, in, since); err != nil {
			return false, err
		}
	}
	k.late(due, now)
	return due <= now && wanted && !closed(in, now), nil
}

// Share is the part of the time that removal works, less than 1 where it gives
// way to the foreground.
func (m *Monitor) Share() float64 { return m.governor.Share() }

// Status is what the monitor knows of a rule of a collection: its index's name,
// "" for the collection's own expireAfterSeconds.
func (m *Monitor) Status(c *catalog.Collection, index string) Record {
	k := m.tracks.known(rule{c.UUID, index})
	if k == nil {
		return Record{}
	}
	return k.record()
}

// Each calls f for each rule that the monitor knows.
func (m *Monitor) Each(f func(ns, rule string, r Record)) {
	for _, r := range m.rules() {
		k := m.tracks.known(r)
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
