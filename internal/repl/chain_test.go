package repl

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/storage"
)

// chained is a member whose effects are chains from 4,000 bytes on.
func (ms *machines) chained(host string, fs *storage.MemFS) *process {
	p := ms.member(host, fs)
	p.chains.from, p.chains.part = 4000, 1000
	return p
}

// insertMany inserts documents of some 100 bytes in one unit.
func (p *process) insertMany(first, n int32) (*OpTime, error) {
	o := new(OpTime)
	ctx := WithOpTime(context.Background(), o)
	coll := p.Catalog().Lookup(testNamespace)
	return o, p.Catalog().Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		for i := range n {
			if err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", first+i).String("pad", strings.Repeat("x", 80)).Finish()); err != nil {
				return err
			}
		}
		return nil
	})
}

// parts is how many parts of a chain wait for its last entry.
func (p *process) parts() (n int) {
	it, err := p.Catalog().Engine().NewIter(storage.IdentRaft, groupKey(p.store.opts.Group, keyPart), groupKey(p.store.opts.Group, keyPart+1))
	if err != nil {
		p.ms.t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	if err := it.Close(); err != nil {
		p.ms.t.Fatal(err)
	}
	return n
}

// TestChain holds that an effect that is a chain of entries takes place whole or not at all, on
// all members: where a secondary is killed between its parts, where one gets a snapshot of just
// then, and where its primary is killed before the last entry; and that the oplog and streams
// read it as one.
func TestChain(t *testing.T) {
	ms := newMachines(t)
	a, b, c := ms.chained("a:1", storage.NewMemFS()), ms.chained("b:1", storage.NewMemFS()), ms.chained("c:1", storage.NewMemFS())
	config := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond}
	for i, host := range []string{"a:1", "b:1", "c:1"} {
		config.Members = append(config.Members, MemberConfig{ID: int32(i), Host: host, Priority: 1, Votes: 1})
	}
	if err := a.Initiate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	first, err := a.insert(0)
	if err != nil {
		t.Fatal(err)
	}
	// Else a member may get all that follows by a snapshot, and its oplog begins behind that.
	if err := a.WaitConcern(t.Context(), first.Last(), Concern{N: 3}); err != nil {
		t.Fatal(err)
	}
	all := func(on *process, o *OpTime, want int64, members ...*process) {
		t.Helper()
		if err := on.WaitConcern(t.Context(), o.Last(), Concern{N: len(members)}); err != nil {
			t.Fatal(err)
		}
		for _, p := range members {
			if p.count() != want || p.parts() != 0 {
				t.Errorf("%s has %d documents, and %d parts", p.Host(), p.count(), p.parts())
			}
		}
	}
	o, err := a.insertMany(100, 100)
	if err != nil {
		t.Fatal(err)
	}
	all(a, o, 101, a, b, c)
	for _, p := range []*process{a, b} {
		if told := p.told(nil, nil); len(told) < 100 || !strings.Contains(strings.Join(told[len(told)-100:], ""), "_id: 199") {
			t.Errorf("%s tells %d documents of the oplog", p.Host(), len(told))
		}
	}
	if seen := streamed(t, b, o.Last().Index); seen != 100 {
		t.Errorf("a stream sees %d changes", seen)
	}

	// A secondary that dies between two parts, and one that gets everything anew just then.
	ev := a.Evaluate()
	var at Position
	for i := range 3 {
		if at, err = a.commitPart(ev, i, []byte("part")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil || b.parts() != 3 {
		t.Fatalf("b has %d parts: %v", b.parts(), err)
	}
	b = ms.chained("b:1", b.kill())
	until(t, "after its death b has the parts", func() bool { return b.parts() == 3 })
	// The next chain takes the place of one that was given up.
	if o, err = a.insertMany(200, 100); err != nil {
		t.Fatal(err)
	}
	all(a, o, 201, a, b, c)

	// A primary that dies before the last entry: nothing has happened, and nothing stays.
	for i := range 3 {
		if at, err = a.commitPart(ev, i, []byte("part")); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.WaitConcern(t.Context(), at, Concern{N: 3}); err != nil {
		t.Fatal(err)
	}
	disk := a.kill()
	p := leaderOf(t, b, c)
	if _, err := p.insert(1); err != nil {
		t.Fatal(err)
	}
	a = ms.chained("a:1", disk)
	if o, err = p.insertMany(300, 50); err != nil {
		t.Fatal(err)
	}
	all(p, o, 252, a, b, c)
	for _, p := range []*process{a, b, c} {
		p.kill()
	}
}

// streamed is how many changes a feed reads at an index.
func streamed(t *testing.T, p *process, index uint64) (n int) {
	t.Helper()
	f := p.OpenFeed(index)
	e, err := f.Next()
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return e.Changes()
}

// TestChainCut holds that a reader whose beginning of a chain was truncated is told so.
func TestChainCut(t *testing.T) {
	ms := newMachines(t)
	a := ms.chained("a:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := a.insert(0); err != nil {
		t.Fatal(err)
	}
	o, err := a.insertMany(100, 100)
	if err != nil {
		t.Fatal(err)
	}
	last := o.Last().Index
	if err := a.replica.Do(t.Context(), func(g *Group) error { return g.Log.Truncate(last - 3) }); err != nil {
		t.Fatal(err)
	}
	f := a.OpenFeed(last)
	if _, err := f.Next(); !errors.Is(err, ErrHistoryLost) {
		t.Errorf("a feed: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, doc := range a.told(nil, nil) {
		if strings.Contains(doc, "pad") {
			t.Errorf("the oplog tells %s", doc[8:])
		}
	}
	// Who reads from a time on, before which the oplog begins, must not miss the entry.
	it, err := oplogView{a.Member}.Walk(binary.BigEndian.AppendUint64(nil, uint64(o.Last().Time)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if it.First() || !mongoerr.Is(it.Err(), mongoerr.CappedPositionLost) {
		t.Errorf("the entry is left out: %v", it.Err())
	}
	if err := it.Close(); err != nil && !mongoerr.Is(err, mongoerr.CappedPositionLost) {
		t.Error(err)
	}
	a.kill()
}

// heldWrites are writes of which large ones take until hold is closed.
type heldWrites struct {
	writes
	hold chan struct{}
}

func (w heldWrites) Apply(run []Change) error {
	if len(run[0].Payload) > 10_000 {
		<-w.hold
	}
	return w.writes.Apply(run)
}

// TestChainBeside holds that the member ticks, sends and stores while the last entry of a chain
// is applied, however long that takes; that it applies nothing else and does not campaign; and
// that who has proposed the chain is answered when it is applied, whatever became of the member
// meanwhile: what it has passed along is in use.
func TestChainBeside(t *testing.T) {
	hold := make(chan struct{})
	m := lonely(t, time.Now, nil, func(e *storage.Engine) (Effects, error) { return heldWrites{writes{e}, hold}, nil })
	ev, err := m.g.Evaluate()
	if err != nil {
		t.Fatal(err)
	}
	propose := func(e entry) (answered func() (bool, error)) {
		var at Position
		var got error
		m.g.enqueue(&proposal{entry: e, epoch: ev.epoch, done: func(p Position, err error) { at, got = p, err }})
		m.rounds(t)
		return func() (bool, error) { return at.Index != 0 || got != nil, got }
	}
	c := chain{times: 1}
	whole := encodeWrites([]write{{1, make([]byte, 20_000)}, {2, []byte("chain")}})
	for i, part := range [][]byte{whole[:15_000], whole[15_000:]} {
		propose(entry{kind: kindPart, term: ev.term, payload: append([]byte{byte(i)}, part...)})
		c.parts = append(c.parts, m.g.Log.Last())
	}
	chained := propose(entry{kind: kindLast, term: ev.term, payload: c.encode()})
	at := m.g.Log.Last()
	other := propose(entry{kind: kindEffect, term: ev.term, payload: encodeWrites([]write{{2, []byte("after")}})})
	for range 5 * electionTicks {
		m.g.Tick()
		m.rounds(t)
	}
	if m.g.beside == nil || !m.g.primary || m.g.term != ev.term || m.g.Log.Last() <= at || m.g.applied.Index != at-1 || m.g.mayCampaign() {
		t.Errorf("while it is applied: primary %t, term %d, log up to %d, applied %d of %d", m.g.primary, m.g.term, m.g.Log.Last(), m.g.applied.Index, at)
	}
	if err := m.g.ForceStepDown(1); err != nil {
		t.Fatal(err)
	}
	m.rounds(t)
	if done, _ := chained(); done {
		t.Error("the chain is answered before it is applied")
	}
	if done, err := other(); !done || !errors.Is(err, ErrSteppedDown) {
		t.Errorf("another write: %t, %v", done, err)
	}
	close(hold)
	if err := m.g.Applied(<-m.applied); err != nil {
		t.Fatal(err)
	}
	m.rounds(t)
	if done, err := chained(); !done || err != nil {
		t.Errorf("the chain: %t, %v", done, err)
	}
	v, closer, err := m.store.engine.Get(storage.FirstIdent, binary.BigEndian.AppendUint64(nil, 2))
	if err != nil || string(v) != "after" {
		t.Errorf("what is applied last is %q: %v", v, err)
	} else if err := closer.Close(); err != nil {
		t.Error(err)
	}
}
