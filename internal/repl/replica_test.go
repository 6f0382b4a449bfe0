package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
	"google.golang.org/grpc/test/bufconn"
)

// writes are Effects of keys and values in one keyspace.
type writes struct{ e *storage.Engine }

func (w writes) Apply(run []Change) error {
	var units []*storage.Unit
	for _, c := range run {
		u := w.e.Begin()
		defer u.Abort()
		for _, x := range decodeWrites(c.Payload) {
			if err := u.Set(storage.FirstIdent, binary.BigEndian.AppendUint64(nil, uint64(x.key)), x.value); err != nil {
				return err
			}
		}
		if err := u.Seal(); err != nil {
			return err
		}
		units = append(units, u)
	}
	return w.e.ApplyAll(units, run[len(run)-1].At.Index)
}

func (writes) Close() error { return nil }

// machines are processes in this one, with a network in memory.
type machines struct {
	t  testing.TB
	mu sync.Mutex
	l  map[string]*bufconn.Listener

	window Window // of members
	key    []byte // that they share
	// failed is told of a member that cannot continue; nil where none may fail.
	failed func(host string, err error)
}

func (ms *machines) dial(ctx context.Context, host string) (net.Conn, error) {
	ms.mu.Lock()
	l := ms.l[host]
	ms.mu.Unlock()
	if l == nil {
		return nil, errors.New("no such host")
	}
	return l.DialContext(ctx)
}

// machine is one of them.
type machine struct {
	*Replica
	ms    *machines
	host  string
	fs    *storage.MemFS
	clock *Clock
	serve sync.WaitGroup
	n     *Network
}

