package expire

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// pass repeats sub-passes until nothing is left that was due. An interrupt
// ends it early and uncounted. Rules that archive are left to archivers (archivers.go).
func (m *Monitor) pass(ctx context.Context) error {
	m.say(ctx, levelDebug3, logStarting, "thread awake")
	begun := time.Now()
	rules := m.rules()
	m.states.keep(rules)
	for _, r := range rules {
		if m.archivePlace(r) == nil {
			m.states.of(r).forgetPlace()
		}
	}
	for {
		more, err := m.subPass(ctx)
		if err != nil {
			return err
		}
		if !more {
			m.Stats.Passes.Add(1)
			m.tell(ctx, time.Since(begun))
			return nil
		}
	}
}

// RemoveDue removes what is due by a pass, before the monitor is started: nobody uses the data
// yet.
func (m *Monitor) RemoveDue(ctx context.Context) error { return m.pass(ctx) }

// subPass visits every rule once, and those that hit a limit again and again
// until ttlMonitorSubPassTargetSecs have passed, with due checks of the others in between. It
// returns whether a rule still has work.
func (m *Monitor) subPass(ctx context.Context) (more bool, err error) {
	begun := time.Now()
	work := slices.DeleteFunc(m.rules(), func(r rule) bool { return m.archivePlace(r) != nil })
	all := work
	checked, wait := begun, dueCheckInterval
	for len(work) > 0 {
		if work, err = m.round(ctx, work, m.visit); err != nil {
			return false, err
		}
		if time.Since(begun) >= time.Duration(m.params.SubPassSecs.Load())*time.Second {
			break
		}
		if len(work) > 0 && time.Since(checked) >= wait {
			if wait, err = m.checkBetween(ctx, all, work); err != nil {
				return false, err
			}
			checked = time.Now()
		}
	}
	m.Stats.SubPasses.Add(1)
	m.note(all, work)
	return len(work) > 0, nil
}

// round visits rules, several collections at once but those of one collection
// in their order, and returns those that hit a limit.
func (m *Monitor) round(ctx context.Context, work []rule, visit func(context.Context, rule) (bool, error)) (again []rule, err error) {
	var groups [][]int // the indexes in work of each collection's rules
	at := map[catalog.UUID]int{}
	for i, r := range work {
		g, ok := at[r.collection]
		if !ok {
			g = len(groups)
			groups, at[r.collection] = append(groups, nil), g
		}
		groups[g] = append(groups[g], i)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hit := make([]bool, len(work))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(len(groups), int(m.params.Concurrency.Load())) {
		workers.Go(func() {
			for g := next.Add(1) - 1; g < int64(len(groups)) && ctx.Err() == nil; g = next.Add(1) - 1 {
				for _, i := range groups[g] {
					var err error
					if hit[i], err = visit(ctx, work[i]); err != nil {
						cancel(err)
						return
					}
				}
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for i, r := range work {
		if hit[i] {
			again = append(again, r)
		}
	}
	return again, nil
}

// note counts, for each rule, the sub-passes in a row that did not exhaust it;
// at the limit mongod would raise the priority of its deletes, and count that.
func (m *Monitor) note(all, left []rule) {
	open := make(map[rule]bool, len(left))
	for _, r := range left {
		open[r] = true
	}
	for _, r := range all {
		k := m.states.of(r)
		k.Lock()
		k.unspent++
		if !open[r] {
			k.unspent = 0
		}
		if k.unspent == m.params.LowPriority.Load()+1 {
			m.Stats.PriorityIncreases.Add(1)
		}
		k.Unlock()
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

// tell logs what was removed since the last pass, by this one and by visits in
// between, if anything.
func (m *Monitor) tell(ctx context.Context, took time.Duration) {
	var sum Removed
	var rules []any
	for _, r := range m.rules() {
		k := m.states.of(r)
		k.Lock()
		gone := k.pass
		k.pass = Removed{}
		ns := k.ns
		k.Unlock()
		if gone.Documents == 0 {
			continue
		}
		if a := m.o.Dispatcher.Audit; a != nil {
			a.Keep(nil, "expire", new(bson.Builder).String("ns", ns).String("rule", ruleName(r)).Int64("documents", gone.Documents).Int64("bytes", gone.Bytes).Finish())
		}
		sum.add(gone)
		if len(rules) < maxTold {
			rules = append(rules, slog.Int64(ns+" "+ruleName(r), gone.Documents))
		}
	}
	if sum.Documents == 0 {
		return
	}
	m.o.Log.LogAttrs(ctx, slog.LevelInfo, "TTL pass removed expired documents", slog.String("c", "INDEX"), slog.Int("id", logRemoved),
		slog.Int64("numDeleted", sum.Documents), slog.Int64("bytesDeleted", sum.Bytes), slog.Int64("numKeysDeleted", sum.Keys),
		slog.Group("byRule", rules...), slog.String("duration", took.String()))
}

// maxTold bounds the rules that a log line names.
const maxTold = 20

func ruleName(r rule) string {
	if r.index == "" {
		return "_id"
	}
	return r.index
}
