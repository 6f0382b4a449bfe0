package repl

import (
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/encoding/protowire"
)

// A frame is validated before raft sees it: raft panics on impossible numbers, as it
// takes them for the sign of a lost log. All frames of a member of this version pass the
// checks. A forger who stays within them, knows the ids of set and members and has their
// key can still do what a member can.

const (
	// maxFrameEntries bounds the entries of a message, and maxFrameRest the bytes of all
	// else in it: decoded they take many times the memory.
	maxFrameEntries = maxMessageBytes / 4
	maxFrameRest    = 64 << 10
	// maxTermAhead is how far a term may be above this member's: a term that no one can
	// exceed would end all elections. At ten a second it takes 13 years.
	maxTermAhead = 1 << 32
	// maxIndex bounds positions in the log, so that later ones do not overflow.
	maxIndex = 1 << 62
)

// fieldEntries is the number of Message.entries.
const fieldEntries = 7

// checkWire bounds what decoding a message would take.
func checkWire(b []byte) error {
	entries, rest := 0, 0
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if field == fieldEntries && kind == protowire.BytesType {
			entries++
		} else {
			rest += n
		}
	}
	if entries > maxFrameEntries || rest > maxFrameRest {
		return fmt.Errorf("a message with %d entries and %d other bytes", entries, rest)
	}
	return nil
}

// errForged is wrapped in the error of a frame that no correct member sends.
var errForged = errors.New("a frame that no member sends")

func forged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errForged}, args...)...)
}

// check checks that a member may have sent a message, nil for none, and a report.
func (g *Group) check(from uint64, m *raftpb.Message, r Report) error {
	if from == raft.None || from == g.ID || from >= math.MaxUint64-1 { // raft's own senders
		return forged("it is from %x", from)
	}
	if at := r.Applied; at.Index >= maxIndex || at.Term > g.term+maxTermAhead {
		return forged("applied is %d of term %d", at.Index, at.Term)
	}
	if m == nil {
		return nil
	}
	check, known := messageChecks[m.GetType()]
	switch {
	case !known:
		return forged("%v is for nobody else", m.GetType())
	case m.GetFrom() != from || m.GetTo() != g.ID:
		return forged("%v is from %x to %x", m.GetType(), m.GetFrom(), m.GetTo())
	case m.GetTerm() == 0 || m.GetTerm() > g.term+maxTermAhead:
		return forged("%v is of term %d, and this member of %d", m.GetType(), m.GetTerm(), g.term)
	case m.GetIndex() >= maxIndex || m.GetCommit() >= maxIndex || m.GetRejectHint() >= maxIndex:
		return forged("%v tells of entries %d, %d, %d", m.GetType(), m.GetIndex(), m.GetCommit(), m.GetRejectHint())
	case len(m.GetEntries()) > 0 && m.GetType() != raftpb.MsgApp, m.GetSnapshot() != nil && m.GetType() != raftpb.MsgSnap, len(m.GetResponses()) > 0:
		return forged("%v has what belongs to another message", m.GetType())
	}
	if check == nil {
		return nil
	}
	return check(g, m)
}

// leads reports whether raft leads at this moment, which may be newer than role.
func (g *Group) leads() bool {
	return g.role == Leader && g.rn.BasicStatus().RaftState == raft.StateLeader
}

// messageChecks maps the messages that members send to their checks; nil for only the
// common ones.
var messageChecks = map[raftpb.MessageType]func(*Group, *raftpb.Message) error{
	raftpb.MsgApp:            (*Group).checkAppend,
	raftpb.MsgAppResp:        (*Group).checkAppended,
	raftpb.MsgHeartbeat:      (*Group).checkHeartbeat,
	raftpb.MsgHeartbeatResp:  (*Group).checkHeard,
	raftpb.MsgVote:           (*Group).checkVote,
	raftpb.MsgVoteResp:       nil,
	raftpb.MsgPreVote:        (*Group).checkVote,
	raftpb.MsgPreVoteResp:    nil,
	raftpb.MsgSnap:           (*Group).checkSnapshot,
	raftpb.MsgTransferLeader: nil,
	raftpb.MsgTimeoutNow:     nil,
}

// checkAppend: entries are consecutive in index and term, and each can be decoded.
func (g *Group) checkAppend(m *raftpb.Message) error {
	term := m.GetLogTerm()
	for i, e := range m.GetEntries() {
		if e.GetIndex() != m.GetIndex()+1+uint64(i) || e.GetTerm() < max(term, 1) {
			return forged("entry %d of term %d follows %d of term %d", e.GetIndex(), e.GetTerm(), m.GetIndex()+uint64(i), term)
		}
		term = e.GetTerm()
		if err := checkEntry(e); err != nil {
			return forged("entry %d: %w", e.GetIndex(), err)
		}
	}
	if term > m.GetTerm() {
		return forged("an entry of term %d in a message of %d", term, m.GetTerm())
	}
	return nil
}

