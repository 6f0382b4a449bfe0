package repl

import (
	"bytes"
	"container/heap"
	crand "crypto/rand"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/sim"
	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// Virtual time is in microseconds.
const (
	ms  = int64(1000)
	sec = 1000 * ms
)

// event is something that happens at a virtual time.
type event struct {
	at, seq int64
	f       func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// simHosts bounds the machines of a simulated set.
const simHosts = 7

// world is a set of members in virtual time, on one goroutine and from one seed.
type world struct {
	rng     *rand.Rand
	now     int64
	seq     int64
	events  events
	hosts   []*host
	set     [12]byte
	plant   func(*host)  // plants a bug in a member that starts
	tap     func([]byte) // sees each frame
	only    []int        // cases of nemesis; nil for all
	stores  bool         // real stores run beside the models of disks
	calm    bool         // the network and the machines behave
	failure error

	leaders   map[uint64]uint64   // of a term
	committed map[uint64]uint64   // index to a hash of the entry
	times     map[uint64]Position // of committed entries with a time
	acked     []acked
	lists     []sim.ListTxn
	registers []sim.RegisterOp
	nextValue int
	stats     stats
}

// stats counts what has happened.
type stats struct{ elections, crashes, snapshots, configs, dropped, unknown, acked, hot, fewer, chains int }

func (s *stats) add(o stats) {
	s.elections += o.elections
	s.crashes += o.crashes
	s.snapshots += o.snapshots
	s.configs += o.configs
	s.dropped += o.dropped
	s.unknown += o.unknown
	s.acked += o.acked
	s.hot += o.hot
	s.fewer += o.fewer
	s.chains += o.chains
}

// acked is a write that a client was told of.
type acked struct {
	at   Position
	hash uint64
}

// host is one machine: a disk, and most of the time a process with a member.
type host struct {
	w       *world
	n       int
	id      uint64
	disk    *disk
	g       *Group
	life    int   // rises with each start and crash
	skew    int64 // of the clock on the wall
	cutTo   [simHosts]bool
	slowTo  [simHosts]bool
	locks   map[int]bool
	inbox   *inbox         // of its process
	pending *pending.Table // what its inbox and log have of keys
	// careless is a bug planted on purpose: versions of any evaluation are read.
	careless bool
	applied  uint64
	retired  bool
	chaining bool // a chain is being committed
}

// seededReader gives raft its election timeouts.
type seededReader struct{ rng *rand.ChaCha8 }

func (r seededReader) Read(p []byte) (int, error) { return r.rng.Read(p) }

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 0x6d61)), leaders: map[uint64]uint64{}, committed: map[uint64]uint64{}, times: map[uint64]Position{}}
	w.now = 1_700_000_000 * sec
	w.set[0] = byte(seed)
	return w
}

func (w *world) at(delay int64, f func()) {
	w.seq++
	heap.Push(&w.events, event{w.now + max(delay, 0), w.seq, f})
}

