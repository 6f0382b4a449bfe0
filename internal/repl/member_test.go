package repl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"google.golang.org/grpc/test/bufconn"
)

// process is a member with its catalog, on a file system in memory.
type process struct {
	*Member
	ms    *machines
	fs    *storage.MemFS
	serve sync.WaitGroup
}

var testNamespace = schema.Namespace{DB: "d", Coll: "c"}

func openTestMember(ms *machines, host, set string, fs *storage.MemFS) (*Member, error) {
	network := NetworkOptions{Host: host, Dial: ms.dial}
	if ms.key != nil {
		network.Credentials = KeyCredentials(string(ms.key))
	}
	return OpenMember(MemberOptions{Set: set, FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	}, Window: ms.window, Network: network, Fatal: func(err error) {
		if ms.failed != nil {
			ms.failed(host, err)
			return
		}
		ms.t.Errorf("%s: %v", host, err)
	}})
}

func (ms *machines) member(host string, fs *storage.MemFS) *process {
	ms.t.Helper()
	m, err := openTestMember(ms, host, "rs0", fs)
	if err != nil {
		ms.t.Fatal(err)
	}
	p := &process{Member: m, ms: ms, fs: fs}
	l := bufconn.Listen(1 << 20)
	ms.mu.Lock()
	ms.l[host] = l
	ms.mu.Unlock()
	p.serve.Go(func() {
		if err := m.ServePeers(l); err != nil {
			ms.t.Error(err)
		}
	})
	return p
}

// kill ends the process; what its disk has not synced is lost.
func (p *process) kill() *storage.MemFS {
	p.ms.t.Helper()
	p.ms.mu.Lock()
	delete(p.ms.l, p.Host())
	p.ms.mu.Unlock()
	p.replica.Stop() // no commit is acknowledged from here on
	disk := p.fs.Crash(0, nil)
	if err := p.end(); err != nil {
		p.ms.t.Fatal(err)
	}
	return disk
}

// end ends a process whose replica has stopped.
func (p *process) end() error {
	err := p.catalog.Close()
	p.stop()
	p.work.Wait()
	p.net.Close()
	p.serve.Wait()
	return errors.Join(err, p.store.Close())
}

// insert inserts a document with an _id as an operation does.
func (p *process) insert(id int32) (*OpTime, error) {
	o := new(OpTime)
	ctx, leave, err := p.Enter(WithOpTime(context.Background(), o))
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := p.Writable(); err != nil {
		return nil, err
	}
	coll := p.Catalog().Lookup(testNamespace)
	if coll == nil {
		if coll, err = p.Catalog().Create(ctx, testNamespace, nil); err != nil {
			return nil, err
		}
	}
	return o, p.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		return u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id).Finish())
	})
}

// count is how many documents the member has.
func (p *process) count() int64 {
	_, leave, err := p.Enter(context.Background())
	if err != nil {
		p.ms.t.Fatal(err)
	}
	defer leave()
	if coll := p.Catalog().Lookup(testNamespace); coll != nil {
		return coll.Count()
	}
	return 0
}

func leaderOf(t *testing.T, all ...*process) (p *process) {
	t.Helper()
	until(t, "a primary", func() bool {
		for _, m := range all {
			if m.Writable() == nil {
				p = m
				return true
			}
		}
		return false
	})
	return p
}

func hosts(c *Config) (all []string) {
	for _, m := range c.Members {
		all = append(all, fmt.Sprintf("%s votes %v", m.Host, m.Voter()))
	}
	return all
}