func (ms *machines) start(host string, fs *storage.MemFS, found bool) *machine {
	t := ms.t
	t.Helper()
	m := &machine{ms: ms, host: host, fs: fs, clock: NewClock(time.Now, DefaultMaxDrift)}
	s, err := OpenStore(StoreOptions{FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}, Effects: func(e *storage.Engine) (Effects, error) { return writes{e}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	if found {
		c := &Config{Set: "rs0", ID: [12]byte{7}, Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{{Host: host, Raft: s.ID(), Priority: 1, Votes: 1}}}
		if err := Found(s, c, m.clock); err != nil {
			t.Fatal(err)
		}
	}
	l := bufconn.Listen(1 << 20)
	ms.mu.Lock()
	ms.l[host] = l
	ms.mu.Unlock()
	m.n = NewNetwork(NetworkOptions{Host: host, Dial: ms.dial})
	m.Replica, err = StartReplica(s, m.n, m.clock, nil, func(err error) { t.Errorf("%s: %v", host, err) })
	if err != nil {
		t.Fatal(err)
	}
	m.serve.Add(1)
	go func() {
		defer m.serve.Done()
		if err := m.n.Serve(l); err != nil {
			t.Error(err)
		}
	}()
	return m
}

// stop ends the machine; what its disk has not synced is lost.
func (m *machine) stop() *storage.MemFS {
	m.t().Helper()
	m.ms.mu.Lock()
	delete(m.ms.l, m.host)
	m.ms.mu.Unlock()
	m.Stop()
	m.n.Close()
	m.serve.Wait()
	disk := m.fs.Crash(0, nil)
	if err := m.store.Close(); err != nil {
		m.t().Fatal(err)
	}
	return disk
}

func (m *machine) t() testing.TB { return m.ms.t }

// until waits for something to become true.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

func primaryOf(t testing.TB, all ...*machine) (p *machine) {
	t.Helper()
	until(t, "a primary", func() bool {
		for _, m := range all {
			if m.State().Primary {
				p = m
				return true
			}
		}
		return false
	})
	return p
}

// write writes one key.
func (m *machine) write(key int, value string) (Position, error) {
	ev, err := m.Evaluate()
	if err != nil {
		return Position{}, err
	}
	return m.Propose(ev, encodeWrites([]write{{key, []byte(value)}}), nil)
}

func (m *machine) read(key int) string {
	m.t().Helper()
	out := ""
	if err := m.Do(m.t().Context(), func(*Group) error {
		v, closer, err := m.store.engine.Get(storage.FirstIdent, binary.BigEndian.AppendUint64(nil, uint64(key)))
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		out = string(v)
		return closer.Close()
	}); err != nil {
		m.t().Fatal(err)
	}
	return out
}

// join adds a machine to the set and waits until it votes.
func join(t *testing.T, p, m *machine) {
	t.Helper()
	c := p.State().Config.clone()
	c.Version++
	c.Members = append(c.Members, MemberConfig{ID: int32(c.Version), Host: m.host, Raft: m.store.ID(), Priority: 1, Votes: 1})
	until(t, "a reconfiguration", func() bool {
		_, err := p.Reconfigure(t.Context(), c)
		if err != nil && !mongoerr.Is(err, mongoerr.ConfigurationInProgress) {
			t.Fatal(err)
		}
		return err == nil
	})
	until(t, m.host+" votes", func() bool {
		me := m.State().Config.Member(m.store.ID())
		return me != nil && me.Voter()
	})
}

func newMachines(t testing.TB) *machines {
	return &machines{t: t, l: map[string]*bufconn.Listener{}}
}

// Three machines on real stores: a set grows by snapshots, survives the loss of its
// primary, and takes it back.
func TestSetOfThree(t *testing.T) {
	ms := newMachines(t)
	a := ms.start("a:1", storage.NewMemFS(), true)
	b, c := ms.start("b:1", storage.NewMemFS(), false), ms.start("c:1", storage.NewMemFS(), false)
	primaryOf(t, a)
	for i := range 50 {
		if _, err := a.write(i, fmt.Sprint("before ", i)); err != nil {
			t.Fatal(err)
		}
	}
	join(t, a, b)
	join(t, a, c)
	at, err := a.write(100, "three")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*machine{b, c} {
		if err := m.WaitTime(t.Context(), at.Time); err != nil || m.read(100) != "three" || m.read(7) != "before 7" {
			t.Errorf("%s has %q and %q: %v", m.host, m.read(100), m.read(7), err)
		}
		if _, err := m.write(1, "no"); !errors.Is(err, ErrNotPrimary) {
			t.Errorf("a write to a secondary: %v", err)
		}
	}
	concerns(t, a, at)

	disk := a.stop()
	p := primaryOf(t, b, c)
	if _, err := p.write(101, "without a"); err != nil {
		t.Fatal(err)
	}
	a = ms.start("a:1", disk, false)
	if at, err = p.write(102, "with a"); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil || a.read(101) != "without a" || a.read(100) != "three" {
		t.Errorf("a has %q and %q: %v", a.read(101), a.read(100), err)
	}
	if err := p.ReadIndex(t.Context()); err != nil {
		t.Error(err)
	}
	for _, m := range []*machine{a, b, c} {
		m.stop()
	}
}

// concerns asks for what a set of three can and cannot give.
func concerns(t *testing.T, a *machine, at Position) {
	t.Helper()
	if err := a.WaitConcern(t.Context(), at, Concern{N: 4}); !mongoerr.Is(err, mongoerr.UnsatisfiableWriteConcern) {
		t.Errorf("w: 4: %v", err)
	}
	if err := a.WaitConcern(t.Context(), at, Concern{Mode: "far"}); !mongoerr.Is(err, mongoerr.UnknownReplWriteConcern) {
		t.Errorf("w: far: %v", err)
	}
	if err := a.WaitConcern(t.Context(), at, Concern{Mode: Majority}); err != nil {
		t.Errorf("w: majority: %v", err)
	}
	ahead := Timestamp(time.Now().Add(2*DefaultMaxDrift).Unix()) << 32
	if err := a.WaitTime(t.Context(), ahead); !mongoerr.Is(err, mongoerr.ClusterTimeFailsRateLimiter) {
		t.Errorf("a time far ahead: %v", err)
	}
	soon := a.State().Clock + 5
	if err := a.WaitTime(t.Context(), soon); err != nil || a.State().Applied.Time < soon {
		t.Errorf("a time that no write has: %v, at %v", err, a.State().Applied.Time)
	}
	late, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("wtimeout"))
	defer cancel()
	far := Position{Index: 1 << 40}
	if err := a.WaitConcern(late, far, Concern{N: 2}); err == nil || err.Error() != "wtimeout" {
		t.Errorf("w: 2 of what never comes: %v", err)
	}
	until(t, "the wait is gone", func() bool {
		left := 0
		if err := a.Do(t.Context(), func(g *Group) error { left = len(g.waits); return nil }); err != nil {
			t.Fatal(err)
		}
		return left == 0
	})
}

// A member that fell behind the log gets a snapshot, and keeps what is its own.
func TestMemberThatFellBehind(t *testing.T) {
	ms := newMachines(t)
	a := ms.start("a:1", storage.NewMemFS(), true)
	b, c := ms.start("b:1", storage.NewMemFS(), false), ms.start("c:1", storage.NewMemFS(), false)
	primaryOf(t, a)
	join(t, a, b)
	join(t, a, c)
	id := c.store.ID()
	u := c.store.engine.Begin()
	if err := errors.Join(u.Set(storage.FirstOwnIdent, []byte("own"), []byte("c's")), u.Commit(t.Context(), storage.Journaled)); err != nil {
		t.Fatal(err)
	}
	disk := c.stop()
	for i := range 200 {
		if _, err := primaryOf(t, a, b).write(i, strings.Repeat(fmt.Sprint(i), 100)); err != nil {
			t.Fatal(err)
		}
	}
	p := primaryOf(t, a, b)
	for _, m := range []*machine{a, b} {
		if err := m.Do(t.Context(), func(g *Group) error { return g.Truncate(g.applied.Index) }); err != nil {
			t.Fatal(err)
		}
	}
	c = ms.start("c:1", disk, false)
	at, err := p.write(500, "now")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil || c.read(150) != strings.Repeat("150", 100) {
		t.Errorf("c has %q: %v", c.read(150), err)
	}
	if c.store.ID() != id {
		t.Errorf("the raft id is %x, and was %x", c.store.ID(), id)
	}
	disk = c.stop()
	if place, err := storage.Place(disk, "db"); err != nil || place == "db" {
		t.Errorf("the store is in %s: %v", place, err)
	}
	c = ms.start("c:1", disk, false)
	v, closer, err := c.store.engine.Get(storage.FirstOwnIdent, []byte("own"))
	if err != nil || string(v) != "c's" {
		t.Errorf("its own is %q: %v", v, err)
	} else if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	if c.store.ID() != id {
		t.Errorf("after a crash the raft id is %x, and was %x", c.store.ID(), id)
	}
	// What was applied may have been on the disk in the log alone.
	until(t, "what the log has", func() bool { return c.read(150) == strings.Repeat("150", 100) })
	for _, m := range []*machine{a, b, c} {
		m.stop()
	}
}

// Strangers, members of other sets and wrong members are refused.
func TestFramesRefused(t *testing.T) {
	ms := newMachines(t)
	a := ms.start("a:1", storage.NewMemFS(), true)
	defer a.stop()
	primaryOf(t, a)
	set, id := a.State().Config.ID, a.store.ID()
	for _, c := range []struct {
		why   string
		frame Frame
	}{
		{"", Frame{Set: set, From: 5, To: id}},
		{"another replica set", Frame{Set: [12]byte{9}, From: 5, To: id}},
		{"another replica set", Frame{From: 5, To: id}},
		{"it has another data directory", Frame{Set: set, From: 5, To: id + 1}},
		{"no member of group", Frame{Set: set, Group: 3, From: 5, To: id}},
	} {
		_, err := a.n.admit(&c.frame)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%q: %v", c.why, err)
		}
	}
	removed := *a.State()
	removed.Config = removed.Config.clone()
	removed.Config.Removed = []uint64{5}
	m := &Replica{store: a.store}
	m.state.Store(&removed)
	n := &Network{members: map[Number]*Replica{0: m}}
	if _, err := n.admit(&Frame{Set: set, From: 5, To: id}); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a member that was removed: %v", err)
	}
	// Garbage ends its own stream only.
	conn, err := a.n.dial("a:1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i, b := range [][]byte{{}, []byte("garbage"), make([]byte, 1000)} {
		s, err := conn.NewStream(t.Context(), &peerService.Streams[i], "/mayfly.Replication/"+peerService.Streams[i].StreamName)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(b); err != nil {
			t.Fatal(err)
		}
		var answer []byte
		if err := s.RecvMsg(&answer); err == nil {
			t.Errorf("%.10x was answered %x", b, answer)
		}
	}
	if _, err := a.write(1, "still there"); err != nil {
		t.Error(err)
	}
}

