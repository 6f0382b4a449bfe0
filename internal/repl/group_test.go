package repl

import (
	crand "crypto/rand"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.etcd.io/raft/v3/raftpb"
)

// calmSet is a set in virtual time that nothing disturbs but the test.
func calmSet(t *testing.T, members int) *world {
	t.Helper()
	old := crand.Reader
	crand.Reader = seededReader{rand.NewChaCha8([32]byte{42})}
	t.Cleanup(func() { crand.Reader = old })
	w := newWorld(42)
	w.calm = true
	w.setup(members)
	w.run(w.now + 10*sec)
	t.Cleanup(func() {
		if w.failure != nil {
			t.Error(w.failure)
		}
	})
	if p := w.primary(); p == nil || len(p.g.state.config.Members) != members || !w.rested() {
		t.Fatal("the set did not begin")
	}
	return w
}

// outcome is what a proposal came to.
type outcome struct {
	at   Position
	err  error
	done bool
}

func (o *outcome) set(at Position, err error) { *o = outcome{at, err, true} }

func (w *world) write(p *host, key int, value string) *outcome {
	o := &outcome{}
	p.do(func() {
		ev, err := p.g.Evaluate()
		if err != nil {
			o.set(Position{}, err)
			return
		}
		p.g.Propose(ev, encodeWrites([]write{{key, []byte(value)}}), nil, o.set)
	})
	return o
}

// reconfig proposes the primary's configuration with a change.
func (w *world) reconfig(p *host, change func(*Config)) *outcome {
	o := &outcome{}
	c := p.g.state.config.clone()
	c.Version++
	change(c)
	p.do(func() { p.g.ProposeConfig(c, o.set) })
	return o
}

func (w *world) others(p *host) (out []*host) {
	for _, h := range w.hosts {
		if h != p {
			out = append(out, h)
		}
	}
	return out
}

// isolate cuts a host off, and later heals the cut.
func (w *world) isolate(h *host, cut bool) {
	for i, o := range w.hosts {
		h.cutTo[i], o.cutTo[h.n] = cut, cut
	}
}

func (o *outcome) want(t *testing.T, what string, err error) {
	t.Helper()
	if !o.done || !errors.Is(o.err, err) {
		t.Errorf("%s: %+v, not %v", what, *o, err)
	}
}

func TestWriteIsAppliedByAll(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	o := w.write(p, 1, "one")
	w.run(w.now + sec)
	o.want(t, "a write", nil)
	for _, h := range w.hosts {
		if string(h.disk.live.data[1]) != "one" || h.g.applied != o.at {
			t.Errorf("host %d has %q at %v", h.n, h.disk.live.data[1], h.g.applied)
		}
	}
	w.write(w.others(p)[0], 1, "two").want(t, "a write to a secondary", ErrNotPrimary)
}

// A primary that is cut off fails its writes when it steps down, and does not disturb
// the others when it comes back (rules 4, 5).
func TestPrimaryCutOff(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	w.isolate(p, true)
	o := w.write(p, 1, "lost")
	read := error(nil)
	p.do(func() { p.g.ReadIndex(func(err error) { read = err }) })
	w.run(w.now + 5*sec)
	o.want(t, "a write without a majority", ErrSteppedDown)
	if !errors.Is(read, ErrNotPrimary) || p.g.primary {
		t.Errorf("a read without a majority: %v", read)
	}
	next := w.primary()
	if next == nil || next == p {
		t.Fatal("nobody took over")
	}
	term := next.g.term
	w.run(w.now + 20*sec) // it asks for votes in vain
	w.isolate(p, false)
	w.run(w.now + 5*sec)
	if w.primary() != next || next.g.term != term || p.g.lead != next.id {
		t.Errorf("term %d became %d", term, next.g.term)
	}
	if string(p.disk.live.data[1]) == "lost" {
		t.Error("a write that no majority had is there")
	}
}

