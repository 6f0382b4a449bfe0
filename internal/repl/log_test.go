package repl

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// openStore opens a small store on a file system in memory.
func openStore(t *testing.T, fs storage.FS, dir string) *storage.Engine {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func someEntries(from, n, term uint64, size int) (out []*raftpb.Entry) {
	for i := range n {
		e := &raftpb.Entry{Index: new(from + i), Term: &term, Type: raftpb.EntryNormal.Enum()}
		if size > 0 {
			e.Data = bytes.Repeat([]byte{byte(from + i)}, size)
		}
		out = append(out, e)
	}
	return out
}

// The log of a store does what the model of the simulation does, crashes included.
func TestEngineLogIsTheModels(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs, model := storage.NewMemFS(), newDisk()
		e := openStore(t, fs, "db")
		l, err := OpenLog(e, 7)
		if err != nil {
			t.Fatal(err)
		}
		term := uint64(1)
		for step := range 120 {
			switch rng.IntN(8) {
			case 0: // a crash: all appends were synced
				fs = fs.Crash(0, nil)
				old := e
				e = openStore(t, fs, "db")
				if err := old.Close(); err != nil {
					t.Fatal(err)
				}
				if l, err = OpenLog(e, 7); err != nil {
					t.Fatal(err)
				}
			case 1:
				if model.Last() < model.First() {
					continue
				}
				to := model.First() + rng.Uint64N(model.Last()-model.First()+1)
				model.durable.at.Index = to
				if err := errors.Join(l.Truncate(to), model.Truncate(to), l.Append(nil, nil, true)); err != nil {
					t.Fatal(err)
				}
			default: // an append, often over a conflicting tail
				from := model.Last() + 1
				if back := min(rng.Uint64N(6), model.Last()-model.First()+1); rng.IntN(3) == 0 {
					from, term = from-back, term+1
				}
				entries := someEntries(from, rng.Uint64N(5), term, rng.IntN(3)*100)
				hard := &raftpb.HardState{Term: new(term), Vote: new(uint64(step)), Commit: new(uint64(0))}
				if err := errors.Join(l.Append(hard, entries, true), model.Append(hard, entries, true)); err != nil {
					t.Fatal(err)
				}
			}
			sameLog(t, fmt.Sprintf("seed %d, step %d", seed, step), l, model, rng)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func sameLog(t *testing.T, what string, got, want Log, rng *rand.Rand) {
	t.Helper()
	first := want.Base().Index + 1
	if got.Base() != want.Base() || got.Last() != want.Last() || !proto.Equal(got.HardState(), want.HardState()) {
		t.Fatalf("%s: after %v to %d with %v, not after %v to %d with %v", what, got.Base(), got.Last(), got.HardState(), want.Base(), want.Last(), want.HardState())
	}
	lo := first + rng.Uint64N(want.Last()-first+2)
	a, errA := got.Term(lo)
	b, errB := want.Term(lo)
	if a != b || !errors.Is(errA, errB) {
		t.Fatalf("%s: term of %d is %d (%v), not %d (%v)", what, lo, a, errA, b, errB)
	}
	if lo > want.Last() {
		return
	}
	hi := lo + 1 + rng.Uint64N(want.Last()-lo+1)
	x, err := got.Entries(lo, hi, 1<<30)
	if err != nil || uint64(len(x)) != hi-lo {
		t.Fatalf("%s: %d entries of [%d, %d): %v", what, len(x), lo, hi, err)
	}
	y, _ := want.Entries(lo, hi, 1<<30)
	for i := range x {
		if !proto.Equal(x[i], y[i]) {
			t.Fatalf("%s: entry %v, not %v", what, x[i], y[i])
		}
	}
	if one, err := got.Entries(lo, hi, 1); err != nil || len(one) != 1 {
		t.Fatalf("%s: %d entries in one byte: %v", what, len(one), err)
	}
}

func TestEngineLogErrors(t *testing.T) {
	e := openStore(t, storage.NewMemFS(), "db")
	defer e.Close()
	l, err := OpenLog(e, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := OpenLog(e, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Append(nil, someEntries(1, 10, 1, 10), true), other.Append(nil, someEntries(1, 3, 9, 10), true), l.Truncate(4)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Entries(4, 6, 0); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("truncated entries: %v", err)
	}
	if _, err := l.Entries(8, 12, 0); !errors.Is(err, raft.ErrUnavailable) {
		t.Errorf("entries to come: %v", err)
	}
	if _, err := l.Term(3); !errors.Is(err, raft.ErrCompacted) {
		t.Errorf("term of a truncated entry: %v", err)
	}
	if term, err := other.Term(3); term != 9 || err != nil || other.Last() != 3 {
		t.Errorf("the other group's log: %d, %v, %d", term, err, other.Last())
	}
}

// The cache is bounded, and the log reads on from the store.
func TestEngineLogCache(t *testing.T) {
	e := openStore(t, storage.NewMemFS(), "db")
	defer e.Close()
	l, err := OpenLog(e, 1)
	if err != nil {
		t.Fatal(err)
	}
	const size, n = 1 << 20, 24
	for i := range uint64(n) {
		if err := l.Append(nil, someEntries(i+1, 1, 1, size), false); err != nil {
			t.Fatal(err)
		}
	}
	if l.cache.bytes > maxCachedBytes || l.cache.get(1) != nil || l.cache.get(n) == nil {
		t.Errorf("the cache has %d bytes", l.cache.bytes)
	}
	all, err := l.Entries(1, n+1, 1<<40)
	if err != nil || len(all) != n || all[0].Data[0] != 1 || all[n-1].Data[0] != n {
		t.Errorf("%d entries: %v", len(all), err)
	}
}

// A hole in the stored log is damage with a name.
func TestEngineLogHole(t *testing.T) {
	e := openStore(t, storage.NewMemFS(), "db")
	defer e.Close()
	l, err := OpenLog(e, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(nil, someEntries(1, 5, 1, 1), true); err != nil {
		t.Fatal(err)
	}
	u := e.Begin()
	if err := errors.Join(u.Delete(storage.IdentRaft, entryKey(1, 3), -1), u.Commit(t.Context(), storage.Buffered)); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(e, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Entries(2, 6, 1<<20); !errors.Is(err, storage.ErrCorruption) {
		t.Errorf("a hole: %v", err)
	}
}