func (w *world) fail(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

// run lets events happen until a time.
func (w *world) run(until int64) {
	for len(w.events) > 0 && w.events[0].at <= until && w.failure == nil {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.f()
	}
	w.now = max(w.now, until)
}

func (w *world) chance(percent float64) bool { return w.rng.Float64()*100 < percent }

func (w *world) between(a, b int64) int64 { return a + w.rng.Int64N(b-a+1) }

func (w *world) addHost() *host {
	h := &host{w: w, n: len(w.hosts), disk: newDisk(), id: w.rng.Uint64() | 1}
	w.hosts = append(w.hosts, h)
	if w.stores {
		var err error
		if h.disk.twin, err = openTwin(storage.NewMemFS()); err != nil {
			w.fail("host %d: %v", h.n, err)
		}
	}
	return h
}

func (h *host) member() MemberConfig {
	return MemberConfig{ID: int32(h.n), Host: fmt.Sprintf("h%d:1", h.n), Raft: h.id, Priority: 1, Votes: 1}
}

// clock is the host's wall clock.
func (h *host) clock() *Clock {
	return NewClock(func() time.Time { return time.UnixMicro(h.w.now + h.skew) }, DefaultMaxDrift)
}

// start starts the host's process.
func (h *host) start() {
	if h.g != nil || h.retired {
		return
	}
	h.life++
	h.locks, h.inbox, h.pending, h.chaining = map[int]bool{}, new(inbox), new(pending.Table), false
	g, err := NewGroup(Options{ID: h.id, Log: h.disk, Machine: h.disk, Out: simOutbox{h, h.life}, Clock: h.clock(), Logger: simLog, Primary: h.inbox.primary, Beside: h.beside(h.life)})
	if err != nil {
		h.w.fail("host %d does not start: %v", h.n, err)
		return
	}
	h.g, h.applied = g, g.applied.Index
	if h.w.plant != nil {
		h.w.plant(h)
	}
	h.tick(h.life)
}

var simLog *slog.Logger // a test sets it to see what happens

// beside is the goroutine that applies the last entries of chains.
func (h *host) beside(life int) func(work func() error) {
	return func(work func() error) {
		h.w.at(h.w.between(ms, 3*sec), func() {
			h.alive(life, func() {
				if err := h.g.Applied(work()); err != nil {
					h.w.fail("host %d: %v", h.n, err)
				}
			})
		})
	}
}

func (h *host) tick(life int) {
	if h.life != life || h.g == nil {
		return
	}
	h.do(func() { h.g.Tick() })
	h.w.at(h.w.between(90*ms, 110*ms), func() { h.tick(life) })
}

// do lets something happen to the host's member, and the member do its work; the
// process may die of it.
func (h *host) do(f func()) {
	if h.g == nil || h.w.failure != nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crashed); !ok {
				h.w.fail("host %d: panic: %v\n%s", h.n, r, debug.Stack())
			}
			h.crash()
		}
	}()
	f()
	for more := true; more && h.g != nil; {
		var err error
		if more, err = h.g.Round(); err != nil {
			h.w.fail("host %d: %v", h.n, err)
			return
		}
		h.check()
	}
}

// crash ends the process, and the machine with it.
func (h *host) crash() {
	if h.g == nil {
		return
	}
	h.w.stats.crashes++
	g := h.g
	h.g = nil
	h.life++
	if err := h.disk.crash(h.w.rng); err != nil {
		h.w.fail("host %d after a crash: %v", h.n, err)
	}
	g.failAll(ErrSteppedDown)              // the clients' connections break
	if h.w.only == nil && h.w.chance(50) { // where a bug is looked for, elections take their time
		h.w.at(h.w.between(ms, 200*ms), func() { h.w.gone(h) })
	}
	if !h.retired {
		down := h.w.between(50*ms, 3*sec)
		if h.w.chance(30) {
			down = h.w.between(ms, 50*ms)
		}
		h.w.at(down, h.start)
	}
}

// gone tells the others that a host's process has ended, if it was the leader's.
func (w *world) gone(h *host) {
	for _, o := range w.hosts {
		if o.g != nil && o.g.lead == h.id && w.chance(90) {
			o.do(func() { o.g.LeaderGone() })
		}
	}
}

// check holds the invariants of the set against what a member has become.
func (h *host) check() {
	w, g := h.w, h.g
	if g.role == Leader {
		if other, ok := w.leaders[g.term]; ok && other != h.id {
			w.fail("one leader a term: %x and %x lead in term %d", other, h.id, g.term)
		} else if !ok {
			w.leaders[g.term] = h.id
			w.stats.elections++
		}
	}
	if g.primary && (g.role != Leader || g.applied.Term != g.term || !g.isElectable()) {
		w.fail("own-term: host %d serves as primary of term %d at %v", h.n, g.term, g.applied)
	}
	at := h.disk.live.at
	if at.Index < h.applied {
		w.fail("applied in order: host %d went back from %d to %d", h.n, h.applied, at.Index)
	}
	for i := max(h.applied+1, h.disk.First()); i <= at.Index; i++ {
		e := h.disk.live.entries[i-h.disk.First()]
		w.commit(h, i, e)
	}
	h.applied = at.Index
	if at.Index > 1 && g.state.conf != nil && len(g.state.conf.GetVotersOutgoing()) == 0 && len(g.state.config.changes(g.state.conf)) > 0 {
		w.fail("members change with the configuration: host %d has %v and %v", h.n, g.state.config, g.state.conf)
	}
}