// While a handover is under way proposals wait: until another member leads, and then
// they have left no trace, or until the handover has failed, and then they go on.
func TestProposalsWaitForHandover(t *testing.T) {
	for _, fails := range []bool{true, false} {
		w := calmSet(t, 3)
		p := w.primary()
		var o outcome
		p.do(func() {
			ev, err := p.g.Evaluate()
			if err != nil {
				t.Fatal(err)
			}
			if to := w.byID(p.g.successor(func(MemberConfig) bool { return true })); fails {
				p.cutTo[to.n] = true // it never hears of it
			}
			if err := p.g.StepDown(0); err != nil {
				t.Fatal(err)
			}
			p.g.Propose(ev, encodeWrites([]write{{1, []byte("x")}}), nil, o.set)
		})
		if o.done {
			t.Errorf("it does not wait: %+v", o)
		}
		w.run(w.now + 2*sec)
		w.isolate(p, false)
		if fails {
			o.want(t, "after a handover that failed", nil)
			if w.primary() != p || p.g.epoch != 0 {
				t.Error("there is another primary, or proposals were dropped")
			}
			continue
		}
		o.want(t, "after a handover", ErrDropped)
		if next := w.primary(); next == nil || next == p || string(next.disk.live.data[1]) != "" {
			t.Error("there is no other primary, or it has what was dropped")
		}
	}
}

// When the process of a leader has ended, the others elect one of them without waiting
// for an election timeout. A rumour elects nobody.
func TestLeaderGone(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	term := p.g.term
	rumour := w.others(p)[0]
	rumour.do(func() { rumour.g.LeaderGone() })
	w.run(w.now + 5*sec)
	if w.primary() != p || p.g.term != term || rumour.g.lead != p.id {
		t.Errorf("after a rumour, in term %d: %v leads", p.g.term, w.primary())
	}
	p.retired = true
	p.crash()
	w.run(w.now + 50*ms) // what it had sent arrives: a connection ends behind it
	for _, h := range w.others(p) {
		h.do(func() { h.g.LeaderGone() })
	}
	w.run(w.now + 400*ms)
	if next := w.primary(); next == nil {
		t.Error("nobody has succeeded")
	}
	p.retired = false
	p.start()
}

// What raft drops fails at once, and with it all that was evaluated before that was
// known (rule 19).
func TestDroppedProposals(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	var a, b, c outcome
	p.do(func() {
		before, err := p.g.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		w.isolate(p, true) // so that the handover does not end
		if err := p.g.StepDown(0); err != nil {
			t.Fatal(err)
		}
		p.g.Propose(before, nil, nil, a.set)
		p.g.Propose(before, nil, nil, b.set)
		if _, err := p.g.stepQueue(); err != nil { // as if the group did not look
			t.Fatal(err)
		}
		if !a.done || !b.done {
			t.Error("they wait")
		}
		p.g.Propose(before, nil, nil, c.set)
	})
	a.want(t, "dropped by raft", ErrDropped)
	b.want(t, "queued behind it", ErrDropped)
	c.want(t, "evaluated before it", ErrDropped)
}

// An entry that was evaluated in another term is dropped by all (rule 24).
func TestEntryOfAnotherTerm(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	var o outcome
	p.do(func() {
		ev, err := p.g.Evaluate()
		if err != nil {
			t.Fatal(err)
		}
		ev.term--
		p.g.Propose(ev, encodeWrites([]write{{1, []byte("stale")}}), nil, o.set)
	})
	w.run(w.now + sec)
	o.want(t, "a stale write", ErrDropped)
	for _, h := range w.hosts {
		if h.disk.live.data[1] != nil || h.g.applied != p.g.applied {
			t.Errorf("host %d has %q at %v", h.n, h.disk.live.data[1], h.g.applied)
		}
	}
}

// A change of the configuration while another one is under way is refused, by the
// group, and where it comes to raft, by what became of its entry (rule 18).
func TestOneConfigurationAtATime(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	set := func(priority float64) func(*Config) {
		return func(c *Config) { c.Members[w.others(p)[0].n].Priority = priority }
	}
	first, second := w.reconfig(p, set(0.5)), &outcome{}
	if second = w.reconfig(p, set(0.7)); !first.done {
		second.want(t, "a second one", errConfigPending)
	}
	w.run(w.now + sec)
	first.want(t, "the first one", nil)

	var a, b outcome
	p.do(func() {
		for _, o := range []*outcome{&a, &b} {
			c := p.g.state.config.clone()
			c.Version++
			c.Members[w.others(p)[0].n].Votes, c.Members[w.others(p)[0].n].Priority = 0, 0
			p.g.config = nil // as if the group did not look
			p.g.ProposeConfig(c, o.set)
		}
	})
	w.run(w.now + sec)
	a.want(t, "a vote less", nil)
	b.want(t, "what raft made empty", errConfigPending)
}