// checkEntry checks that an entry can be applied, as far as possible without the data.
func checkEntry(e *raftpb.Entry) error {
	if e.GetIndex() <= founded.Index || e.GetType() != raftpb.EntryNormal && e.GetType() != raftpb.EntryConfChangeV2 {
		return fmt.Errorf("type %d", e.GetType())
	}
	data, err := entryData(e)
	if err != nil || len(data) == 0 {
		return err
	}
	d, err := decodeEntry(data)
	if err != nil || d.kind != kindConfig {
		return err
	}
	c, err := ParseConfig(d.payload)
	if err != nil {
		return err
	}
	return c.Validate()
}

// checkAppended: a follower acknowledges no more than the leader has sent.
func (g *Group) checkAppended(m *raftpb.Message) error {
	if m.GetIndex() > g.Log.Last() && g.leads() && m.GetTerm() == g.term {
		return forged("entry %d was appended, and the leader has %d", m.GetIndex(), g.Log.Last())
	}
	return nil
}

// checkHeartbeat: a leader reports nothing as committed that this member has not
// acknowledged.
func (g *Group) checkHeartbeat(m *raftpb.Message) error {
	if m.GetCommit() > g.Log.Last() {
		return forged("entry %d is committed, and this member has %d", m.GetCommit(), g.Log.Last())
	}
	return nil
}

// checkHeard: the context is that of a read that this leader has sent, or empty.
func (g *Group) checkHeard(m *raftpb.Message) error {
	c := m.GetContext()
	if len(c) == 0 || !g.leads() || m.GetTerm() != g.term {
		return nil // empty, or a reply to an earlier leader, which raft ignores
	}
	if n, ok := readNumber(c); !ok || n > g.reads.told {
		return forged("a context that was not sent: %x", c)
	}
	return nil
}

// checkVote: a candidate's term is above that of all its entries.
func (g *Group) checkVote(m *raftpb.Message) error {
	if m.GetLogTerm() >= m.GetTerm() {
		return forged("an entry of term %d, and %v of term %d", m.GetLogTerm(), m.GetType(), m.GetTerm())
	}
	return nil
}

// checkSnapshot: a snapshot has a position in the log, and valid members.
func (g *Group) checkSnapshot(m *raftpb.Message) error {
	at := m.GetSnapshot().GetMetadata()
	if at.GetIndex() == 0 || at.GetIndex() >= maxIndex || at.GetTerm() == 0 || at.GetTerm() > m.GetTerm() {
		return forged("a snapshot of entry %d of term %d in a message of term %d", at.GetIndex(), at.GetTerm(), m.GetTerm())
	}
	if _, err := changer(at.GetConfState()); err != nil {
		return forged("a snapshot: %w", err)
	}
	return nil
}

// changer runs raft's own checks of membership changes before raft sees them, on which
// it would panic. Errors: of invalid members.
func changer(conf *raftpb.ConfState) (c confchange.Changer, err error) {
	if n := len(conf.GetVoters()) + len(conf.GetVotersOutgoing()) + len(conf.GetLearners()) + len(conf.GetLearnersNext()); n > 2*maxMembers {
		return c, fmt.Errorf("%d members", n)
	}
	c = confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0), LastIndex: 1}
	if c.Tracker.Config, c.Tracker.Progress, err = confchange.Restore(c, conf); err != nil {
		return c, err
	}
	return c, conf.Equivalent(c.Tracker.ConfState())
}

// errMembers is wrapped in the error of a membership change that raft cannot apply.
var errMembers = errors.New("a change of members that cannot be")

// mayChange checks that raft can apply a membership change. Errors: errMembers.
func mayChange(conf *raftpb.ConfState, change *raftpb.ConfChangeV2) error {
	c, err := changer(conf)
	if err != nil {
		return err
	}
	auto, joint := change.EnterJoint()
	switch {
	case change.LeaveJoint():
		_, _, err = c.LeaveJoint()
	case joint:
		_, _, err = c.EnterJoint(auto, change.Changes...)
	default:
		_, _, err = c.Simple(change.Changes...)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errMembers, err)
	}
	return nil
}

// refuse logs that a frame was rejected, at a limited rate.
func (g *Group) refuse(from uint64, err error) {
	if g.refusals.line(g.Clock.wall()) {
		g.Logger.Warn("replication: refused", "member", from, "error", err)
	}
}
