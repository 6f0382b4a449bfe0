package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func openMem(t testing.TB, fs *MemFS) *Engine {
	t.Helper()
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 256 << 10, JournalInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

const (
	testRecords Ident = 20
	testMirror  Ident = 21
	testWriters       = 4
)

func unitKey(w, n int) []byte {
	return binary.BigEndian.AppendUint32([]byte{byte(w)}, uint32(n))
}

// unitValue is what the n-th unit stores.
func unitValue(n int) []byte { return bytes.Repeat([]byte{byte(n%251 + 1)}, 100+n%2000) }

// writeUnit commits the n-th unit of a writer: two keys and a count.
func writeUnit(e *Engine, c *Counter, w, n int, d Durability) error {
	u := e.Begin()
	value := unitValue(n)
	if err := errors.Join(u.Set(testRecords, unitKey(w, n), value), u.Set(testMirror, unitKey(w, n), nil)); err != nil {
		return err
	}
	u.Add(c, 0, 1)
	u.Add(c, 1, int64(len(value)))
	return u.Commit(context.Background(), d)
}

// checkUnits makes sure that units are there whole and in order, at least so
// many of each writer, and returns how many there are.
func checkUnits(t *testing.T, e *Engine, atLeast [testWriters]int64) (n [testWriters]int) {
	t.Helper()
	mirror, err := e.NewIter(testMirror, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mirror.Close()
	it, err := e.NewIter(testRecords, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	docs, size := 0, 0
	m := mirror.First()
	for ok := it.First(); ok; ok = it.Next() {
		if !m || string(mirror.Key()) != string(it.Key()) {
			t.Fatalf("unit %x is there in part", it.Key())
		}
		m = mirror.Next()
		w, i := int(it.Key()[0]), int(binary.BigEndian.Uint32(it.Key()[1:]))
		if i != n[w] {
			t.Fatalf("writer %d: unit %d follows %d", w, i, n[w]-1)
		}
		n[w]++
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		docs++
		size += len(v)
	}
	if m {
		t.Fatalf("unit %x is there in part", mirror.Key())
	}
	for w := range n {
		if int64(n[w]) < atLeast[w] {
			t.Fatalf("writer %d: %d units, %d were promised", w, n[w], atLeast[w])
		}
	}
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		t.Fatal(err)
	}
	if c.Load(0) != int64(docs) || c.Load(1) != int64(size) {
		t.Fatalf("counter says %d, %d; there are %d, %d", c.Load(0), c.Load(1), docs, size)
	}
	return n
}

// TestCrash takes the power, or only the process, away from concurrent writers
// again and again. The store is small, so logs rotate and tables are written.
func TestCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := NewMemFS()
	var have [testWriters]int
	for round := range 12 {
		e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 128 << 10, JournalInterval: 2 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		percent := []int{0, 50, 90, 100}[round%4]
		var journaled, buffered [testWriters]atomic.Int64
		var stop atomic.Bool
		c, err := e.OpenCounter(testRecords)
		if err != nil {
			t.Fatal(err)
		}
		for w := range have {
			journaled[w].Store(int64(have[w]))
		}
		var wg sync.WaitGroup
		for w := range testWriters {
			wg.Go(func() {
				for n := have[w]; !stop.Load(); n++ {
					d := Durability(Buffered)
					if n%7 == 0 {
						d = Journaled
					}
					if err := writeUnit(e, c, w, n, d); err != nil {
						t.Error(err)
						return
					}
					buffered[w].Store(int64(n + 1))
					if d == Journaled {
						journaled[w].Store(int64(n + 1))
					}
				}
			})
		}
		time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
		var promised [testWriters]int64
		for w := range promised {
			promised[w] = journaled[w].Load()
			if percent == 100 {
				promised[w] = buffered[w].Load()
			}
		}
		crashed := fs.Crash(percent, rand.New(rand.NewPCG(rng.Uint64(), 0)))
		stop.Store(true)
		wg.Wait()
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		fs = crashed
		e2, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20})
		if err != nil {
			t.Fatalf("round %d, %d%%: %v", round, percent, err)
		}
		have = checkUnits(t, e2, promised)
		// Recovery alone must have made durable what it found.
		if fs = fs.Crash(0, nil); round%2 == 0 {
			e3, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			var all [testWriters]int64
			for w := range have {
				all[w] = int64(have[w])
			}
			checkUnits(t, e3, all)
			if err := e3.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := e2.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBufferedIsDurableWithinInterval: the ticker alone makes units durable.
func TestBufferedIsDurableWithinInterval(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	e.SetJournalInterval(time.Millisecond)
	c, _ := e.OpenCounter(testRecords)
	if err := writeUnit(e, c, 0, 0, Buffered); err != nil {
		t.Fatal(err)
	}
	for e.Metrics().JournalSyncs == 0 {
		time.Sleep(time.Millisecond)
	}
	e2 := openMem(t, fs.Crash(0, nil))
	checkUnits(t, e2, [testWriters]int64{1})
}

// TestDiskFull: writes are refused with 14031, reads and deletions go on, and
// with space again all is as before.
func TestDiskFull(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	n := 0
	for ; n < 10; n++ {
		if err := writeUnit(e, c, 0, n, Journaled); err != nil {
			t.Fatal(err)
		}
	}
	fs.SetQuota(e.space.floor + 200<<10)
	e.space.measuredAt.Store(0)
	var err error
	for ; err == nil && n < 10000; n++ {
		err = writeUnit(e, c, 0, n, Buffered)
	}
	if !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Fatalf("got %v", err)
	}
	n--
	if _, closer, err := e.Get(testRecords, unitKey(0, 0)); err != nil {
		t.Fatal(err)
	} else {
		closer.Close()
	}
	u := e.Begin()
	if err := errors.Join(u.Delete(testRecords, []byte("none"), 5), u.Commit(t.Context(), Journaled)); err != nil {
		t.Fatalf("a deletion was refused: %v", err)
	}
	fs.SetQuota(-1)
	e.space.measuredAt.Store(0)
	if err := writeUnit(e, c, 0, n, Journaled); err != nil {
		t.Fatal(err)
	}
	e2 := openMem(t, fs.Crash(0, nil))
	checkUnits(t, e2, [testWriters]int64{int64(n + 1)})
}

// TestNoSpaceSurprise: the disk is full although nothing told so before. Vital
// writes wait, and nothing is lost when there is space again.
func TestNoSpaceSurprise(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	var full atomic.Bool
	fs.SetFault(func(op, name string) error {
		if full.Load() && (op == "write" || op == "create") {
			return syscall.ENOSPC
		}
		return nil
	})
	full.Store(true)
	done := make(chan error)
	go func() { done <- writeUnit(e, c, 0, 0, Journaled) }()
	for !e.space.full.Load() {
		time.Sleep(time.Millisecond)
	}
	if err := writeUnit(e, c, 1, 0, Buffered); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Fatalf("got %v", err)
	}
	full.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	e.space.measuredAt.Store(0)
	if err := writeUnit(e, c, 1, 0, Journaled); err != nil {
		t.Fatal(err)
	}
	checkUnits(t, e, [testWriters]int64{1, 1})
}