// A member that has stepped down for a while is not asked to take over again, whatever
// its priority: proposals would wait for a transfer that comes to nothing.
func TestNobodyHandsOverToAFrozenMember(t *testing.T) {
	w := calmSet(t, 3)
	high := w.primary()
	w.reconfig(high, func(c *Config) { c.Members[high.n].Priority = 5 })
	w.run(w.now + sec)
	high.do(func() {
		if err := high.g.StepDown(100); err != nil { // ten seconds
			t.Error(err)
		}
	})
	w.run(w.now + 2*sec)
	p := w.primary()
	if p == nil || p == high {
		t.Fatal("nobody else took over")
	}
	for i := range 50 {
		var o outcome
		p.do(func() {
			ev, err := p.g.Evaluate()
			if err != nil {
				t.Fatal(err)
			}
			p.g.Propose(ev, encodeWrites([]write{{i, []byte("x")}}), nil, o.set)
		})
		w.run(w.now + sec/10)
		o.want(t, "a write", nil)
	}
	w.run(w.now + 10*sec)
	if w.primary() != high {
		t.Error("the member of the highest priority is not primary once its time is over")
	}
}

func TestPriorities(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	high := w.others(p)[0]
	w.reconfig(p, func(c *Config) { c.Members[high.n].Priority = 5 })
	w.run(w.now + 5*sec)
	if w.primary() != high {
		t.Fatal("the member of higher priority did not take over")
	}
	if o := w.reconfig(high, func(c *Config) { c.Members[high.n].Priority = 0 }); !mongoerr.Is(o.err, mongoerr.NodeNotElectable) {
		t.Errorf("a primary that demotes itself: %+v", *o)
	}
	w.reconfig(high, func(c *Config) { c.Members[p.n].Priority = 0 })
	w.run(w.now + sec)
	high.crash() // back within seconds; meanwhile only the third one may
	w.run(w.now + 2500*ms)
	if got := w.primary(); got == nil || got == p {
		t.Errorf("the primary is %v", got)
	}
	p.do(func() {
		if err := p.g.StepUp(); err == nil {
			t.Error("a member of priority 0 stands for election")
		}
	})
}

// leaveBehind has a primary commit a write with the member longest alone, and end for good
// before the third one has it.
func (w *world) leaveBehind(t *testing.T, p, longest, third *host) {
	t.Helper()
	third.cutTo[p.n], p.cutTo[third.n], longest.cutTo[third.n], third.cutTo[longest.n] = true, true, true, true
	o := w.write(p, 1, "on two")
	w.run(w.now + 200*ms)
	o.want(t, "a write on two", nil)
	p.retired = true
	p.crash()
	w.isolate(third, false)
	w.isolate(p, true)
}

// Where only a member that may not be primary, or is frozen, has the longest log, it
// leads for a moment without serving, and hands over.
func TestLastResort(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		w := calmSet(t, 3)
		p := w.primary()
		longest, third := w.others(p)[0], w.others(p)[1]
		if frozen {
			longest.do(func() { longest.g.Freeze(600) })
		} else {
			w.reconfig(p, func(c *Config) { c.Members[longest.n].Priority = 0 })
		}
		w.run(w.now + sec)
		w.leaveBehind(t, p, longest, third)
		w.run(w.now + 10*sec)
		if w.primary() != third || string(third.disk.live.data[1]) != "on two" {
			t.Errorf("frozen %v: the third one is no primary with the write", frozen)
		}
		if _, err := longest.g.Evaluate(); !errors.Is(err, ErrNotPrimary) {
			t.Errorf("frozen %v: the member with the longest log serves", frozen)
		}
	}
}