// A standalone becomes a set of one and keeps its data, with what it wrote before.
func TestStandaloneBecomesMember(t *testing.T) {
	fs := storage.NewMemFS()
	e, err := storage.Open(storage.Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{Committer: Local{}})
	if err != nil {
		t.Fatal(err)
	}
	coll, err := c.Create(t.Context(), testNamespace, nil)
	if err == nil {
		err = c.Run(t.Context(), storage.Journaled, func(u *catalog.Unit) error {
			return u.Insert(t.Context(), coll, new(bson.Builder).Int32("_id", 1).Finish())
		})
	}
	if err := errors.Join(err, c.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	ms := newMachines(t)
	p := ms.member("a:1", fs)
	if s := p.State(); s.Member != StateStartup || !mongoerr.Is(p.Readable(), mongoerr.NotPrimaryOrSecondary) || !mongoerr.Is(p.Writable(), mongoerr.NotWritablePrimary) {
		t.Errorf("before it is initiated: %+v", s)
	}
	if _, err := p.insert(2); !mongoerr.Is(err, mongoerr.NotWritablePrimary) {
		t.Errorf("a write before it is initiated: %v", err)
	}
	if err := p.Initiate(t.Context(), &Config{Set: "other", Version: 1}); !mongoerr.Is(err, mongoerr.InvalidReplicaSetConfig) {
		t.Errorf("another name: %v", err)
	}
	if err := p.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Initiate(t.Context(), nil); !mongoerr.Is(err, mongoerr.AlreadyInitialized) {
		t.Errorf("again: %v", err)
	}
	if s := p.State(); s.Member != StatePrimary || !s.Writable || p.count() != 1 {
		t.Errorf("after that: %+v with %d", s, p.count())
	}
	o, err := p.insert(2)
	if err != nil || o.Last().Index == 0 || o.Last().Index != p.State().Applied.Index {
		t.Errorf("a write is at %+v: %v", o.Last(), err)
	}
	if _, err := p.insert(2); !mongoerr.Is(err, mongoerr.DuplicateKey) {
		t.Errorf("a second time: %v", err)
	}
	until(t, "local.system.replset has the configuration", func() bool {
		shown := p.Catalog().Lookup(shownConfig)
		return shown != nil && shown.Count() == 1
	})
	disk := p.kill()
	if m, err := openTestMember(ms, "a:1", "rs1", disk); !mongoerr.Is(err, mongoerr.InvalidReplicaSetConfig) {
		t.Errorf("the data of another set: %v %v", m, err)
	}
	p = ms.member("a:1", disk)
	leaderOf(t, p)
	if p.count() != 2 {
		t.Errorf("after a crash there are %d", p.count())
	}
	p.kill()
}

// Three members by one Initiate: two get the data of the first, a killed primary is
// followed by another one, and comes back.
func TestThreeMembers(t *testing.T) {
	ms := newMachines(t)
	a, b, c := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS()), ms.member("c:1", storage.NewMemFS())
	config := func() *Config {
		c := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond}
		for i, host := range []string{"a:1", "b:1", "c:1"} {
			c.Members = append(c.Members, MemberConfig{ID: int32(i), Host: host, Priority: 1, Votes: 1})
		}
		return c
	}
	wrong := config()
	wrong.Members[2].Host = "nobody:1"
	if err := a.Initiate(t.Context(), wrong); !mongoerr.Is(err, mongoerr.NodeNotFound) {
		t.Errorf("with nobody: %v", err)
	}
	zero := config()
	zero.Members[0].Priority = 0
	if err := a.Initiate(t.Context(), zero); !mongoerr.Is(err, mongoerr.NodeNotElectable) {
		t.Errorf("by a member of priority 0: %v", err)
	}
	if err := a.Initiate(t.Context(), config()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(hosts(a.State().Config)); got != "[a:1 votes true b:1 votes true c:1 votes true]" {
		t.Errorf("at first: %s", got)
	}
	if _, err := a.insert(1); err != nil {
		t.Fatal(err)
	}
	until(t, "all have it", func() bool {
		for _, p := range []*process{a, b, c} {
			s := p.State()
			if s.Config == nil || fmt.Sprint(hosts(s.Config)) != "[a:1 votes true b:1 votes true c:1 votes true]" || p.Readable() != nil {
				return false
			}
		}
		return true
	})
	if err := b.Initiate(t.Context(), nil); !mongoerr.Is(err, mongoerr.AlreadyInitialized) {
		t.Errorf("a member is initiated: %v", err)
	}
	if err := b.Reconfigure(t.Context(), config()); !mongoerr.Is(err, mongoerr.NotWritablePrimary) {
		t.Errorf("a secondary is told a configuration: %v", err)
	}
	o, err := a.insert(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 3}); err != nil || b.count() != 2 || c.count() != 2 {
		t.Errorf("b has %d, c %d: %v", b.count(), c.count(), err)
	}
	disk := a.kill()
	p := leaderOf(t, b, c)
	if _, err := p.insert(3); err != nil {
		t.Fatal(err)
	}
	a = ms.member("a:1", disk)
	if o, err = p.insert(4); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitConcern(t.Context(), o.Last(), Concern{N: 3}); err != nil || a.count() != 4 {
		t.Errorf("a has %d: %v", a.count(), err)
	}
	// Whoever lost the disk gets everything anew, with another raft id.
	lost, was := a, a.State().ID
	lost.kill()
	a = ms.member("a:1", storage.NewMemFS())
	until(t, "it votes again", func() bool {
		s := a.State()
		me := s.Config.Member(s.ID)
		return me != nil && me.Voter() && s.ID != was && slices.Contains(s.Config.Removed, was)
	})
	if o, err = p.insert(7); err != nil {
		t.Fatal(err)
	}
	if err := p.WaitConcern(t.Context(), o.Last(), Concern{N: 3}); err != nil || a.count() != 5 {
		t.Errorf("a has %d: %v", a.count(), err)
	}
	stepDown(t, p, a, b, c)
	for _, p := range []*process{a, b, c} {
		p.kill()
	}
}

