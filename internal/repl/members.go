package repl

import (
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

// errConfigPending rejects a change of the configuration while another one is in
// progress.
var errConfigPending = mongoerr.New(mongoerr.ConfigurationInProgress, "Cannot run replSetReconfig because the node is currently updating its configuration")

// lastResortTicks is how long there is no leader after a member that may not be
// primary has refused a vote, before that member leads itself.
const lastResortTicks = electionTicks

// caughtUpEntries is how many entries a member may lag and still become voter or
// primary.
const caughtUpEntries = 64

// ProposeConfig queues a new configuration, which takes effect when it is applied
// (rule 17). Errors: 93, 103 if it may not follow the current one, 109 while
// another change is in progress, and those of Propose.
func (g *Group) ProposeConfig(next *Config, done func(Position, error)) {
	if !g.primary {
		done(Position{}, ErrNotPrimary)
		return
	}
	next = next.clone()
	next.Term = int64(g.term)
	err := g.state.config.Next(next)
	if me := next.Member(g.ID); err == nil && (me == nil || !me.Electable()) {
		err = mongoerr.New(mongoerr.NodeNotElectable, "The primary would not be electable in the new configuration: step it down first")
	}
	if err != nil {
		done(Position{}, err)
		return
	}
	g.proposeConfig(next, done)
}

func (g *Group) proposeConfig(next *Config, done func(Position, error)) {
	if g.config != nil || len(g.state.conf.GetVotersOutgoing()) > 0 {
		done(Position{}, errConfigPending)
		return
	}
	p := &proposal{entry: entry{kind: kindConfig, term: g.term, payload: next.Doc()}, epoch: g.epoch, done: done}
	if changes := next.changes(g.state.conf); len(changes) > 0 {
		p.conf = &raftpb.ConfChangeV2{Changes: changes}
	}
	g.config = p
	g.enqueue(p)
}

// Freeze keeps the member from standing for election for a number of ticks; 0 ends
// that.
func (g *Group) Freeze(ticks uint64) { g.frozen = g.ticks + ticks }

// StepDown hands over to the electable member that has most of the log, and does not
// stand for election for a number of ticks. Proposals wait until the other member has
// taken over, which ends them, or an election timeout has passed. Errors:
// ErrNotPrimary, 262 if no member can take over.
func (g *Group) StepDown(ticks uint64) error {
	if !g.primary {
		return ErrNotPrimary
	}
	to := g.successor(func(MemberConfig) bool { return true })
	if to == raft.None {
		return mongoerr.New(mongoerr.ExceededTimeLimit, "No electable secondaries caught up as of %s. Please use the replSetStepDown command with the argument {force: true} to force node to step down.", g.Clock.wall().UTC().Format(time.RFC3339))
	}
	g.Freeze(ticks)
	g.rn.TransferLeader(to)
	return nil
}

// ForceStepDown ends the member's leadership immediately, even if no member can take over.
func (g *Group) ForceStepDown(ticks uint64) error {
	if g.role != Leader {
		return ErrNotPrimary
	}
	g.Freeze(ticks)
	// This acts like a message with a higher term, to which raft yields.
	return g.rn.Step(&raftpb.Message{Type: raftpb.MsgAppResp.Enum(), From: &g.ID, To: &g.ID, Term: new(g.term + 1)})
}

// StepUp makes the member stand for election now: it asks the primary to hand over or,
// where there has been none for a while, campaigns. Errors: 125 if it may not.
func (g *Group) StepUp() error {
	if g.role == Leader {
		return nil
	}
	if !g.mayCampaign() {
		return mongoerr.New(mongoerr.CommandFailed, "Election failed: the member is not electable")
	}
	if g.lead != raft.None && g.sinceLead < electionTicks {
		g.rn.TransferLeader(g.ID)
		return nil
	}
	return g.rn.Campaign()
}

// successionTicks is how much later each further member campaigns when the leader is
// gone: long enough for the one before it to be elected.
const successionTicks = 3

// LeaderGone says that the leader's process has ended: its host refuses connections.
// The members then campaign one after the other without waiting for an election
// timeout. A false report does no harm: members that hear from a leader elect nobody.
func (g *Group) LeaderGone() {
	if g.role != Follower || g.lead == raft.None {
		return
	}
	rank := uint64(0)
	if me := g.state.config.Member(g.ID); me != nil {
		for _, m := range g.state.config.Members {
			if m.Electable() && m.Raft != g.lead && (m.Priority > me.Priority || m.Priority == me.Priority && m.ID < me.ID) {
				rank++
			}
		}
	}
	if err := g.rn.ForgetLeader(); err != nil { // otherwise it would not take part in an election yet
		g.Logger.Debug("replication: cannot forget the leader", "error", err)
		return
	}
	g.succeeds = g.ticks + 1 + rank*successionTicks
}

// succeed campaigns after LeaderGone, unless there is a leader by then.
func (g *Group) succeed() {
	if g.succeeds == 0 || g.ticks < g.succeeds {
		return
	}
	g.succeeds = 0
	if g.role != Follower || g.lead != raft.None || !g.mayCampaign() {
		return
	}
	if err := g.rn.Campaign(); err != nil {
		g.Logger.Debug("replication: cannot start an election", "error", err)
	}
}

// successor returns the electable member, other than this one, that has most of the
// log, was heard from, is not frozen, and passes a test; raft.None where there is
// none.
func (g *Group) successor(pass func(MemberConfig) bool) uint64 {
	best, match := uint64(raft.None), uint64(0)
	last := g.Log.Last()
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		m := g.state.config.Member(id)
		if id == g.ID || m == nil || !m.Electable() || !g.heard(id) || g.peers[id].frozen || p.Match+caughtUpEntries < last || !pass(*m) {
			return
		}
		if p.Match > match {
			best, match = id, p.Match
		}
	})
	return best
}

