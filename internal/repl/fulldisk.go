package repl

import (
	"context"
	"time"
)

const (
	// diskEvery is the interval at which a member checks whether its disk is full, and
	// fullChecks the number of consecutive full checks before a primary hands over.
	diskEvery  = time.Second
	fullChecks = 2
	// fullPeriod is how long a primary that has handed over because of a full disk does
	// not stand for election.
	fullPeriod = 10 * time.Second
)

// watchDisk is the goroutine that checks whether the disk is full, so that writes fail
// (14031): a primary hands over to a member that has caught up and has room, and never to
// one without room. If no member has room, the primary stays: it serves reads, and
// accepts deletions.
func (m *Member) watchDisk(ctx context.Context) {
	checks := 0
	for tick := time.NewTicker(diskEvery); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			return
		}
		full := m.store.room() <= 0
		m.replica.tryPost(func(g *Group) { g.full = full })
		if checks++; !full {
			checks = 0
		}
		if checks < fullChecks || m.Writable() != nil || len(m.replica.State().Config.Members) == 1 {
			continue
		}
		if err := m.StepDown(ctx, fullPeriod, 0, false); err != nil {
			m.o.Log.Debug("replication: the disk is full, and no member can take over", "error", err)
			continue
		}
		m.o.Log.Warn("replication: handed over because the disk is full")
	}
}
