package repl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// target is a member that frames are forged for.
type target struct {
	name string
	id   uint64
	disk *disk
	lead bool
}

// deaf is a disk that takes writes without a look at them.
type deaf struct{ *disk }

func (d deaf) Apply(run []Change) error {
	for i := range run {
		run[i].Payload = nil
	}
	return d.disk.Apply(run)
}

// willing is an Outbox whose receivers vote for the sender, and have what it sends.
type willing struct{ answers []*raftpb.Message }

func (o *willing) Send(_ uint64, m *raftpb.Message, _ Report) {
	answer := map[raftpb.MessageType]raftpb.MessageType{
		raftpb.MsgPreVote: raftpb.MsgPreVoteResp, raftpb.MsgVote: raftpb.MsgVoteResp, raftpb.MsgApp: raftpb.MsgAppResp,
	}
	if kind, ok := answer[m.GetType()]; ok {
		o.answers = append(o.answers, &raftpb.Message{Type: &kind, From: m.To, To: m.From, Term: m.Term, Index: new(m.GetIndex() + uint64(len(m.GetEntries())))})
	}
}

func (o *willing) SendSnapshot(*raftpb.Message) {}

// settled lets a member do its work until there is none.
func settled(g *Group) error {
	for more := true; more; {
		var err error
		if more, err = g.Round(); err != nil {
			return err
		}
	}
	return nil
}

// targets are a leader, a follower and an empty member, and the frames that members of
// their set have sent each other.
func targets(t testing.TB) (all []target, frames [][]byte) {
	w := newWorld(7)
	w.tap = func(b []byte) { frames = append(frames, b) }
	w.setup(3)
	w.run(w.now + 10*sec)
	w.nemesis(w.now + 6*sec) // for the rarer messages
	w.client(0, w.now+5*sec)
	w.run(w.now + 6*sec)
	w.settle()
	p := w.primary()
	if w.failure != nil || p == nil {
		t.Fatalf("no set: %v", w.failure)
	}
	for _, h := range w.hosts {
		if h != p && h.g.state.config.Member(h.id) != nil {
			empty := target{name: "empty", id: 77, disk: newDisk()}
			return []target{{"leader", p.id, p.disk, true}, {"follower", h.id, h.disk, false}, empty}, frames
		}
	}
	t.Fatal("no follower")
	return nil, nil
}

// member starts a member on a copy of the target's disk.
func (a target) member(t testing.TB) (*Group, *disk) {
	d, out := newDisk(), &willing{}
	d.durable, d.live = a.disk.durable.clone(), a.disk.live.clone()
	g, err := NewGroup(Options{ID: a.id, Log: d, Machine: deaf{d}, Out: out, Clock: newWorld(7).addHost().clock()})
	if err != nil {
		t.Fatal(err)
	}
	if !a.lead {
		return g, d
	}
	if err := g.rn.Campaign(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := settled(g); err != nil {
			t.Fatal(err)
		}
		answers := out.answers
		out.answers = nil
		for _, m := range answers {
			g.Step(m.GetFrom(), m, Report{})
		}
	}
	if g.role != Leader || g.applied.Index != d.Last() {
		t.Fatalf("the leader is %v, with %v of %d", g.role, g.applied, d.Last())
	}
	return g, d
}

// fingerprint is what a frame that is refused does not change.
func fingerprint(g *Group, d *disk) string {
	st := g.rn.BasicStatus()
	return fmt.Sprint(st.GetTerm(), st.GetVote(), st.GetCommit(), st.RaftState, st.Lead, st.LeadTransferee, d.Last(), g.applied, g.Clock.Now(), g.sinceLead, g.wanted, len(g.peers), g.rn.HasReady())
}

// take gives a frame to a member, as the network does, and holds that it is refused
// without a trace, or taken without harm to what is committed.
func (a target) take(t testing.TB, g *Group, d *disk, f *Frame) (refused bool) {
	if f.Message.GetType() == raftpb.MsgSnap {
		d.incoming = a.disk.live.clone() // what it brings decides its place
		d.incoming.at.Index = f.Message.GetSnapshot().GetMetadata().GetIndex()
	}
	commit := g.rn.BasicStatus().GetCommit()
	sums := map[uint64]uint64{}
	for i := d.First(); i <= commit; i++ {
		e := d.live.entries[i-d.First()]
		sums[i] = hashEntry(e.GetTerm(), e.GetData())
	}
	before := fingerprint(g, d)
	refused = g.check(f.From, f.Message, f.Report) != nil
	g.Step(f.From, f.Message, f.Report)
	if after := fingerprint(g, d); refused && after != before {
		t.Fatalf("%s: refused, and changed %s to %s: %v", a.name, before, after, f.Message)
	}
	if err := settled(g); errors.Is(err, errMembers) {
		return refused // the member ends, as one that leads has ordered what cannot be
	} else if err != nil {
		t.Fatalf("%s: %v: %v", a.name, err, f.Message)
	}
	if now := g.rn.BasicStatus().GetCommit(); now < commit {
		t.Fatalf("%s: %d was committed, and now %d", a.name, commit, now)
	}
	for i := max(1, d.First()); i <= commit; i++ {
		if e := d.live.entries[i-d.First()]; sums[i] != hashEntry(e.GetTerm(), e.GetData()) {
			t.Fatalf("%s: the committed entry %d was changed by %v", a.name, i, f.Message)
		}
	}
	return refused
}