// TestFailedSyncIsFatal: after a failed sync nothing is acknowledged as durable.
func TestFailedSyncIsFatal(t *testing.T) {
	fs := NewMemFS()
	fatal := make(chan error, 1)
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, JournalInterval: time.Hour, OnFatal: func(err error) {
		fatal <- err
		select {} // the process ends here
	}})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := e.OpenCounter(testRecords)
	broken := errors.New("the disk is broken")
	fs.SetFault(func(op, name string) error {
		if op == "sync" {
			return broken
		}
		return nil
	})
	if err := writeUnit(e, c, 0, 0, Journaled); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if err := <-fatal; !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if err := writeUnit(e, c, 0, 1, Journaled); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
}

func TestDirectoryIsLocked(t *testing.T) {
	for _, fs := range []FS{NewMemFS(), nil} {
		dir := "db"
		if fs == nil {
			dir = t.TempDir()
		}
		e, err := Open(Options{Dir: dir, FS: fs, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Options{Dir: dir, FS: fs, CacheBytes: 1 << 20}); !mongoerr.Is(err, mongoerr.DBPathInUse) {
			t.Errorf("got %v", err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if e, err = Open(Options{Dir: dir, FS: fs, CacheBytes: 1 << 20}); err != nil {
			t.Fatal(err)
		}
		e.Close()
	}
}

func TestFormat(t *testing.T) {
	fs := NewMemFS()
	openMem(t, fs).Close()
	for _, tc := range []struct{ content, want string }{
		{"mayfly 5\npebble 19\n", "data directory db has format 5, written by a newer version; this one reads up to 4"},
		{"mayfly 4\npebble 99\n", "data directory db has storage engine format 99; this version reads 13 to 19"},
		{"nonsense", `storage: corruption: db/mayfly.format cannot be read: "nonsense"`},
		{format{FormatVersion, pebbleFormat}.String(), "<nil>"},
	} {
		f, err := fs.Create("db/"+formatFile, "")
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(tc.content))
		f.Close()
		e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20})
		if got := fmt.Sprint(err); got != tc.want {
			t.Errorf("got %s\nwant %s", got, tc.want)
		}
		if err == nil {
			e.Close()
		}
	}
}

// TestCreationCut takes the power away at each operation of a store's creation: nothing was
// stored, so the next start creates it.
func TestCreationCut(t *testing.T) {
	open := func(fs *MemFS) (*Engine, error) {
		return Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 1 << 20})
	}
	for _, percent := range []int{0, 50, 100} {
		for at := 1; ; at++ {
			fs, n := NewMemFS(), 0
			var crashed *MemFS
			var where string
			fs.SetFault(func(op, name string) error {
				if n++; n == at && crashed == nil {
					where, crashed = op+" "+name, fs.Crash(percent, rand.New(rand.NewPCG(uint64(at), uint64(percent))))
				}
				return nil
			})
			e, err := open(fs)
			if err != nil {
				t.Fatal(err)
			}
			fs.SetFault(nil)
			e.Close()
			if crashed == nil {
				break
			}
			if e, err = open(crashed); err != nil {
				t.Fatalf("crashed at operation %d, %s (%d%%): %v", at, where, percent, err)
			}
			if e.Applied() != 0 {
				t.Errorf("%d is applied in a new store", e.Applied())
			}
			e.Close()
		}
	}
}
