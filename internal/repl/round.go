package repl

import (
	"cmp"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Round handles a bounded part of what has happened to the group; more says that there
// is more to handle. An error is fatal, either of the disk or of inconsistent content:
// the member must end.
func (g *Group) Round() (more bool, err error) {
	g.noteRole()
	proposed, err := g.stepQueue()
	if err != nil {
		return false, err
	}
	g.startReads()
	if g.rn.HasReady() {
		rd := g.rn.Ready()
		if err := bind(proposed, rd.Entries); err != nil {
			return false, err
		}
		g.inflight = append(g.inflight, proposed...)
		if err := g.handle(rd); err != nil {
			return false, err
		}
		g.rn.Advance(rd)
		g.noteRole()
	}
	if err := g.applyBacklog(); err != nil {
		return false, err
	}
	g.serveReads()
	g.checkWaits()
	g.pass()
	g.tell()
	return g.rn.HasReady() || len(g.queue) > 0 && !g.handover, nil
}

// tell sends reports without a message, where others must not wait for the next
// frame: to a leader that asks, and as the leader to those that are asked.
func (g *Group) tell() {
	switch {
	case g.role == Leader && g.asks:
		g.tellAll(0)
	case g.role != Leader && g.lead != raft.None && (g.tells || g.asked && g.reported != g.applied.Index):
		g.reported = g.applied.Index
		g.put(g.lead, nil)
	}
	g.asks, g.tells = false, false
}

// report returns the report for this member's frames.
func (g *Group) report() Report {
	asks := g.role == Leader && slices.ContainsFunc(g.waits, func(w *Wait) bool { return w.primary })
	return Report{Applied: g.applied, Wanted: g.wanted, Frozen: g.ticks < g.frozen || g.full, Asks: asks}
}

// stepQueue passes the queued proposals to raft, each with its time, in their
// order, and many in one message: raft sends the others a frame for each message.
// During a handover they wait for its end, or that of this member's leadership.
func (g *Group) stepQueue() (stepped []*proposal, err error) {
	if g.handover {
		return nil, nil
	}
	queue := g.queue
	g.queue = nil
	for rest := queue; len(rest) > 0; rest = queue[len(stepped):] {
		m := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: &g.ID}
		for size := 0; len(m.Entries) < len(rest) && size < maxMessageBytes; {
			p := rest[len(m.Entries)]
			p.entry.time = g.Clock.take(max(1, p.times))
			p.term = g.term
			if t, is := p.own.(hasTime); is {
				t.SetTime(p.entry.payload, uint64(p.entry.time))
			}
			e, err := p.encode()
			if err != nil {
				return nil, err
			}
			m.Entries = append(m.Entries, e)
			size += len(e.GetData())
		}
		n := len(m.Entries)
		if err := g.rn.Step(m); err != nil {
			g.drop(rest)
			return stepped, nil
		}
		g.lastEntry = g.Clock.wall()
		stepped = queue[:len(stepped)+n]
	}
	return stepped, nil
}

// encode returns the proposal as an entry for raft.
func (p *proposal) encode() (*raftpb.Entry, error) {
	data := p.entry.encode()
	if p.conf == nil {
		return &raftpb.Entry{Type: raftpb.EntryNormal.Enum(), Data: data}, nil
	}
	data, err := proto.Marshal(&raftpb.ConfChangeV2{Changes: p.conf.Changes, Context: data})
	return &raftpb.Entry{Type: raftpb.EntryConfChangeV2.Enum(), Data: data}, err
}

// bind finds the positions of the proposals just stepped: raft has appended one
// entry for each, at the end of the log.
func bind(proposed []*proposal, entries []*raftpb.Entry) error {
	if len(entries) < len(proposed) {
		return fmt.Errorf("raft accepted %d proposals, but has %d entries", len(proposed), len(entries))
	}
	for i, e := range entries[len(entries)-len(proposed):] {
		proposed[i].index = e.GetIndex()
	}
	return nil
}

// handle does one round's work, in the order of invariant log-first.
func (g *Group) handle(rd raft.Ready) error {
	late := rd.Messages[:0:0]
	for i, m := range rd.Messages {
		if covered(m, rd.Messages[i+1:]) {
			continue
		}
		if g.seams.early(g.role, m) {
			g.send(m)
		} else {
			late = append(late, m)
		}
	}
	committed := rd.CommittedEntries
	if n := stable(rd); g.role == Leader && n > 0 {
		if err := g.applyCommitted(committed[:n]); err != nil {
			return err
		}
		committed = committed[n:]
	}
	if err := g.persist(rd); err != nil {
		return err
	}
	for _, m := range late {
		g.send(m)
	}
	g.confirmReads(rd.ReadStates)
	return g.applyCommitted(committed)
}