// Who is about to make a set asks for the raft ids of its members. A member of a set
// tells its ids to those who know the set's, and strangers only that it has one.
func TestIdentify(t *testing.T) {
	ms := newMachines(t)
	a, b := ms.start("a:1", storage.NewMemFS(), true), ms.start("b:1", storage.NewMemFS(), false)
	defer func() { a.stop(); b.stop() }()
	for _, c := range []struct {
		host string
		of   [12]byte
		want Identity
	}{
		{"a:1", [12]byte{7}, Identity{Raft: a.store.ID(), Set: "rs0", ID: [12]byte{7}}},
		{"a:1", [12]byte{}, Identity{Set: "rs0"}},
		{"a:1", [12]byte{8}, Identity{Set: "rs0"}},
		{"b:1", [12]byte{7}, Identity{Raft: b.store.ID()}},
	} {
		if got, err := b.n.Identify(t.Context(), c.host, 0, c.of); err != nil || got != c.want {
			t.Errorf("%s is %+v to one of %x: %v", c.host, got, c.of, err)
		}
	}
	for host, group := range map[string]Number{"b:1": 3, "nobody:1": 0} {
		if _, err := a.n.Identify(t.Context(), host, group, [12]byte{}); !mongoerr.Is(err, mongoerr.NodeNotFound) {
			t.Errorf("group %d at %s: %v", group, host, err)
		}
	}
}

