package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
)

// replSetGetStatus returns the state of the set as this member sees it; it asks the
// others for theirs. (Manual: database command replSetGetStatus.)
func (n *Node) replSetGetStatus() *command.Command {
	return &command.Command{
		Name: "replSetGetStatus", Run: n.runReplSetGetStatus,
		Help: "Report status of a replica set from the POV of this server\n{ replSetGetStatus : 1 }\nhttp://dochub.mongodb.org/core/replicasetcommands",
	}
}

func (n *Node) runReplSetGetStatus(ctx context.Context, op *command.Op) error {
	return n.appendSetStatus(ctx, op.Reply)
}

// appendSetStatus writes the fields of replSetGetStatus. Errors: 93, 94.
func (n *Node) appendSetStatus(ctx context.Context, b *bson.Builder) error {
	st, err := n.setState()
	if member := n.Dispatcher.Member.State(); err != nil && member.Receiving != nil {
		n.appendFirstSync(b, member)
		return nil
	}
	if err != nil {
		return err
	}
	if st.Removed {
		return errRemoved
	}
	s := setStatus{st: st, now: time.Now(), self: n.Dispatcher.Member.Health(), others: n.Dispatcher.Member.AskOthers(ctx)}
	source, sourceID := s.source(st.ID)
	c := st.Config
	b.String("set", c.Set).Date("date", s.now.UnixMilli()).Int32("myState", int32(st.Member)).Int64("term", int64(st.Term)).
		String("syncSourceHost", source).Int32("syncSourceId", sourceID).
		Int64("heartbeatIntervalMillis", (c.Election / repl.HeartbeatsPerElection).Milliseconds())
	voters := 0
	for _, m := range c.Members {
		voters += m.Votes
	}
	b.Int32("majorityVoteCount", int32(voters/2+1)).Int32("writeMajorityCount", int32(voters/2+1)).
		Int32("votingMembersCount", int32(voters)).Int32("writableVotingMembersCount", int32(voters))
	b.OpenDoc("optimes")
	// Nothing is written or applied before a majority has it on disk.
	appendOpTime(b, "lastCommittedOpTime", st.Applied)
	b.Date("lastCommittedWallTime", wallOf(st.Applied))
	for _, name := range []string{"readConcernMajorityOpTime", "appliedOpTime", "durableOpTime", "writtenOpTime"} {
		appendOpTime(b, name, st.Applied)
	}
	for _, name := range []string{"lastAppliedWallTime", "lastDurableWallTime", "lastWrittenWallTime"} {
		b.Date(name, wallOf(st.Applied))
	}
	b.Close().Timestamp("lastStableRecoveryTimestamp", uint64(st.Applied.Time))
	if p := st.Receiving; p != nil {
		appendInitialSync(b, p, s.now)
	}
	b.OpenArray("members")
	for i := range c.Members {
		b.OpenDoc(bson.Index(i))
		s.member(b, &c.Members[i])
		b.Close()
	}
	b.Close()
	return nil
}

// appendFirstSync writes what a member knows that was empty and receives the data of a
// set: the configuration comes with them.
func (n *Node) appendFirstSync(b *bson.Builder, st *repl.State) {
	m, now := n.Dispatcher.Member, time.Now()
	b.String("set", m.Set()).Date("date", now.UnixMilli()).Int32("myState", int32(st.Member)).Int64("term", int64(st.Term)).
		String("syncSourceHost", "").Int32("syncSourceId", -1)
	appendInitialSync(b, st.Receiving, now)
	b.OpenArray("members").OpenDoc(bson.Index(0))
	b.Int32("_id", -1).String("name", m.Host()).Double("health", 1).Int32("state", int32(st.Member)).String("stateStr", st.Member.String()).
		Int32("uptime", int32(m.Health().Up/time.Second)).Bool("self", true)
	b.Close().Close()
}