func hashEntry(term uint64, data []byte) uint64 {
	f := fnv.New64a()
	fmt.Fprint(f, term)
	f.Write(data)
	return f.Sum64()
}

// commit notes an entry that a member has applied.
func (w *world) commit(h *host, index uint64, e *raftpb.Entry) {
	sum := hashEntry(e.GetTerm(), e.GetData())
	if old, ok := w.committed[index]; ok {
		if old != sum {
			w.fail("committed entries never change: host %d has another entry %d", h.n, index)
		}
		return
	}
	w.committed[index] = sum
	if t, ok := entryTime(e); ok {
		for i := index - 1; i > 0; i-- {
			if p, ok := w.times[i]; ok {
				if p.Time >= t {
					w.fail("times rise: entry %d has %v, entry %d has %v", index, t, i, p.Time)
				}
				break
			}
		}
		w.times[index] = Position{Time: t}
	}
}

// simOutbox is the network.
type simOutbox struct {
	h    *host
	life int
}

func (o simOutbox) Send(to uint64, m *raftpb.Message, r Report) {
	o.h.disk.point()
	w := o.h.w
	dst := w.byID(to)
	if dst == nil || dst == o.h {
		return
	}
	b, err := (&Frame{Set: w.set, From: o.h.id, To: to, Report: r, Message: m}).encode()
	if err != nil {
		w.fail("%v", err)
		return
	}
	if w.tap != nil {
		w.tap(b)
	}
	if o.h.cutTo[dst.n] || !w.calm && w.chance(2) {
		if w.chance(50) {
			w.at(100*ms, func() { o.h.alive(o.life, func() { o.h.g.ReportUnreachable(to) }) })
		}
		return
	}
	copies := 1
	if !w.calm && w.chance(2) {
		copies = 2
	}
	for range copies {
		delay := w.between(200, 5*ms)
		switch {
		case w.calm:
		case o.h.slowTo[dst.n]:
			delay = w.between(700*ms, 1900*ms)
		case w.chance(5):
			delay = w.between(5*ms, 300*ms)
		case w.chance(1):
			delay = w.between(300*ms, 4*sec)
		}
		w.at(delay, func() { dst.receive(b) })
	}
}

func (h *host) receive(b []byte) {
	f, err := decodeFrame(b)
	if err != nil {
		h.w.fail("%v", err)
		return
	}
	if f.To == h.id {
		h.do(func() {
			if err := h.g.check(f.From, f.Message, f.Report); err != nil {
				h.w.fail("frames of members are taken: host %d: %v", h.n, err)
			}
			h.g.Step(f.From, f.Message, f.Report)
		})
	}
}

// alive does something with a process that is still the same.
func (h *host) alive(life int, f func()) {
	if h.life == life && h.g != nil {
		h.do(f)
	}
}

func (o simOutbox) SendSnapshot(m *raftpb.Message) {
	w, to := o.h.w, m.GetTo()
	data := o.h.disk.live.clone()
	copyTo := func(*twin) error { return nil }
	if w.stores {
		var err error
		if copyTo, err = o.h.disk.twin.snapshot(int(w.seq)); err != nil {
			w.fail("checkpoint: %v", err)
			return
		}
	}
	dst := w.byID(to)
	took := w.between(20*ms, 500*ms)
	w.at(took, func() {
		ok := dst != nil && dst.g != nil && !o.h.cutTo[dst.n] && !dst.cutTo[o.h.n] && (w.calm || !w.chance(10))
		if ok {
			if err := copyTo(dst.disk.twin); err != nil {
				w.fail("copy a snapshot: %v", err)
			}
			dst.take(m, data)
			w.stats.snapshots++
		}
		o.h.alive(o.life, func() { o.h.g.ReportSnapshot(to, ok) })
	})
}

