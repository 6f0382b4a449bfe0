package repl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Ticks, of which a set's election timeout has electionTicks.
const (
	electionTicks  = 10
	heartbeatTicks = 2
	// HeartbeatsPerElection is how many heartbeats a primary sends per election
	// timeout.
	HeartbeatsPerElection = electionTicks / heartbeatTicks
	// readRetryTicks is after how long an unanswered ReadIndex is tried again.
	readRetryTicks = 3
	// noopEvery is how long a primary is idle before it writes a noop.
	noopEvery = 10 * time.Second
)

// Bounds of a group, in bytes but for maxInflightMessages and the last three.
const (
	maxMessageBytes     = 1 << 20 // one entry at least: a 16 MB document is one
	maxInflightMessages = 256
	maxInflightBytes    = 64 << 20
	maxUncommittedBytes = 128 << 20
	maxApplyBytes       = 8 << 20 // a round
	maxRunBytes         = 1 << 20 // in one step, one entry at least
	maxQueued           = 1 << 16 // proposals that wait for a round
	maxReads            = 1 << 16 // that wait for a ReadIndex
	maxWaits            = 1 << 16 // that wait for a concern
)

// Errors of a proposal.
var (
	// ErrNotPrimary says that nothing was proposed: the member is not primary.
	ErrNotPrimary = mongoerr.New(mongoerr.NotWritablePrimary, "not primary")
	// ErrSteppedDown says that the member stepped down before the outcome was known:
	// the write may or may not be part of the set's history.
	ErrSteppedDown = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted because the member stepped down from primary").WithLabels("RetryableWriteError")
	// ErrDropped says that nothing was written: raft has dropped the proposal, or one
	// that its evaluation depended on.
	ErrDropped = mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was dropped before it was proposed to the replica set").WithLabels("RetryableWriteError")
	// errBusy says that a bound of the group is reached.
	errBusy = mongoerr.New(mongoerr.ExceededTimeLimit, "too many operations are waiting for the replica set")
	// errStopped ends all that is waiting when the group ends.
	errStopped = mongoerr.New(mongoerr.ShutdownInProgress, "The server is in quiesce mode and will shut down")
)

// Options make a group.
type Options struct {
	Group   Number
	ID      uint64 // raft id of this member's data directory
	Log     Log
	Machine Machine
	Out     Outbox
	Clock   *Clock
	Logger  *slog.Logger // nil: discard
	// Primary is called when the member becomes primary and when it steps down, before
	// anything else happens to the machine; nil for nobody.
	Primary func(bool)
	// Advanced is called when entries are applied, before those are told who wait for them; nil
	// for nobody.
	Advanced func(upTo Position)
	// Beside runs work that takes long on another goroutine; Group.Applied is then called with
	// its error, as all else of the group is. nil: the group waits for it.
	Beside func(work func() error)
}

// Group is one member of one raft group. It does I/O only through its parts, and only
// in Round. Not safe for concurrent use.
type Group struct {
	Options
	rn    *raft.RawNode
	seams seams

	state   groupState
	applied Position // of the last entry, those without effect included
	// durable is the index up to which the machine's content is on this member's disk.
	durable uint64
	backlog uint64 // committed, but to be applied later: Member.Delay, or beside
	// voters is the index of the last change of raft's members that was in the backlog: until it
	// is applied, this member may not know who votes. raft does not know that it waits.
	voters uint64
	// beside is the entry that is being applied beside the group, which applies nothing else
	// until that is done (invariant one-applier); nil for none.
	beside *beside
	hard   *raftpb.HardState

	role    Role
	term    uint64
	lead    uint64
	primary bool
	epoch   uint64 // rises when a proposal is dropped (invariant no-hole)
	// handover says that leadership is being transferred: raft takes no proposals until
	// another member leads, or an election timeout has passed.
	handover bool

	queue    []*proposal // not stepped yet
	inflight []*proposal // in the log, in its order
	run      run         // memory for applyRun
	config   *proposal   // the change of the configuration that is not applied yet

	reads    reads
	waits    []*Wait
	reported uint64 // the index that the leader was told to be applied here
	asked    bool   // the leader wants to be told at once
	asks     bool   // the others will be asked with the next round
	tells    bool   // the leader will be told with the next round
	peers    map[uint64]*peer
	sent     map[uint64]uint64 // the tick at which a member was last sent something

	ticks     uint64
	sinceLead uint64 // ticks since a leader was last heard of
	frozen    uint64 // the tick until which the member does not campaign
	full      bool   // the disk is full: no member hands over to this one
	succeeds  uint64 // the tick at which it campaigns, as the leader is gone; 0: not
	resorts   uint64 // the tick at which it campaigns as the last resort; 0: not
	removed   bool   // another member says that this one was removed from the set
	refusals  refusals
	lastEntry time.Time
	wanted    Timestamp // the latest time that somebody waits for
}