// A primary whose disk is full hands over to a member that has room, and not while there
// is none.
func TestFullDiskHandsOver(t *testing.T) {
	ms := newMachines(t)
	var all []*process
	c := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond}
	for i, host := range []string{"a:1", "b:1", "c:1"} {
		all = append(all, ms.member(host, storage.NewMemFS()))
		c.Members = append(c.Members, MemberConfig{ID: int32(i), Host: host, Priority: 1, Votes: 1})
	}
	if err := all[0].Initiate(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	inserted := int32(0)
	insert := func(p *process) error {
		o, err := p.insert(inserted)
		if err != nil {
			return err
		}
		inserted++
		return p.WaitConcern(t.Context(), o.Last(), Concern{N: 3})
	}
	if err := insert(all[0]); err != nil {
		t.Fatal(err)
	}
	// A part of what must stay free, so that what others write finds room.
	fill := func(p *process, full bool) {
		if p.fs.SetQuota(-1); full {
			p.fs.SetQuota(3 << 20)
		}
	}
	knows := func(p *process, full bool) {
		t.Helper()
		until(t, "the others know", func() (known bool) {
			known = true
			for _, other := range all {
				if err := other.replica.Do(t.Context(), func(g *Group) error {
					if q := g.peers[p.State().ID]; other != p && other.Writable() == nil && q != nil && q.frozen != full {
						known = false
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			return known
		})
	}
	first := leaderOf(t, all...)
	for _, p := range all {
		if p != first {
			fill(p, true)
			knows(p, true)
		}
	}
	fill(first, true)
	until(t, "it knows that its disk is full", func() (full bool) {
		if err := first.replica.Do(t.Context(), func(g *Group) error { full = g.full; return nil }); err != nil {
			t.Fatal(err)
		}
		return full
	})
	if err := insert(first); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Errorf("a write on a full disk: %v", err)
	}
	if err := first.StepDown(t.Context(), time.Second, 0, false); !mongoerr.Is(err, mongoerr.ExceededTimeLimit) {
		t.Errorf("a handover to a full disk: %v", err)
	}
	var second *process
	for _, p := range all {
		if p != first && second == nil {
			second = p
		}
	}
	fill(second, false)
	until(t, "the one with room is primary", func() bool { return second.Writable() == nil })
	if err := insert(second); err != nil {
		t.Errorf("a write by the one with room: %v", err)
	}
	for _, p := range all {
		fill(p, false)
	}
	for _, p := range all {
		if p.count() != int64(inserted) {
			t.Errorf("%s has %d of %d", p.Host(), p.count(), inserted)
		}
		p.kill()
	}
}

// A member that is removed learns of it, and serves nobody any more.
func TestMemberIsRemoved(t *testing.T) {
	ms := newMachines(t)
	a, b := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(1); err != nil {
		t.Fatal(err)
	}
	add := func(m ...MemberConfig) {
		t.Helper()
		c := a.State().Config.clone()
		c.Version++
		c.Members = append(c.Members[:1], m...)
		if err := a.Reconfigure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	add(MemberConfig{ID: 1, Host: "b:1", Priority: 1, Votes: 1})
	until(t, "it votes", func() bool {
		s := b.State()
		me := s.Config.Member(s.ID)
		return me != nil && me.Voter() && s.Member == StateSecondary
	})
	changes := b.Changes()
	add()
	until(t, "the member that was removed knows", func() bool { return b.State().Member == StateRemoved })
	if !mongoerr.Is(b.Readable(), mongoerr.NotPrimaryOrSecondary) || b.Changes() == changes {
		t.Errorf("it is readable: %v", b.Readable())
	}
	if _, err := a.insert(2); err != nil {
		t.Error(err)
	}
	a.kill()
	b.kill()
}

// Where an operation ends because this member is no primary any more, it says so by
// then: drivers go by the topology version that comes with the error.
func TestStateIsSaidBeforeErrors(t *testing.T) {
	ms := newMachines(t)
	a, b, c := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS()), ms.member("c:1", storage.NewMemFS())
	config := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond}
	for i, host := range []string{"a:1", "b:1", "c:1"} {
		config.Members = append(config.Members, MemberConfig{ID: int32(i), Host: host, Priority: 1, Votes: 1})
	}
	if err := a.Initiate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(0); err != nil {
		t.Fatal(err)
	}
	all := []*process{a, b, c}
	var ids atomic.Int32
	for range 5 {
		p := leaderOf(t, all...)
		changes := p.Changes()
		var writers sync.WaitGroup
		for range 8 {
			writers.Go(func() {
				for {
					_, err := p.insert(ids.Add(1))
					if err == nil {
						continue
					}
					if s := p.State(); s.Changes == changes || s.Primary {
						t.Errorf("it says what it was before: %v", err)
					}
					return
				}
			})
		}
		if err := p.StepDown(t.Context(), time.Second, 10*time.Second, false); err != nil {
			t.Error(err)
		}
		writers.Wait()
	}
	for _, p := range all {
		p.kill()
	}
}

// stepDown has a primary hand over.
func stepDown(t *testing.T, p *process, all ...*process) {
	t.Helper()
	if err := p.StepDown(t.Context(), time.Minute, 10*time.Second, false); err != nil {
		t.Fatal(err)
	}
	if _, err := p.insert(5); !mongoerr.Is(err, mongoerr.NotWritablePrimary) {
		t.Errorf("a write after a step-down: %v", err)
	}
	if err := p.StepDown(t.Context(), time.Minute, 0, false); !mongoerr.Is(err, mongoerr.NotWritablePrimary) {
		t.Errorf("a second step-down: %v", err)
	}
	next := leaderOf(t, all...)
	if next == p {
		t.Error("who stepped down is primary")
	}
	if _, err := next.insert(6); err != nil {
		t.Error(err)
	}
	if err := p.Maintenance(true); err != nil || p.State().Member != StateRecovering || !mongoerr.Is(p.Readable(), mongoerr.NotPrimaryOrSecondary) {
		t.Errorf("in maintenance it is %v: %v", p.State().Member, err)
	}
	if err := p.Maintenance(false); err != nil || p.State().Member != StateSecondary {
		t.Errorf("after maintenance it is %v: %v", p.State().Member, err)
	}
	if err := p.Maintenance(false); !mongoerr.Is(err, mongoerr.OperationFailed) {
		t.Errorf("the end of no maintenance: %v", err)
	}
	if err := next.Maintenance(true); !mongoerr.Is(err, mongoerr.NotSecondary) {
		t.Errorf("maintenance of a primary: %v", err)
	}
	if err := p.Freeze(t.Context(), 0); err != nil {
		t.Error(err)
	}
	until(t, "a step-up", func() bool { return p.StepUp(t.Context()) == nil })
}
