package repl

import (
	"context"
	"time"
)

// A member that has lost its data directory comes back with another raft id, as what
// it has promised is lost, too (rule 13). The primary, which does not hear of the old
// one any more, asks who is at its host, and puts that into its place: one change of
// the configuration that removes a voter for good, and lets one join that has nothing.

// replaceEvery is how often the primary looks for such members.
const replaceEvery = 2 * time.Second

// replaceLost is the goroutine that looks.
func (m *Member) replaceLost(ctx context.Context) {
	tick := time.NewTicker(replaceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s := m.State()
		if !s.Writable {
			continue
		}
		for _, d := range s.Config.Members {
			if d.Raft == s.ID || m.o.Wall().Sub(s.Others[d.Raft].Heard) < replaceEvery {
				continue
			}
			if err := m.replaceMember(ctx, d); err != nil && ctx.Err() == nil {
				m.o.Log.Info("replication: a member that lost its data was not replaced", "host", d.Host, "error", err)
			}
		}
	}
}

// replaceMember puts an empty member into the place of one that was at its host.
func (m *Member) replaceMember(ctx context.Context, lost MemberConfig) error {
	limited, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	who, err := m.net.Identify(limited, lost.Host, m.store.opts.Group, m.State().Config.ID)
	if err != nil || who.Raft == lost.Raft {
		return nil // it is away
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	s := m.State()
	now := s.Config.Member(lost.Raft)
	if !s.Writable || now == nil || now.Host != lost.Host {
		return nil
	}
	if err := who.mayJoin(lost.Host, s.Config, false); err != nil {
		return err
	}
	c := s.Config.clone()
	c.Version++
	c.Member(lost.Raft).Raft = who.Raft
	m.o.Log.Warn("replication: a member has lost its data and joins anew", "host", lost.Host, "was", lost.Raft, "is", who.Raft)
	_, err = m.replica.Reconfigure(ctx, c)
	return err
}