// appendInitialSync writes the progress of a snapshot that the member receives.
func appendInitialSync(b *bson.Builder, p *repl.Progress, now time.Time) {
	elapsed, done := now.Sub(p.Started), p.Done.Load()
	b.OpenDoc("initialSyncStatus").Date("initialSyncStart", p.Started.UnixMilli()).
		Int64("totalInitialSyncElapsedMillis", elapsed.Milliseconds()).
		Int64("approxTotalDataSize", p.Total).Int64("approxTotalBytesCopied", done)
	if done > 0 && done <= p.Total {
		b.Int64("remainingInitialSyncEstimatedMillis", int64(float64(elapsed.Milliseconds())*float64(p.Total-done)/float64(done)))
	}
	b.Close()
}

// noTerm is MongoDB's term for "none", -1.
const noTerm = 1<<64 - 1

// setStatus is what one replSetGetStatus has collected.
type setStatus struct {
	st     *repl.State
	now    time.Time
	self   repl.Health
	others map[uint64]repl.Health // who has answered
}

// source returns where a member gets the log from: the primary; for the primary,
// nobody.
func (s *setStatus) source(raft uint64) (host string, id int32) {
	if p := s.st.Config.Member(s.st.Leader); p != nil && p.Raft != raft {
		return p.Host, p.ID
	}
	return "", -1
}

// member writes what is known of one member.
func (s *setStatus) member(b *bson.Builder, m *repl.MemberConfig) {
	self := m.Raft == s.st.ID
	h, up := s.self, true
	if !self {
		h, up = s.others[m.Raft]
	}
	health := 1.0
	if !up {
		health, h = 0, repl.Health{State: repl.StateDown, Version: -1, Term: -1, Applied: repl.Position{Term: noTerm}}
	}
	source, sourceID := "", int32(-1)
	if up {
		source, sourceID = s.source(m.Raft)
	}
	b.Int32("_id", m.ID).String("name", m.Host).Double("health", health).Int32("state", int32(h.State)).String("stateStr", h.State.String()).
		Int32("uptime", int32(h.Up/time.Second))
	appendOpTime(b, "optime", h.Applied)
	if !self {
		appendOpTime(b, "optimeDurable", h.Applied)
	}
	appendOpTime(b, "optimeWritten", h.Applied)
	b.Date("optimeDate", wallOf(h.Applied))
	if !self {
		b.Date("optimeDurableDate", wallOf(h.Applied))
	}
	b.Date("optimeWrittenDate", wallOf(h.Applied))
	for _, name := range []string{"lastAppliedWallTime", "lastDurableWallTime", "lastWrittenWallTime"} {
		b.Date(name, wallOf(h.Applied))
	}
	if !self {
		s.heartbeat(b, m, h, up)
	}
	b.String("syncSourceHost", source).Int32("syncSourceId", sourceID).String("infoMessage", "")
	if h.Elected != 0 {
		b.Timestamp("electionTime", uint64(h.Elected)).Date("electionDate", int64(h.Elected.Seconds())*1000)
	}
	b.Int32("configVersion", int32(h.Version)).Int32("configTerm", int32(h.Term))
	if self {
		b.Bool("self", true).String("lastHeartbeatMessage", "")
	}
}

// heartbeat writes when another member was last heard from.
func (s *setStatus) heartbeat(b *bson.Builder, m *repl.MemberConfig, h repl.Health, up bool) {
	heard := s.st.Others[m.Raft].Heard
	message := ""
	switch {
	case up:
		heard = s.now
	case heard.IsZero():
		message = "never heard of"
	default:
		message = "not heard of since " + heard.UTC().Format(time.RFC3339)
	}
	var at int64
	if !heard.IsZero() {
		at = heard.UnixMilli()
	}
	b.Date("lastHeartbeat", at).Date("lastHeartbeatRecv", at).Int64("pingMs", h.Ping.Milliseconds()).String("lastHeartbeatMessage", message)
}