// A frozen member that leads as the last resort, and finds nobody to hand over to,
// serves once its time is over.
func TestLastResortThatStays(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	longest, third := w.others(p)[0], w.others(p)[1]
	longest.do(func() { longest.g.Freeze(100) }) // ten seconds
	w.run(w.now + sec)
	third.do(func() { third.g.Freeze(300) })
	w.leaveBehind(t, p, longest, third)
	longest.do(func() {
		if err := longest.g.rn.Campaign(); err != nil {
			t.Error(err)
		}
	})
	w.run(w.now + 3*sec)
	if w.primary() != nil {
		t.Error("a frozen member serves")
	}
	w.run(w.now + 12*sec)
	if w.primary() != longest {
		t.Error("the member does not serve, and its time is over")
	}
}

func TestStepDownAndFreeze(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	o := w.write(p, 1, "x")
	w.run(w.now + 100*ms)
	o.want(t, "a write", nil)
	for _, h := range w.others(p) {
		h.do(func() { h.g.Freeze(100) })
	}
	p.do(func() {
		if err := p.g.StepDown(50); err != nil {
			t.Error(err)
		}
	})
	w.run(w.now + 3*sec)
	if w.primary() != p {
		t.Error("a handover to members that are frozen")
	}
	p.do(func() {
		if err := p.g.ForceStepDown(50); err != nil {
			t.Error(err)
		}
	})
	w.run(w.now + sec)
	if w.primary() != nil {
		t.Error("all are frozen, and there is a primary")
	}
	w.run(w.now + 30*sec)
	if w.primary() == nil {
		t.Error("the freeze does not end")
	}
	alone := calmSet(t, 1)
	only := alone.primary()
	only.do(func() {
		if err := only.g.StepDown(10); !mongoerr.Is(err, mongoerr.ExceededTimeLimit) {
			t.Errorf("a step down without a successor: %v", err)
		}
	})
}

// A member with a delay logs now and applies later, also after a restart.
func TestDelayedMember(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	late := w.others(p)[0]
	w.reconfig(p, func(c *Config) {
		c.Members[late.n].Priority, c.Members[late.n].Hidden, c.Members[late.n].Delay = 0, true, 5*time.Second
	})
	w.run(w.now + sec)
	o := w.write(p, 1, "later")
	w.run(w.now + 2*sec)
	if o.err != nil || late.disk.live.data[1] != nil || late.disk.Last() < o.at.Index {
		t.Errorf("%+v; the delayed member has %q and a log up to %d", *o, late.disk.live.data[1], late.disk.Last())
	}
	late.crash()
	w.run(w.now + 3500*ms)
	w.write(p, 2, "wakes it")
	w.run(w.now + 4*sec)
	if string(late.disk.live.data[1]) != "later" {
		t.Error("the delayed member does not catch up")
	}
}

// A voter with a delay knows only late who votes. Where it has the longest log of those that it
// can reach, it does not lead by the votes of those who were a majority before others joined.
func TestDelayedMemberKnowsWhoVotes(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	late, behind := w.others(p)[0], w.others(p)[1]
	w.reconfig(p, func(c *Config) {
		c.Members[late.n].Priority, c.Members[late.n].Hidden, c.Members[late.n].Delay = 0, true, time.Hour
	})
	w.run(w.now + sec)
	more := []*host{w.addHost(), w.addHost()}
	for _, h := range more {
		h.start()
		w.addMember(h, 5)
		w.run(w.now + 10*sec)
	}
	if w.primary() != p || len(p.g.state.conf.GetVoters()) != 5 || len(late.g.state.conf.GetVoters()) != 3 {
		t.Fatalf("voters: %v; for the delayed member: %v", p.g.state.conf, late.g.state.conf)
	}
	w.isolate(behind, true)
	w.write(p, 1, "not on all")
	w.run(w.now + sec)
	for _, h := range w.hosts {
		for i := range w.hosts {
			h.cutTo[i] = (h == late || h == behind) != (w.hosts[i] == late || w.hosts[i] == behind)
		}
	}
	o := w.write(p, 2, "of the majority")
	w.run(w.now + 10*sec)
	o.want(t, "a write of three of five", nil)
	if late.g.role == Leader || behind.g.role == Leader || w.primary() != p {
		t.Error("two of five have elected a leader")
	}
	for _, h := range w.hosts {
		h.cutTo = [simHosts]bool{}
	}
	w.run(w.now + 10*sec)
	for _, h := range w.others(late) {
		if string(h.disk.live.data[2]) != "of the majority" {
			t.Errorf("host %d has %q", h.n, h.disk.live.data[2])
		}
	}
	// Where the others are gone that have as much, it leads without delay, by those who vote now.
	w.isolate(behind, true)
	w.isolate(more[1], true)
	o = w.write(p, 4, "on three")
	w.run(w.now + sec)
	o.want(t, "a write on three", nil)
	for _, h := range []*host{p, more[0]} {
		h.retired = true
		h.crash()
	}
	for _, h := range w.hosts {
		h.cutTo = [simHosts]bool{}
	}
	w.run(w.now + 20*sec)
	if next := w.primary(); next == nil || string(next.disk.live.data[4]) != "on three" {
		t.Error("three of five have no primary with the write")
	}
}