// lonely is a replica that nothing runs, of a set of one that it leads.
func lonely(t *testing.T, wall func() time.Time, log *slog.Logger, effects func(*storage.Engine) (Effects, error)) *Replica {
	t.Helper()
	fs := storage.NewMemFS()
	s, err := OpenStore(StoreOptions{FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}, Effects: effects})
	if err != nil {
		t.Fatal(err)
	}
	clock := NewClock(wall, DefaultMaxDrift)
	c := &Config{Set: "rs0", ID: [12]byte{7}, Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{{Host: "a:1", Raft: s.ID(), Priority: 1, Votes: 1}}}
	if err := Found(s, c, clock); err != nil {
		t.Fatal(err)
	}
	m, err := newReplica(s, nil, clock, log, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.g.Stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	m.standAlone()
	m.rounds(t)
	return m
}

// rounds runs rounds until there is nothing more to do.
func (m *Replica) rounds(t *testing.T) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = m.g.Round(); err != nil {
			t.Fatal(err)
		}
	}
}

// A round applies an entry, and then its disk hangs with the next one: who has been answered
// finds the entry in Applied, though the round has not ended.
func TestAppliedBeforeRoundEnds(t *testing.T) {
	ms := newMachines(t)
	a := ms.start("a:1", storage.NewMemFS(), true)
	primaryOf(t, a)
	if _, err := a.write(0, "zero"); err != nil {
		t.Fatal(err)
	}
	second, hung, resume, syncs := make(chan error, 1), make(chan struct{}), make(chan struct{}), 0
	a.fs.SetFault(func(op, _ string) error {
		if op != "sync" {
			return nil
		}
		switch syncs++; syncs {
		case 1: // of the first write: the second one is in the next round, which applies the first
			go func() {
				_, err := a.write(2, "two")
				second <- err
			}()
			until(t, "the second write waits", func() bool {
				a.inbox.Lock()
				defer a.inbox.Unlock()
				return len(a.inbox.list) > 0
			})
		case 2:
			close(hung)
			<-resume
		}
		return nil
	})
	at, err := a.write(1, "one")
	if err != nil {
		t.Fatal(err)
	}
	<-hung
	if a.State().Applied.Index >= at.Index {
		t.Error("the round has ended, which says nothing")
	}
	if got := a.Applied(); got.Index < at.Index || got.Time < at.Time {
		t.Errorf("applied is %v, and the write at %v was answered", got, at)
	}
	close(resume)
	if err := <-second; err != nil {
		t.Error(err)
	}
	a.fs.SetFault(nil)
	a.stop()
}

// A primary whose disk hangs loses its place to another one, which takes writes, and finds
// that out when the disk goes on: what it was asked to write meanwhile was not acknowledged,
// and it has what the others have (rule 10).
func TestHungDisk(t *testing.T) {
	ms := newMachines(t)
	a := ms.start("a:1", storage.NewMemFS(), true)
	b, c := ms.start("b:1", storage.NewMemFS(), false), ms.start("c:1", storage.NewMemFS(), false)
	primaryOf(t, a)
	join(t, a, b)
	join(t, a, c)
	if _, err := a.write(1, "one"); err != nil {
		t.Fatal(err)
	}
	resume := make(chan struct{})
	a.fs.SetFault(func(op, _ string) error {
		if op == "sync" {
			<-resume
		}
		return nil
	})
	written := make(chan error, 1)
	go func() {
		_, err := a.write(2, "hung")
		written <- err
	}()
	p := primaryOf(t, b, c)
	until(t, "a write on the next primary", func() bool {
		_, err := p.write(3, "three")
		return err == nil
	})
	select {
	case err := <-written:
		t.Errorf("while the disk hangs a write ends with %v", err)
	default:
	}
	a.fs.SetFault(nil)
	close(resume)
	// The others may have had its append before they elected: then the outcome is unknown.
	if err := <-written; !errors.Is(err, ErrSteppedDown) && !errors.Is(err, ErrNotPrimary) && !errors.Is(err, ErrDropped) {
		t.Errorf("the write on the member that hung ends with %v", err)
	}
	at, err := p.write(4, "four")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil {
		t.Error(err)
	}
	for key := 1; key <= 4; key++ {
		if got, want := a.read(key), p.read(key); got != want || key != 2 && got == "" {
			t.Errorf("%d is %q there and %q here", key, got, want)
		}
	}
	for _, m := range []*machine{a, b, c} {
		m.stop()
	}
}