// stable returns how many of the committed entries were in the log before this round. A
// leader applies them first: clients wait for that, and need not wait for this round's
// sync as well. On a follower the sync comes first: the leader waits for it.
func stable(rd raft.Ready) int {
	if !raft.IsEmptySnap(rd.Snapshot) {
		return 0
	}
	if len(rd.Entries) == 0 {
		return len(rd.CommittedEntries)
	}
	first := rd.Entries[0].GetIndex()
	n, _ := slices.BinarySearchFunc(rd.CommittedEntries, first, func(e *raftpb.Entry, first uint64) int { return cmp.Compare(e.GetIndex(), first) })
	return n
}

// covered says that a later message of the same round covers all of this one: before a
// leader sends entries it sends the commit index in a separate message, and a follower
// answers each append.
func covered(m *raftpb.Message, behind []*raftpb.Message) bool {
	switch m.GetType() {
	case raftpb.MsgApp:
		return len(m.GetEntries()) == 0 && slices.ContainsFunc(behind, func(n *raftpb.Message) bool {
			return n.GetType() == raftpb.MsgApp && n.GetTo() == m.GetTo() && n.GetTerm() == m.GetTerm() && n.GetIndex() >= m.GetIndex() && n.GetCommit() >= m.GetCommit()
		})
	case raftpb.MsgAppResp:
		return !m.GetReject() && slices.ContainsFunc(behind, func(n *raftpb.Message) bool {
			return n.GetType() == raftpb.MsgAppResp && n.GetTo() == m.GetTo() && n.GetTerm() == m.GetTerm() && !n.GetReject() && n.GetIndex() >= m.GetIndex()
		})
	}
	return false
}

// mayLeaveEarly says that a message promises nothing about this member's disk: a
// leader's appends and heartbeats. All others wait.
func mayLeaveEarly(r Role, m *raftpb.Message) bool {
	return r == Leader && (m.GetType() == raftpb.MsgApp || m.GetType() == raftpb.MsgHeartbeat)
}

func (g *Group) send(m *raftpb.Message) {
	if m.GetType() == raftpb.MsgSnap {
		g.Out.SendSnapshot(m)
		return
	}
	if n, ok := readNumber(m.GetContext()); ok && m.GetType() == raftpb.MsgHeartbeat {
		g.reads.told = n
	}
	if m.GetTo() == g.lead {
		g.reported = g.applied.Index
	}
	g.put(m.GetTo(), m)
}

// persist makes durable what the round's messages promise. The commit index alone
// is not worth a write: it can be found again.
func (g *Group) persist(rd raft.Ready) error {
	hard := g.hard
	if !raft.IsEmptyHardState(rd.HardState) {
		hard = rd.HardState
		g.hard = hard
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if hard == nil {
			hard = g.Log.HardState()
		}
		if err := g.Machine.Install(Position{Index: rd.Snapshot.GetMetadata().GetIndex(), Term: rd.Snapshot.GetMetadata().GetTerm()}, hard); err != nil {
			return fmt.Errorf("install a snapshot: %w", err)
		}
		if err := g.load(); err != nil {
			return err
		}
		g.Logger.Info("replication: a snapshot was installed", "index", g.applied.Index)
	}
	if !rd.MustSync && len(rd.Entries) == 0 {
		return nil
	}
	for _, e := range rd.Entries {
		if t, ok := entryTime(e); ok {
			g.Clock.raise(t)
		}
	}
	before := g.applied.Index
	if err := g.Log.Append(hard, rd.Entries, true); err != nil {
		return fmt.Errorf("append to the log: %w", err)
	}
	g.durable = max(g.durable, before)
	return nil
}

// groupStorage is raft's view of log and machine.
type groupStorage struct{ g *Group }

// InitialState implements raft.Storage. What is applied was committed, even if the
// hard state does not say so: it is not written for a commit alone.
func (s groupStorage) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	hard := s.g.Log.HardState()
	if at := s.g.applied; at.Index > hard.GetCommit() {
		h := &raftpb.HardState{Term: new(max(hard.GetTerm(), at.Term)), Vote: new(hard.GetVote()), Commit: &at.Index}
		if at.Term > hard.GetTerm() {
			*h.Vote = raft.None
		}
		hard = h
	}
	return hard, s.g.state.conf, nil
}

func (s groupStorage) Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error) {
	return s.g.Log.Entries(lo, hi, maxBytes)
}
func (s groupStorage) Term(i uint64) (uint64, error) { return s.g.Log.Term(i) }
func (s groupStorage) LastIndex() (uint64, error)    { return s.g.Log.Last(), nil }
func (s groupStorage) FirstIndex() (uint64, error)   { return s.g.Log.Base().Index + 1, nil }
func (s groupStorage) Snapshot() (*raftpb.Snapshot, error) {
	at := s.g.applied
	return &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{
		ConfState: s.g.state.conf, Index: &at.Index, Term: &at.Term,
	}}, nil
}