// forger changes frames.
type forger struct {
	rng     *rand.Rand
	numbers []uint64
}

func (r forger) number() uint64 { return r.numbers[r.rng.IntN(len(r.numbers))] }

// message changes one thing in a message.
func (r forger) message(m *raftpb.Message) {
	list := m.GetEntries()
	fields := m.ProtoReflect().Descriptor().Fields()
	switch what := r.rng.IntN(14); {
	case what < 6:
		f := fields.Get(r.rng.IntN(fields.Len()))
		if f.Kind() == protoreflect.Uint64Kind {
			m.ProtoReflect().Set(f, protoreflect.ValueOfUint64(r.number()))
		}
	case what == 6:
		m.Type = raftpb.MessageType(r.rng.IntN(26)).Enum()
	case what == 7:
		m.Reject = new(!m.GetReject())
	case what == 8:
		m.Context = binary.LittleEndian.AppendUint64(make([]byte, 0, 12), r.number())[:4*r.rng.IntN(4)]
	case what == 9:
		m.Snapshot = &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{Index: new(r.number()), Term: new(r.number()), ConfState: r.conf()}}
	case what == 10:
		m.Entries = append(list, &raftpb.Entry{Index: new(m.GetIndex() + uint64(len(list)) + 1), Term: m.Term, Type: r.kind(), Data: r.data()})
	case len(list) == 0:
	case what == 11:
		i := r.rng.IntN(len(list))
		m.Entries = slices.Delete(slices.Clone(list), i, i+1)
	default:
		e := proto.Clone(list[r.rng.IntN(len(list))]).(*raftpb.Entry)
		switch r.rng.IntN(4) {
		case 0:
			e.Index = new(r.number())
		case 1:
			e.Term = new(r.number())
		case 2:
			e.Type = r.kind()
		case 3:
			e.Data = r.data()
		}
		m.Entries = slices.Clone(list)
		m.Entries[r.rng.IntN(len(list))] = e
	}
}

func (r forger) kind() *raftpb.EntryType { return raftpb.EntryType(r.rng.IntN(4)).Enum() }

// data is that of an entry of any kind, whole, cut or noise.
func (r forger) data() []byte {
	config := &Config{Set: "rs0", ID: [12]byte{7}, Version: 9, Election: defaultElection, Members: []MemberConfig{{Host: "x:1", Raft: r.number(), Priority: 1, Votes: 1}}}
	b := entry{kind: entryKind(r.rng.IntN(5)), term: r.number(), time: Timestamp(r.number()), payload: config.Doc()}.encode()
	if r.rng.IntN(2) == 0 {
		c := &raftpb.ConfChangeV2{Changes: []*raftpb.ConfChangeSingle{{Type: raftpb.ConfChangeType(r.rng.IntN(4)).Enum(), NodeId: new(r.number())}}, Context: b}
		b, _ = proto.Marshal(c)
	}
	if r.rng.IntN(4) == 0 {
		b = b[:r.rng.IntN(len(b))]
	}
	if r.rng.IntN(4) == 0 {
		for i := range b {
			b[i] = byte(r.rng.Uint32())
		}
	}
	return b
}

func (r forger) conf() *raftpb.ConfState {
	c := &raftpb.ConfState{}
	for _, list := range []*[]uint64{&c.Voters, &c.Learners, &c.VotersOutgoing, &c.LearnersNext} {
		for range r.rng.IntN(4) {
			*list = append(*list, r.number())
		}
	}
	return c
}

