package repl

import (
	"context"
	"errors"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ticks converts a duration into ticks of the group.
func (m *Member) ticks(d time.Duration) uint64 {
	tick := defaultElection / electionTicks
	if c := m.replica.State().Config; c != nil {
		tick = c.Election / electionTicks
	}
	return uint64((d + tick - 1) / tick)
}

// handoverRetry is how long a member that steps down waits before it checks
// again whether another one can take over.
const handoverRetry = 50 * time.Millisecond

// StepDown makes the primary step down, and not stand for election for a period.
// Another electable member has the time catchUp to catch up and take over; where none
// does, force makes this one step down all the same. Errors: 10107, 262.
func (m *Member) StepDown(ctx context.Context, period, catchUp time.Duration, force bool) error {
	if err := m.Writable(); err != nil {
		return err
	}
	begun := m.replica.State().Term
	deposed := func(s *State) bool { return !s.Primary || s.Term != begun }
	end := time.Now().Add(catchUp)
	for {
		err := m.replica.Do(ctx, func(g *Group) error { return g.StepDown(m.ticks(period)) })
		if deposed(m.replica.State()) {
			return nil
		}
		if err != nil && !mongoerr.Is(err, mongoerr.ExceededTimeLimit) {
			return err
		}
		if err != nil && !time.Now().Before(end) {
			if !force {
				return err
			}
			err = m.replica.Do(ctx, func(g *Group) error { return g.ForceStepDown(m.ticks(period)) })
			if err != nil && !errors.Is(err, ErrNotPrimary) {
				return err
			}
			return m.until(ctx, deposed)
		}
		wait := handoverRetry
		if err == nil {
			wait = m.replica.State().Config.Election // a transfer that has not ended by then never will
		}
		limited, cancel := context.WithTimeout(ctx, wait)
		err = m.until(limited, deposed)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// StepUp makes the member stand for election, and returns when it accepts writes. Errors:
// 125 if it may not, or was not elected.
func (m *Member) StepUp(ctx context.Context) error {
	if err := m.replica.Do(ctx, (*Group).StepUp); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*m.election())
	defer cancel()
	err := m.until(limited, func(s *State) bool { return s.Writable })
	if err != nil && ctx.Err() == nil {
		return mongoerr.New(mongoerr.CommandFailed, "Election failed.")
	}
	return err
}

func (m *Member) election() time.Duration {
	if c := m.replica.State().Config; c != nil {
		return c.Election
	}
	return defaultElection
}

// Freeze keeps the member from standing for election for a time; 0 ends that.
func (m *Member) Freeze(ctx context.Context, d time.Duration) error {
	return m.replica.Do(ctx, func(g *Group) error {
		g.Freeze(m.ticks(d))
		return nil
	})
}

// Maintenance begins or ends maintenance mode, in which the member serves no clients
// and keeps following the set. It must be ended as often as it was begun. Errors: 95 on
// a primary, 96 if it has not begun.
func (m *Member) Maintenance(on bool) error {
	if m.replica.State().Role == Leader {
		return mongoerr.New(mongoerr.NotSecondary, "primaries can't modify maintenance mode")
	}
	for {
		n := m.maintenance.Load()
		to := n + 1
		if !on {
			to = n - 1
		}
		if to < 0 {
			return mongoerr.New(mongoerr.OperationFailed, "already out of maintenance mode")
		}
		if m.maintenance.CompareAndSwap(n, to) {
			m.tell()
			return nil
		}
	}
}
