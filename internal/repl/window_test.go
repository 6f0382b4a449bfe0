package repl

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// What a log has in bytes is known after a restart, a conflicting tail and a truncation,
// and so is what is too much of it.
func TestLogBytes(t *testing.T) {
	fs := storage.NewMemFS()
	open := func() (*storage.Engine, *EngineLog) {
		e, err := storage.Open(storage.Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		l, err := OpenLog(e, 0)
		if err != nil {
			t.Fatal(err)
		}
		return e, l
	}
	e, l := open()
	append100 := func(from, to, second uint64) {
		var entries []*raftpb.Entry
		for i := from; i <= to; i++ {
			d := entry{kind: kindNoop, term: 1, time: Timestamp(second) << 32, payload: make([]byte, 100-storedHead-entryHead)}
			entries = append(entries, &raftpb.Entry{Index: &i, Term: new(uint64(1)), Data: d.encode()})
		}
		if err := l.Append(nil, entries, true); err != nil {
			t.Fatal(err)
		}
	}
	append100(1, 60, 10)
	append100(51, 100, 20)
	excess := func(bytes uint64, since uint64, want uint64) {
		t.Helper()
		got, err := l.Excess(bytes, Timestamp(since)<<32)
		if err != nil || got != want {
			t.Errorf("%d bytes and since %d: up to %d, want %d: %v", bytes, since, got, want, err)
		}
	}
	const ever = 1<<32 - 1
	for range 2 {
		if l.Bytes() != 10000 {
			t.Errorf("it has %d bytes", l.Bytes())
		}
		excess(10000, ever, 0)
		excess(9999, ever, 0)
		excess(9900, ever, 1)
		excess(0, ever, 100)
		excess(0, 20, 50)
		excess(0, 10, 0)
		excess(8000, 20, 20)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e, l = open()
	}
	if err := l.Truncate(30); err != nil || l.Bytes() != 7000 {
		t.Errorf("after a truncation %d bytes: %v", l.Bytes(), err)
	}
	excess(7000, ever, 30)
	excess(6900, ever, 31)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, l = open(); l.Bytes() != 7000 {
		t.Errorf("after a truncation and a restart %d bytes", l.Bytes())
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log stays within its window. Who was away for longer gets a snapshot by itself, into
// the catalog that is open.
func TestWindow(t *testing.T) {
	ms := newMachines(t)
	ms.window = Window{Bytes: 16 << 10}
	a, b := ms.member("a:1", storage.NewMemFS()), ms.member("b:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond, Members: []MemberConfig{
		{ID: 0, Host: "a:1", Priority: 1, Votes: 1}, {ID: 1, Host: "b:1"}}}); err != nil {
		t.Fatal(err)
	}
	o, err := a.insert(-1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 2}); err != nil {
		t.Fatal(err)
	}
	disk := b.kill()
	for i := range 400 {
		if _, err := a.insert(int32(i)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "the log is truncated", func() bool { return a.State().LogBytes <= 17<<10 && a.State().Base.Index > o.Last().Index })
	b = ms.member("b:1", disk)
	if o, err = a.insert(1000); err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 2}); err != nil || b.count() != 402 {
		t.Errorf("b has %d: %v", b.count(), err)
	}
	if s := b.State(); s.Base.Index <= 1 || s.LogBytes > 17<<10 {
		t.Errorf("its log begins behind %d and has %d bytes", s.Base.Index, s.LogBytes)
	}
	a.kill()
	b.kill()
}

// What SetWindow has set counts after a crash, and before the options: until it is
// removed, or is what cannot be.
func TestWindowLasts(t *testing.T) {
	ms := newMachines(t)
	ms.window = Window{Bytes: 1 << 30, Retention: time.Hour}
	a := ms.member("a:1", storage.NewMemFS())
	if err := a.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	want := Window{Bytes: 2000 << 20, Retention: 90 * time.Minute}
	soft := Window{Bytes: 1500 << 20, Retention: time.Minute, Soft: true} // its retention is the options'
	if err := a.SetWindow(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	again := func(want Window) {
		t.Helper()
		a = ms.member("a:1", a.kill())
		if got := a.Window(); got != want {
			t.Errorf("the window is %v, not %v", got, want)
		}
	}
	again(want)
	if err := a.SetWindow(t.Context(), soft); err != nil {
		t.Fatal(err)
	}
	again(Window{Bytes: soft.Bytes, Retention: time.Hour})
	for _, hours := range []bson.Value{bson.Double(-1), bson.Double(math.NaN()), bson.String("x")} {
		doc := new(bson.Builder).Value("_id", windowID).Int64("size", int64(want.Bytes)).Value("minRetentionHours", hours).Finish()
		if err := replaceOnly(t.Context(), a.catalog, windowNamespace, doc, storage.Journaled); err != nil {
			t.Fatal(err)
		}
		again(ms.window)
	}
	a.kill()
}

// What nobody asked for gives way to the size: the log is truncated though its entries are
// young, once it is said, and History says so until they are old enough. What was asked for
// does not.
func TestWindowGivesWay(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var lines bytes.Buffer
	m := lonely(t, func() time.Time { return now }, slog.New(slog.NewTextHandler(&lines, nil)), func(e *storage.Engine) (Effects, error) { return writes{e}, nil })
	member := &Member{o: MemberOptions{Wall: func() time.Time { return now }}, replica: m}
	write := func(n int) {
		t.Helper()
		for range n {
			now = now.Add(time.Minute)
			ev, err := m.g.Evaluate()
			if err != nil {
				t.Fatal(err)
			}
			m.g.Propose(ev, encodeWrites([]write{{1, make([]byte, 1000)}}), nil, func(_ Position, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			m.g.Tick()
			m.rounds(t)
			if err := m.trim(); err != nil {
				t.Fatal(err)
			}
		}
		m.publish()
	}
	m.SetWindow(Window{Bytes: 100 << 10, Retention: 24 * time.Hour})
	write(400) // 6 h 40 min
	if h := member.History(); h.Truncated || h.Short {
		t.Errorf("a retention that was asked for: %+v", h)
	}
	m.SetWindow(Window{Bytes: 100 << 10, Retention: 24 * time.Hour, Soft: true})
	write(100)
	if h := member.History(); !h.Short || h.Seconds < 90*60 || h.Seconds > 120*60 || h.Truncations < 2 || m.State().LogBytes > 110<<10 {
		t.Errorf("a retention by default: %+v, %d bytes", h, m.State().LogBytes)
	}
	said := func() int { return strings.Count(lines.String(), "the log is full before") }
	if said() != 1 {
		t.Errorf("it is said %d times: %s", said(), &lines)
	}
	now = now.Add(25 * time.Hour)
	if h := member.History(); h.Short {
		t.Errorf("when all that is gone is old enough: %+v", h)
	}
	m.SetWindow(Window{Bytes: 50 << 10, Retention: 24 * time.Hour, Soft: true})
	write(10) // what goes is old enough
	if h := member.History(); h.Short || said() != 1 {
		t.Errorf("what goes is old: %+v, said %d times", h, said())
	}
	write(50)
	if h := member.History(); !h.Short || said() != 2 {
		t.Errorf("what goes is young again: %+v, said %d times", h, said())
	}
}