// Role is what a member does in raft.
type Role uint8

// The roles.
const (
	Follower Role = iota
	Candidate
	Leader
)

// seams are where tests plant bugs that the simulation must find.
type seams struct {
	// context makes the context of a ReadIndex attempt, a new one for each.
	context func() []byte
	// stale says that an entry was evaluated in another term than it was proposed in.
	stale func(evaluated, proposed uint64) bool
	// early says that a message may leave before what it promises is on disk.
	early func(r Role, m *raftpb.Message) bool
	// resort reports whether a member that does not stand for election may lead as the last
	// resort.
	resort func() bool
}

// proposal is an entry with a waiter.
type proposal struct {
	entry entry
	conf  *raftpb.ConfChangeV2 // for a configuration that raft must know of
	index uint64
	term  uint64
	epoch uint64
	own   any
	times int // how many times it takes from the clock, where that is more than one
	done  func(Position, error)
	// ordered is called when all later proposals of this member are sure to come
	// after it.
	ordered func()
}

// hasTime is a machine's value of a proposal whose payload may have its own time: it is told that
// before the payload is in the log.
type hasTime interface {
	SetTime(payload []byte, at uint64)
}

// peer is what the group knows of another member.
type peer struct {
	applied Position // as told
	frozen  bool     // as told
	off     bool     // its time was refused
	heard   uint64   // the tick
	at      time.Time
}

// NewGroup opens a group on what its log and machine hold. Errors: those of the disk,
// and of inconsistent content.
func NewGroup(o Options) (*Group, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Group{Options: o, peers: map[uint64]*peer{}, sent: map[uint64]uint64{}, lastEntry: o.Clock.wall()}
	g.seams = seams{
		context: g.reads.nextContext,
		stale:   func(evaluated, proposed uint64) bool { return evaluated != proposed },
		early:   mayLeaveEarly,
		resort:  func() bool { return true },
	}
	if err := g.load(); err != nil {
		return nil, err
	}
	rn, err := raft.NewRawNode(&raft.Config{
		ID:                        o.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   groupStorage{g},
		Applied:                   g.applied.Index,
		MaxSizePerMsg:             maxMessageBytes,
		MaxCommittedSizePerReady:  maxApplyBytes,
		MaxUncommittedEntriesSize: maxUncommittedBytes,
		MaxInflightMsgs:           maxInflightMessages,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		ReadOnlyOption:            raft.ReadOnlySafe,
		DisableProposalForwarding: true,
		Logger:                    raftLogger{o.Logger},
	})
	if err != nil {
		return nil, err
	}
	g.rn = rn
	g.noteRole()
	return g, nil
}

// load reads the position of the group.
func (g *Group) load() error {
	index, state, err := g.Machine.Applied()
	if err != nil {
		return err
	}
	if g.state, err = decodeGroupState(state); err != nil {
		return err
	}
	if last := g.Log.Last(); last < index || g.Log.Base().Index > index {
		return fmt.Errorf("the log has the entries after %d up to %d, but %d are applied", g.Log.Base().Index, last, index)
	}
	if g.applied, err = position(g.Log, index); err != nil {
		return err
	}
	// What the machine had when it was opened or replaced is on disk.
	g.durable, g.backlog, g.voters = index, 0, 0
	last, err := position(g.Log, g.Log.Last())
	g.Clock.raise(max(g.applied.Time, last.Time))
	return err
}

// entryTime is the time of an entry; false for one of raft's own.
func entryTime(e *raftpb.Entry) (Timestamp, bool) {
	data, err := entryData(e)
	if err != nil || len(data) == 0 {
		return 0, false
	}
	d, err := decodeEntry(data)
	return d.time, err == nil
}

// Tick advances the group's time: electionTicks of them are an election timeout.
func (g *Group) Tick() {
	g.ticks++
	g.sinceLead++
	if g.role == Follower && !g.mayCampaign() {
		// A voter that never campaigns must not stand in the way of others.
		g.rn.TickQuiesced()
		if g.lead != raft.None && g.sinceLead >= electionTicks {
			if err := g.rn.ForgetLeader(); err != nil {
				g.Logger.Debug("replication: cannot forget the leader", "error", err)
			}
		}
		g.lastResort()
	} else {
		g.rn.Tick()
	}
	g.succeed()
	g.retryReads()
	g.tend()
	if g.ticks%electionTicks == 0 {
		g.tellAll(electionTicks) // so that each knows the state of the set
	}
}

