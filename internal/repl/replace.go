package repl

import (
	"context"
	"time"
)

// A member that has lost its data directory comes back with another raft id, as what
// it has promised is lost, too (rule 13). The primary, which no longer hears from the
// old one, asks its host for the member there, and replaces the old one with that: one
// change of the configuration that removes a voter for good, and adds an empty one.

// replaceEvery is how often the primary checks for such members.
const replaceEvery = 2 * time.Second

// replaceLost is the goroutine that checks.
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
				m.o.Log.Info("replication: cannot replace a member that lost its data", "host", d.Host, "error", err)
			}
		}
	}
}

// replaceMember replaces a lost member with an empty one at the same host.
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
	m.o.Log.Warn("replication: a member has lost its data and joins again", "host", lost.Host, "was", lost.Raft, "is", who.Raft)
	_, err = m.replica.Reconfigure(ctx, c)
	return err
}