// tend does what a primary does on its own, once a tick.
func (g *Group) tend() {
	g.serve()
	if g.role == Leader && !g.primary && !g.mayServe() {
		if to := g.successor(func(MemberConfig) bool { return true }); to != raft.None {
			g.rn.TransferLeader(to)
		}
	}
	if !g.primary {
		return
	}
	if g.Clock.wall().Sub(g.lastEntry) >= noopEvery || g.Clock.wall().Before(g.lastEntry) {
		g.Noop(nil, func(Position, error) {})
	}
	if g.ticks%electionTicks != 0 || g.config != nil {
		return
	}
	if id := g.caughtUp(); id != raft.None {
		g.proposeConfig(g.state.config.promoted(id), func(_ Position, err error) {
			if err != nil {
				g.Logger.Warn("replication: cannot make a member a voter", "member", id, "error", err)
			}
		})
		return
	}
	g.takeover()
}

// heard reports whether a member was heard from recently. (Raft's own mark is
// cleared for all at each election timeout.)
func (g *Group) heard(id uint64) bool {
	p := g.peers[id]
	return p != nil && g.ticks-p.heard < electionTicks
}

// isElectable reports whether this member may serve as primary by the applied
// configuration.
func (g *Group) isElectable() bool {
	m := g.state.config.Member(g.ID)
	return m != nil && m.Electable()
}

// refuses notes that this member, which does not stand for election, has more of the log
// than a candidate, and will not vote for it.
func (g *Group) refuses(m *raftpb.Message) {
	me := g.state.config.Member(g.ID)
	if g.lead != raft.None || g.role != Follower || me == nil || !me.Voter() || g.mayCampaign() {
		return
	}
	last, err := g.Log.Term(g.Log.Last())
	if err != nil || m.GetLogTerm() > last || m.GetLogTerm() == last && m.GetIndex() >= g.Log.Last() {
		return
	}
	if g.resorts == 0 {
		g.resorts = g.ticks + lastResortTicks
	}
}

// lastResort makes a voter lead that may not be primary, or is frozen: its log is
// longer than that of a candidate, which would never get its vote. It does not serve
// as primary, and hands over (tend). One that has yet to apply who votes waits for that:
// else a majority of those that it knows may be none of the set.
func (g *Group) lastResort() {
	if g.resorts == 0 || g.ticks < g.resorts || g.beside != nil || g.resorting() && g.voters > g.applied.Index {
		return
	}
	g.resorts = 0
	if g.role != Follower || g.lead != raft.None || !g.seams.resort() {
		return
	}
	if err := g.rn.Campaign(); err != nil {
		g.Logger.Debug("replication: cannot start an election", "error", err)
	}
}

// resorting reports whether it is time for this member to lead as the last resort.
func (g *Group) resorting() bool {
	return g.resorts != 0 && g.ticks >= g.resorts && g.role == Follower && g.lead == raft.None
}

// serve makes the leader primary once it has applied an entry of its own term, if the
// configuration allows it.
func (g *Group) serve() {
	if g.role == Leader && !g.primary && g.applied.Term == g.term && g.mayServe() {
		g.setPrimary(true)
		g.Logger.Info("replication: primary", "term", g.term)
	}
}

// caughtUp returns a learner that will vote and has caught up with the primary;
// raft.None if there is none.
func (g *Group) caughtUp() uint64 {
	found := uint64(raft.None)
	g.rn.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		m := g.state.config.Member(id)
		if found == raft.None && m != nil && m.Joining && g.heard(id) && p.State == tracker.StateReplicate &&
			p.Match+caughtUpEntries >= g.Log.Last() && g.has(*m, min(g.applied.Index, p.Match)-min(g.applied.Index, p.Match, caughtUpEntries)) {
			found = id
		}
	})
	return found
}

// takeover hands over to a member of a higher priority that has caught up.
func (g *Group) takeover() {
	me := g.state.config.Member(g.ID)
	if me == nil {
		return
	}
	highest := me.Priority
	for _, m := range g.state.config.Members {
		if g.successor(func(s MemberConfig) bool { return s.Raft == m.Raft }) != raft.None {
			highest = max(highest, m.Priority)
		}
	}
	if highest == me.Priority {
		return
	}
	to := g.successor(func(m MemberConfig) bool { return m.Priority == highest })
	g.Logger.Info("replication: handing over to a member of higher priority", "member", to)
	g.rn.TransferLeader(to)
}

// Truncate drops log entries up to and including an index, but never past what is
// applied durably (invariant kept-log).
func (g *Group) Truncate(index uint64) error {
	return g.Log.Truncate(min(index, g.durable))
}