// tellAll sends a report to all members that were sent nothing for a number of ticks.
func (g *Group) tellAll(silent uint64) {
	if g.state.config == nil {
		return
	}
	for _, m := range g.state.config.Members {
		if m.Raft != g.ID && g.ticks-g.sent[m.Raft] >= silent {
			g.put(m.Raft, nil)
		}
	}
}

// put sends a message, or none, with a report.
func (g *Group) put(to uint64, m *raftpb.Message) {
	g.sent[to] = g.ticks
	g.Out.Send(to, m, g.report())
}

// mayServe reports whether the member may be primary now.
func (g *Group) mayServe() bool { return g.isElectable() && g.ticks >= g.frozen }

// mayCampaign reports whether the member may stand for election now. Who has entries to apply
// may not know who votes by them.
func (g *Group) mayCampaign() bool { return g.mayServe() && g.beside == nil && g.backlog == 0 }

// Step handles a frame from another member: its report, and a message where m is not
// nil. A frame that no member sends changes nothing.
func (g *Group) Step(from uint64, m *raftpb.Message, r Report) {
	if err := g.check(from, m, r); err != nil {
		g.refuse(from, err)
		return
	}
	g.told(from, r)
	if m == nil {
		return
	}
	switch m.GetType() {
	case raftpb.MsgTransferLeader: // its sender wants to step up
		if g.role != Leader || g.successor(func(s MemberConfig) bool { return s.Raft == from }) == raft.None {
			return
		}
	case raftpb.MsgTimeoutNow:
		if !g.mayCampaign() {
			return
		}
	case raftpb.MsgPreVote, raftpb.MsgVote:
		g.refuses(m)
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if m.GetType() == raftpb.MsgSnap && g.beside != nil {
			return // its data would go away under who applies; it is sent again
		}
		if m.GetTerm() >= g.term {
			g.sinceLead = 0
		}
	}
	if err := g.rn.Step(m); err != nil && !errors.Is(err, raft.ErrStepPeerNotFound) {
		g.Logger.Debug("replication: a message was not accepted", "type", m.GetType().String(), "error", err)
	}
}

// told notes the report in another member's frame.
func (g *Group) told(from uint64, r Report) {
	if g.state.config.Member(from) == nil {
		return
	}
	p := g.peers[from]
	if p == nil {
		p = &peer{}
		g.peers[from] = p
	}
	p.heard, p.at, p.frozen = g.ticks, g.Clock.wall(), r.Frozen
	if r.Applied.Index > p.applied.Index && (g.role != Leader || r.Applied.Index <= g.Log.Last()) {
		p.applied = r.Applied // beyond the leader's log it is of one that was deposed, or of nobody
	}
	before := p.off
	if err := errors.Join(g.Clock.Observe(r.Applied.Time), g.Clock.Observe(r.Wanted)); err != nil {
		if p.off = true; !before {
			g.Logger.Warn("replication: refused the cluster time of a member", "member", from, "error", err)
		}
		return
	}
	p.off = false
	if g.role == Leader {
		g.wanted = max(g.wanted, r.Wanted)
	}
	if from == g.lead {
		g.asked = r.Asks
	}
}

// Evaluation identifies the state on which a write is evaluated. It is taken before the
// first read that the write depends on.
type Evaluation struct{ term, epoch uint64 }

// Evaluate begins an evaluation. Errors: ErrNotPrimary.
func (g *Group) Evaluate() (Evaluation, error) {
	if !g.primary {
		return Evaluation{}, ErrNotPrimary
	}
	return Evaluation{g.term, g.epoch}, nil
}

// Propose queues a write for the next round. done is called once: with its position
// after it was applied here, or with an error. ErrNotPrimary and ErrDropped say that it
// never will be; after ErrSteppedDown the outcome is not known yet. The group owns the
// payload; own is passed to this member's machine when this proposal is applied.
func (g *Group) Propose(ev Evaluation, payload []byte, own any, done func(Position, error)) {
	g.enqueue(&proposal{entry: entry{kind: kindEffect, term: ev.term, payload: payload}, epoch: ev.epoch, own: own, done: done})
}