// A concern counts members that have applied the entry, by number and by tags; an
// idle primary writes a noop now and then, and where somebody waits for a time.
func TestConcernsAndTimes(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	far := w.others(p)[1]
	w.reconfig(p, func(c *Config) {
		for i := range c.Members {
			c.Members[i].Tags = []Tag{{"dc", "near"}}
		}
		c.Members[far.n].Tags = []Tag{{"dc", "far"}}
		c.Modes = []Mode{{"both", []ModeTag{{"dc", 2}}}}
	})
	w.run(w.now + sec)
	w.isolate(far, true)
	o := w.write(p, 1, "x")
	w.run(w.now + 500*ms)
	met := map[string]error{}
	for name, c := range map[string]Concern{"two": {N: 2}, "three": {N: 3}, "both": {Mode: "both"}, "majority": {Mode: Majority}} {
		met[name] = errBusy
		p.do(func() { p.g.WaitConcern(o.at, c, func(err error) { met[name] = err }) })
	}
	if met["two"] != nil || met["majority"] != nil || met["three"] != errBusy || met["both"] != errBusy {
		t.Errorf("without one member: %v", met)
	}
	w.isolate(far, false)
	w.run(w.now + 5*sec)
	if met["three"] != nil || met["both"] != nil {
		t.Errorf("with all members: %v", met)
	}
	for range 5 { // who waits is not told with the next heartbeat, but when it is so
		o := w.write(p, 1, "y")
		behind := func(h *host) bool { return h.g.applied.Index < o.at.Index }
		for end := w.now + sec; w.now < end && (o.at.Index == 0 || slices.ContainsFunc(w.hosts, behind)); {
			w.run(w.now + 5*ms) // where messages overtake each other, until the next heartbeat
		}
		err := error(errBusy)
		p.do(func() { p.g.WaitConcern(o.at, Concern{N: 3}, func(e error) { err = e }) })
		if w.run(w.now + 30*ms); err != nil {
			t.Errorf("a write on all members is waited for: %v", err)
		}
	}
	before := p.g.applied
	w.run(w.now + 25*sec)
	if n := p.g.applied.Index - before.Index; n < 2 || n > 3 {
		t.Errorf("%d entries in 25 idle seconds", n)
	}
	for i := range 10 { // an idle set writes a noop at once, and not with a tick
		on, name, ended := []*host{p, far}[i%2], []string{"the primary", "a secondary"}[i%2], false
		soon := p.g.Clock.Now() + 100
		on.do(func() { on.g.WaitTime(soon, func(err error) { ended = err == nil }) })
		if w.run(w.now + 30*ms); !ended || on.g.applied.Time < soon {
			t.Errorf("%s waits for %v at %v", name, soon, on.g.applied.Time)
		}
		w.run(w.now + sec)
	}
}