// take receives a snapshot: its own place counts, not that of the message.
func (h *host) take(m *raftpb.Message, data *content) {
	state, err := decodeGroupState(data.state)
	if err != nil {
		h.w.fail("%v", err)
		return
	}
	h.disk.incoming = data
	m = cloneMessage(m)
	m.Snapshot.Metadata = &raftpb.SnapshotMetadata{Index: &data.at.Index, Term: &data.at.Term, ConfState: state.conf}
	h.do(func() { h.g.Step(m.GetFrom(), m, Report{}) })
}

func cloneMessage(m *raftpb.Message) *raftpb.Message {
	b, err := (&Frame{From: m.GetFrom(), To: m.GetTo(), Message: m}).encode()
	if err != nil {
		panic(err)
	}
	f, err := decodeFrame(b)
	if err != nil {
		panic(err)
	}
	return f.Message
}

func (w *world) byID(id uint64) *host {
	for _, h := range w.hosts {
		if h.id == id {
			return h
		}
	}
	return nil
}

// primary is a host whose member says that it is one.
func (w *world) primary() *host {
	var found []*host
	for _, h := range w.hosts {
		if h.g != nil && h.g.primary {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return found[w.rng.IntN(len(found))]
}

// setup makes a set of so many members.
func (w *world) setup(members int) {
	first := w.addHost()
	c := &Config{Set: "rs0", ID: w.set, Version: 1, Election: defaultElection, Members: []MemberConfig{first.member()}}
	for len(w.hosts) < members {
		w.addHost()
	}
	if w.chance(50) { // all vote from the beginning
		for _, h := range w.hosts[1:] {
			c.Members = append(c.Members, h.member())
		}
	}
	if err := Found(first.disk, c, first.clock()); err != nil {
		w.fail("found: %v", err)
		return
	}
	w.committed[founded.Index] = hashEntry(0, nil)
	for _, h := range w.hosts {
		h.start()
	}
	w.at(sec, func() { w.join(members) })
}

// join adds hosts one at a time until the set has so many members.
func (w *world) join(members int) {
	p := w.primary()
	if p == nil || len(p.g.state.config.Members) >= members {
		if p == nil {
			w.at(sec, func() { w.join(members) })
		}
		return
	}
	c := p.g.state.config.clone()
	c.Version++
	h := w.hosts[len(c.Members)]
	c.Members = append(c.Members, h.member())
	p.do(func() {
		p.g.ProposeConfig(c, func(Position, error) { w.at(500*ms, func() { w.join(members) }) })
	})
}

// nemesis disturbs the set until a time.
func (w *world) nemesis(until int64) {
	if w.now >= until {
		return
	}
	w.at(w.between(50*ms, 1500*ms), func() { w.nemesis(until) })
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if p := w.primary(); p != nil && w.chance(30) {
		h = p
	}
	what := w.rng.IntN(17)
	if w.only != nil {
		what = w.only[w.rng.IntN(len(w.only))]
	}
	switch what {
	case 0:
		h.crash()
	case 1, 2: // in the middle of its work
		h.disk.crashIn = w.rng.IntN(12)
	case 3, 4: // cut one way
		other := w.rng.IntN(len(w.hosts))
		h.cutTo[other] = true
		w.at(w.between(200*ms, 5*sec), func() { h.cutTo[other] = false })
	case 5, 6: // cut off, both ways
		for i, o := range w.hosts {
			h.cutTo[i], o.cutTo[h.n] = true, true
		}
		w.at(w.between(500*ms, 5*sec), func() {
			for i, o := range w.hosts {
				h.cutTo[i], o.cutTo[h.n] = false, false
			}
		})
	case 7:
		h.skew = w.between(-3600*sec, 3600*sec)
	case 8:
		if p := w.primary(); p != nil {
			p.do(func() { _ = p.g.StepDown(uint64(w.rng.IntN(20))) })
		}
	case 9:
		if p := w.primary(); p != nil && w.chance(30) {
			p.do(func() { _ = p.g.ForceStepDown(uint64(w.rng.IntN(20))) })
		}
	case 10:
		w.reconfigure()
	case 11:
		if h.g != nil {
			h.do(func() {
				if err := h.g.Truncate(h.g.applied.Index - min(h.g.applied.Index, uint64(w.rng.IntN(20)))); err != nil {
					w.fail("truncate: %v", err)
				}
			})
		}
	case 12: // a primary hears of its successor late
		for _, o := range w.hosts {
			o.slowTo[h.n] = true
		}
		w.at(w.between(50*ms, 800*ms), func() {
			h.do(func() { _ = h.g.StepDown(0) })
			h.cutTo = [simHosts]bool{true, true, true, true, true, true, true}
			if w.chance(50) {
				h.cutTo = [simHosts]bool{}
			}
		})
		w.at(w.between(2*sec, 5*sec), func() {
			h.cutTo = [simHosts]bool{}
			for _, o := range w.hosts {
				o.slowTo[h.n] = false
			}
		})
	case 13, 14:
		w.pingPong(w.rng.IntN(4))
	case 16:
		h.do(func() { h.g.Freeze(freezeTicks) })
	case 15: // a rumour, or two
		for _, o := range w.hosts {
			if o.g != nil && w.chance(60) {
				o.do(func() { o.g.LeaderGone() })
			}
		}
	}
}

// pingPong has primaries hand over to each other quickly.
func (w *world) pingPong(times int) {
	if p := w.primary(); p != nil {
		p.do(func() { _ = p.g.StepDown(0) })
	}
	if times > 0 {
		w.at(w.between(100*ms, 800*ms), func() { w.pingPong(times - 1) })
	}
}

// reconfigure changes the set: priorities, a vote, or a machine whose disk was lost.
func (w *world) reconfigure() {
	p := w.primary()
	if p == nil {
		return
	}
	c := p.g.state.config.clone()
	c.Version++
	i := w.rng.IntN(len(c.Members))
	switch m := &c.Members[i]; w.rng.IntN(3) {
	case 0:
		m.Priority = float64(w.rng.IntN(3) * m.Votes)
	case 1:
		m.Votes = 1 - m.Votes
		m.Priority = float64(m.Votes)
	case 2: // replaced by an empty machine with a new raft id
		old := w.byID(m.Raft)
		if len(w.hosts) == simHosts || old == p {
			return
		}
		h := w.addHost()
		h.start()
		c.Members = slices.Delete(c.Members, i, i+1)
		p.do(func() {
			p.g.ProposeConfig(c, func(_ Position, err error) {
				if err == nil {
					w.at(100*ms, func() { w.addMember(h, 20) })
				}
			})
		})
		return
	}
	p.do(func() {
		p.g.ProposeConfig(c, func(_ Position, err error) {
			if err == nil {
				w.stats.configs++
			}
		})
	})
}

func (w *world) addMember(h *host, tries int) {
	again := func() {
		if tries > 0 {
			w.at(500*ms, func() { w.addMember(h, tries-1) })
		}
	}
	p := w.primary()
	if p == nil {
		again()
		return
	}
	if p.g.state.config.Member(h.id) != nil {
		return
	}
	c := p.g.state.config.clone()
	c.Version++
	c.Members = append(c.Members, h.member())
	p.do(func() {
		p.g.ProposeConfig(c, func(_ Position, err error) {
			if err != nil {
				again()
			} else {
				w.stats.configs++
			}
		})
	})
}

const (
	// freezeTicks is how long the nemesis freezes a member: longer than an election takes.
	freezeTicks = 600
	// patience is after how long those who can elect a primary must have one.
	patience = 10 * int64(defaultElection/time.Microsecond)
)

// fewer lets as few hosts as can elect a primary talk to each other, some of them frozen,
// without any other disturbance, and the primary is not among them: they must have
// another one soon.
func (w *world) fewer() {
	p := w.primary()
	if p == nil || w.failure != nil || len(p.g.state.conf.GetVotersOutgoing()) > 0 {
		return
	}
	for _, h := range w.hosts {
		h.cutTo, h.slowTo, h.disk.crashIn = [simHosts]bool{}, [simHosts]bool{}, -1
		h.start()
	}
	w.calm = true
	voters := p.g.state.conf.GetVoters()
	away := map[*host]bool{p: true}
	for _, i := range w.rng.Perm(len(voters)) {
		if h := w.byID(voters[i]); len(away) < (len(voters)-1)/2 {
			away[h] = true
		}
	}
	able, known := false, true
	for _, id := range voters {
		if h := w.byID(id); h.g != nil && !away[h] {
			able = able || h.g.mayCampaign()
			known = known && h.g.state.config != nil && h.g.state.config.Version == p.g.state.config.Version
			for _, e := range h.disk.live.entries { // one that is to be committed yet
				known = known && (e.GetIndex() <= h.g.applied.Index || e.GetType() == raftpb.EntryNormal)
			}
		}
	}
	if !able || !known || len(away) > (len(voters)-1)/2 {
		return // nobody may lead, or not all know who votes
	}
	w.stats.fewer++
	for until := w.now + patience + 2*sec; w.now < until && w.failure == nil; {
		for h := range away { // again, as the nemesis heals what it has cut
			w.isolate(h, true)
		}
		w.run(w.now + 10*ms)
		for _, h := range w.hosts {
			if h.g != nil && h.g.primary && !away[h] {
				return
			}
		}
	}
	w.fail("who can have a primary has one: a majority without host %d has none", p.n)
}

// settle ends all disturbance and lets the set come to rest.
func (w *world) settle() {
	w.calm = true
	for _, h := range w.hosts {
		h.cutTo, h.slowTo = [simHosts]bool{}, [simHosts]bool{}
		h.disk.crashIn = -1
		h.skew = 0
		h.start()
		h.do(func() { h.g.Freeze(0) })
	}
	for range 30 {
		w.run(w.now + 2*sec)
		if w.failure != nil || w.rested() {
			return
		}
	}
	w.fail("the set did not come to rest")
}

// rested says whether all members hold the same, and there is one primary.
func (w *world) rested() bool {
	var p *host
	for _, h := range w.hosts {
		if h.g != nil && h.g.primary {
			if p != nil {
				return false
			}
			p = h
		}
	}
	if p == nil {
		return false
	}
	for _, m := range p.g.state.config.Members {
		h := w.byID(m.Raft)
		if h == nil || h.g == nil || h.g.applied.Index != p.g.applied.Index || m.Joining {
			return false
		}
	}
	return true
}

// judge holds the end against the history.
func (w *world) judge() {
	p := w.primary()
	if w.failure != nil || p == nil {
		return
	}
	for _, m := range p.g.state.config.Members {
		h := w.byID(m.Raft)
		for k, v := range p.disk.live.data {
			if !bytes.Equal(h.disk.live.data[k], v) {
				w.fail("secondaries equal the primary: host %d has another value of %d", h.n, k)
			}
		}
	}
	for _, a := range w.acked {
		if got := w.committed[a.at.Index]; got != a.hash {
			w.fail("acknowledged never lost: entry %d of term %d is gone", a.at.Index, a.at.Term)
		}
	}
	if err := sim.CheckRegisters(w.registers, 10*time.Second); err != nil {
		w.fail("%v", err)
	}
	if a := sim.CheckLists(w.lists); a != nil {
		w.fail("%v", a)
	}
}

// simulate runs one seed; plant may put a bug into each member that starts.
func simulate(seed uint64, plant func(*host), only ...int) *world {
	return simulateOn(seed, plant, false, only...)
}

func simulateOn(seed uint64, plant func(*host), stores bool, only ...int) *world {
	var key [32]byte
	key[0], key[1], key[2], key[3] = byte(seed), byte(seed>>8), byte(seed>>16), byte(seed>>24)
	old := crand.Reader
	crand.Reader = seededReader{rand.NewChaCha8(key)}
	defer func() { crand.Reader = old }()

	w := newWorld(seed)
	w.plant, w.only, w.stores = plant, only, stores
	members := 3
	if w.chance(30) {
		members = 5
	}
	w.setup(members)
	w.run(w.now + 8*sec)
	end := w.now + 20*sec
	w.nemesis(end)
	for c := range 4 {
		w.client(c, end)
	}
	w.run(end)
	w.fewer()
	w.run(max(w.now, end+sec)) // what the nemesis has begun ends
	w.settle()
	w.finalReads()
	w.run(w.now + 5*sec)
	w.judge()
	return w
}

func isUnknown(err error) bool { return err == ErrSteppedDown }

func TestSimulation(t *testing.T) {
	seeds, first := uint64(*simSeeds), uint64(*simFirst)
	var total stats
	for seed := first; seed < first+seeds; seed++ {
		w := simulate(seed, nil)
		if w.failure != nil {
			t.Fatalf("seed %d: %v", seed, w.failure)
		}
		total.add(w.stats)
	}
	t.Logf("%d seeds: %+v", seeds, total)
	if seeds >= 100 && (total.elections == 0 || total.crashes == 0 || total.snapshots == 0 || total.configs == 0 || total.dropped == 0 || total.unknown == 0 || total.hot == 0 || total.fewer == 0 || total.chains == 0) {
		t.Error("the simulation does not do what it is for")
	}
}

// A seed is a history: the same one each time.
func TestSimulationRepeats(t *testing.T) {
	for seed := uint64(1000); seed < 1003; seed++ {
		a, b := simulate(seed, nil), simulate(seed, nil)
		if a.seq != b.seq || a.now != b.now || a.stats != b.stats || !maps.Equal(a.committed, b.committed) {
			t.Errorf("seed %d: %d events and %+v, then %d and %+v", seed, a.seq, a.stats, b.seq, b.stats)
		}
	}
}

// Bugs planted on purpose, and what they break. Each is looked for where it
// hurts: only what the nemesis does then is chosen.
func TestSimulationFindsBugs(t *testing.T) {
	const seeds = 1000
	for _, c := range []struct {
		name  string
		only  []int
		plant func(*host)
	}{
		{"a vote is not synced", []int{3, 5, 13, 13}, func(h *host) {
			h.disk.lies = true
			h.disk.syncs = func(hard *raftpb.HardState, entries []*raftpb.Entry) bool {
				if vote := hard.GetVote(); len(entries) == 0 && vote != 0 && vote != h.id && !h.w.calm {
					h.disk.crashIn = 1 // once it has told another one
				}
				return len(entries) > 0
			}
		}},
		{"an append is not synced", nil, func(h *host) {
			h.disk.lies = true
			h.disk.syncs = func(_ *raftpb.HardState, entries []*raftpb.Entry) bool { return len(entries) == 0 }
		}},
		{"messages leave before what they promise is on disk", []int{1, 2}, func(h *host) {
			h.g.seams.early = func(Role, *raftpb.Message) bool { return true }
		}},
		{"the context of a ReadIndex is used again", []int{12}, func(h *host) {
			h.g.seams.context = func() []byte { return []byte("one") }
		}},
		{"a frozen member never leads as the last resort", []int{3, 5, 16, 16}, func(h *host) {
			h.g.seams.resort = func() bool { return h.g.ticks >= h.g.frozen }
		}},
		{"a version of another evaluation is read", nil, func(h *host) { h.careless = true }},
		{"an entry of an old term is applied", []int{13}, func(h *host) {
			h.g.seams.stale = func(uint64, uint64) bool { return false }
		}},
	} {
		found := error(nil)
		seed := uint64(1)
		for ; seed <= seeds && found == nil; seed++ {
			found = simulate(seed, c.plant, c.only...).failure
		}
		if found == nil {
			t.Errorf("%s: not found in %d seeds", c.name, seeds)
			continue
		}
		t.Logf("%s: seed %d: %.200v", c.name, seed-1, found)
	}
}