// Noop queues an entry without an effect.
func (g *Group) Noop(note []byte, done func(Position, error)) {
	g.enqueue(&proposal{entry: entry{kind: kindNoop, term: g.term, payload: note}, epoch: g.epoch, done: done})
}

func (g *Group) enqueue(p *proposal) {
	switch {
	case !g.primary:
		p.done(Position{}, ErrNotPrimary)
	case p.epoch != g.epoch:
		p.done(Position{}, ErrDropped)
	case len(g.queue) >= maxQueued:
		p.done(Position{}, errBusy)
		g.drop(nil) // a hole, too
	default:
		g.queue = append(g.queue, p)
	}
}

// drop fails proposals that raft has dropped and, by a new epoch, all that were
// evaluated before this was known.
func (g *Group) drop(dropped []*proposal) {
	g.epoch++
	for _, p := range dropped {
		if p == g.config {
			g.config = nil
		}
		p.done(Position{}, ErrDropped)
	}
}

// failAll ends all that waits for this member as primary. Operations that are still
// being evaluated have an old term, which apply detects.
func (g *Group) failAll(err error) {
	queued, inflight := g.queue, g.inflight
	g.queue, g.inflight, g.config = nil, nil, nil
	for _, p := range inflight {
		p.done(Position{}, err)
	}
	for _, p := range queued {
		p.done(Position{}, ErrDropped)
	}
	g.failReads(ErrNotPrimary)
	g.failWaits(err)
}

// Stop fails everything that is waiting. The group cannot be used afterwards.
func (g *Group) Stop() {
	g.setPrimary(false)
	g.failAll(errStopped)
	for _, w := range g.waits {
		w.done(errStopped)
	}
	g.waits = nil
}

// ReportUnreachable says that messages to a member were lost.
func (g *Group) ReportUnreachable(id uint64) { g.rn.ReportUnreachable(id) }

// ReportSnapshot says how sending a snapshot ended. It must be called for each one that
// the Outbox was given.
func (g *Group) ReportSnapshot(id uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	g.rn.ReportSnapshot(id, status)
}

// setPrimary reports whether the member serves as primary.
func (g *Group) setPrimary(is bool) {
	if g.primary == is {
		return
	}
	g.primary = is
	if g.Options.Primary != nil {
		g.Options.Primary(is)
	}
}

// noteRole notes a change of raft's role, and informs those who wait.
func (g *Group) noteRole() {
	st := g.rn.BasicStatus()
	role := Follower
	switch st.RaftState {
	case raft.StateLeader:
		role = Leader
	case raft.StateCandidate, raft.StatePreCandidate:
		role = Candidate
	}
	wasLeader := g.role == Leader
	deposed := wasLeader && (role != Leader || st.GetTerm() != g.term)
	g.role, g.lead, g.term, g.handover = role, st.Lead, st.GetTerm(), st.LeadTransferee != raft.None
	if deposed {
		g.setPrimary(false)
		g.failAll(ErrSteppedDown)
		g.Logger.Info("replication: stepped down", "term", g.term)
	}
	if role == Leader && (!wasLeader || deposed) {
		clear(g.peers)
		clear(g.sent)
		g.reads.told = 0
		g.Logger.Info("replication: elected", "term", g.term)
	}
}

// raftLogger passes raft's log lines to our logger.
type raftLogger struct{ l *slog.Logger }

func (r raftLogger) Debug(v ...any)                 { r.l.Debug("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Debugf(format string, v ...any) { r.debugf(format, v) }
func (r raftLogger) Info(v ...any)                  { r.l.Debug("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Infof(format string, v ...any)  { r.debugf(format, v) }
func (r raftLogger) Warning(v ...any)               { r.l.Warn("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Warningf(format string, v ...any) {
	r.l.Warn("raft: " + fmt.Sprintf(format, v...))
}
func (r raftLogger) Error(v ...any)                 { r.l.Error("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Errorf(format string, v ...any) { r.l.Error("raft: " + fmt.Sprintf(format, v...)) }
func (r raftLogger) Fatal(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Fatalf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }
func (r raftLogger) Panic(v ...any)                 { panic("raft: " + fmt.Sprint(v...)) }
func (r raftLogger) Panicf(format string, v ...any) { panic("raft: " + fmt.Sprintf(format, v...)) }

// debugf formats only what will be logged: raft logs much.
func (r raftLogger) debugf(format string, v []any) {
	if r.l.Enabled(context.Background(), slog.LevelDebug) {
		r.l.Debug("raft: " + fmt.Sprintf(format, v...))
	}
}