// TestCoveredMessages holds which messages of a round are not sent, since another one
// says the same and more: none that tells something of its own may be among them.
func TestCoveredMessages(t *testing.T) {
	message := func(kind raftpb.MessageType, to, index, commit uint64, reject bool, entries ...*raftpb.Entry) *raftpb.Message {
		return &raftpb.Message{Type: kind.Enum(), To: &to, Term: new(uint64(3)), Index: &index, Commit: &commit, Reject: &reject, Entries: entries}
	}
	entry := &raftpb.Entry{}
	for _, c := range []struct {
		name    string
		is      bool
		m, next *raftpb.Message
	}{
		{"a commit before entries", true, message(raftpb.MsgApp, 2, 7, 6, false), message(raftpb.MsgApp, 2, 7, 6, false, entry)},
		{"to another member", false, message(raftpb.MsgApp, 2, 7, 6, false), message(raftpb.MsgApp, 3, 7, 6, false, entry)},
		{"entries before a commit", false, message(raftpb.MsgApp, 2, 7, 5, false, entry), message(raftpb.MsgApp, 2, 8, 6, false)},
		{"an answer before a further one", true, message(raftpb.MsgAppResp, 1, 7, 0, false), message(raftpb.MsgAppResp, 1, 8, 0, false)},
		{"a refusal", false, message(raftpb.MsgAppResp, 1, 7, 0, true), message(raftpb.MsgAppResp, 1, 8, 0, false)},
		{"an answer before a refusal", false, message(raftpb.MsgAppResp, 1, 7, 0, false), message(raftpb.MsgAppResp, 1, 8, 0, true)},
		{"a vote", false, message(raftpb.MsgVoteResp, 1, 7, 0, false), message(raftpb.MsgVoteResp, 1, 8, 0, false)},
	} {
		if covered(c.m, []*raftpb.Message{c.next}) != c.is {
			t.Errorf("%s: covered is %v", c.name, !c.is)
		}
	}
}

// The log is not truncated past what is applied durably (rule 11).
func TestTruncateKeepsWhatIsNotDurable(t *testing.T) {
	w := calmSet(t, 1)
	p := w.primary()
	w.write(p, 1, "x")
	last := p.g.applied.Index
	p.do(func() {
		if err := p.g.Truncate(last + 100); err != nil {
			t.Error(err)
		}
	})
	if base := p.disk.Base().Index; base != p.disk.durable.at.Index || base >= last {
		t.Errorf("truncated at %d; durable is %d, applied %d", base, p.disk.durable.at.Index, last)
	}
}

// Messages that only this member may make itself are not taken from others.
func TestForgedMessages(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	other := w.others(p)[0]
	w.write(p, 1, "x") // so that no noop is due
	w.run(w.now + sec)
	for _, kind := range []raftpb.MessageType{raftpb.MsgProp, raftpb.MsgReadIndex, raftpb.MsgHup, raftpb.MsgBeat} {
		p.do(func() {
			p.g.Step(other.id, &raftpb.Message{Type: kind.Enum(), From: &other.id, To: &p.id, Entries: []*raftpb.Entry{{Data: []byte("x")}}}, Report{})
		})
	}
	before := p.g.Log.Last()
	w.run(w.now + 2*sec)
	if w.primary() != p || p.g.Log.Last() != before {
		t.Error("a forged message had an effect")
	}
}

// What waits for a majority is bounded: raft drops what is proposed beyond that, and with it
// fails all that was evaluated before (rules 9, 19). An entry of 16 MB is one.
func TestUncommittedIsBounded(t *testing.T) {
	w := calmSet(t, 3)
	p := w.primary()
	w.isolate(p, true)
	const size = 16 << 20
	var outcomes [maxUncommittedBytes/size + 3]outcome
	for i := range outcomes {
		p.do(func() {
			ev, err := p.g.Evaluate()
			if err != nil {
				t.Fatal(err)
			}
			p.g.Propose(ev, encodeWrites([]write{{1, make([]byte, size)}}), nil, outcomes[i].set)
		})
	}
	dropped := 0
	for _, o := range outcomes {
		if o.done && errors.Is(o.err, ErrDropped) {
			dropped++
		}
	}
	if waiting := len(p.g.inflight); waiting+dropped != len(outcomes) || waiting*size > maxUncommittedBytes+size || waiting < 2 {
		t.Errorf("%d of %d wait, %d were dropped", waiting, len(outcomes), dropped)
	}
	if p.g.epoch == 0 {
		t.Error("what was evaluated before that is not refused")
	}
}