// TestForgedFrames gives members frames of each other in which something was changed:
// none ends them, what is refused changes nothing, and nothing changes what is committed.
func TestForgedFrames(t *testing.T) {
	all, frames := targets(t)
	rng := rand.New(rand.NewPCG(3, 5))
	refused, taken := 0, 0
	for range 4000 {
		a := all[rng.IntN(len(all))]
		g, d := a.member(t)
		r := forger{rng, []uint64{0, 1, g.term - 1, g.term, g.term + 1, d.Last() - 1, d.Last(), d.Last() + 1, 1 << 32, 1 << 40, 1 << 62, 1<<64 - 2, 1<<64 - 1, rng.Uint64(), a.id, all[0].id, all[1].id}}
		for range 4 {
			f, err := decodeFrame(frames[rng.IntN(len(frames))])
			if err != nil {
				t.Fatal(err)
			}
			f.To = a.id
			for f.From == a.id {
				f.From = r.number()
			}
			if f.Message != nil {
				f.Message.From, f.Message.To = &f.From, &f.To
				if rng.IntN(3) > 0 {
					f.Message.Term = new(g.term + uint64(rng.IntN(2)))
				}
				for range 1 + rng.IntN(3) {
					r.message(f.Message)
				}
			}
			if rng.IntN(4) == 0 {
				f.Report = Report{Applied: Position{r.number(), r.number(), Timestamp(r.number())}, Wanted: Timestamp(r.number())}
			}
			if a.take(t, g, d, f) {
				refused++
			} else {
				taken++
			}
		}
	}
	t.Logf("%d refused, %d taken", refused, taken)
	if refused < 1000 || taken < 1000 {
		t.Error("the forgers do not do what they are for")
	}
}

// FuzzFrame gives members what anybody may send.
func FuzzFrame(f *testing.F) {
	all, frames := targets(f)
	kinds := map[raftpb.MessageType]int{}
	for _, b := range frames {
		m, err := decodeFrame(b)
		if err != nil {
			f.Fatal(err)
		}
		if kinds[m.Message.GetType()]++; kinds[m.Message.GetType()] <= 3 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeFrame(b)
		if err != nil {
			return
		}
		for _, a := range all {
			g, d := a.member(t)
			if m.Message != nil { // decodeFrame and admit have seen to these
				m.Message.From, m.Message.To = &m.From, &a.id
			}
			a.take(t, g, d, m)
		}
	})
}

// What decoding a message takes is bounded before it is decoded.
func TestCheckWire(t *testing.T) {
	large := &raftpb.Message{Entries: []*raftpb.Entry{{Data: make([]byte, maxMessageBytes)}}}
	var small []*raftpb.Entry // as many as raft puts into one message
	for size := 0; size < maxMessageBytes; {
		e := &raftpb.Entry{Index: new(uint64(1)), Term: new(uint64(1)), Type: raftpb.EntryNormal.Enum()}
		small, size = append(small, e), size+proto.Size(e)
	}
	empty := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, fieldEntries, protowire.BytesType), nil), maxFrameEntries+1)
	for _, c := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"one large entry", marshal(t, large), true},
		{"many small ones", marshal(t, &raftpb.Message{Entries: small}), true},
		{"empty ones, that raft does not make", empty, false},
		{"a long context", marshal(t, &raftpb.Message{Context: make([]byte, maxFrameRest)}), false},
		{"a snapshot of many members", marshal(t, &raftpb.Message{Snapshot: &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{ConfState: &raftpb.ConfState{Voters: make([]uint64, maxFrameRest)}}}}), false},
		{"what is no message", []byte{0xff, 0xff, 0xff}, false},
	} {
		if err := checkWire(c.b); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func marshal(t *testing.T, m *raftpb.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A change of members that raft cannot take is an error, and does not end the process.
func TestMayChange(t *testing.T) {
	conf := &raftpb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
	change := func(kind raftpb.ConfChangeType, ids ...uint64) *raftpb.ConfChangeV2 {
		c := &raftpb.ConfChangeV2{}
		for _, id := range ids {
			c.Changes = append(c.Changes, &raftpb.ConfChangeSingle{Type: &kind, NodeId: &id})
		}
		return c
	}
	for _, c := range []struct {
		name   string
		conf   *raftpb.ConfState
		change *raftpb.ConfChangeV2
		ok     bool
	}{
		{"one is added", conf, change(raftpb.ConfChangeAddNode, 5), true},
		{"a learner votes", conf, change(raftpb.ConfChangeAddNode, 4), true},
		{"two at once, by both majorities", conf, change(raftpb.ConfChangeRemoveNode, 2, 3), true},
		{"all voters go", conf, change(raftpb.ConfChangeRemoveNode, 1, 2, 3), false},
		{"a joint configuration is left that is none", conf, &raftpb.ConfChangeV2{}, false},
		{"one that votes and learns", &raftpb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{2}}, change(raftpb.ConfChangeAddNode, 5), false},
		{"a set without voters", &raftpb.ConfState{Learners: []uint64{2}}, change(raftpb.ConfChangeAddLearnerNode, 5), false},
	} {
		if err := mayChange(c.conf, c.change); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
