package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/batchrepr"
)

// filled is how many keys a fill has: together more than ApartMin.
const filled = 600

// apartLog are the units of a log, which fill parts of a keyspace, change what is there, and
// remove parts, which are filled again.
var apartLog = func() (log []func(*Unit, *Counter)) {
	there := map[string]bool{}
	key := func(part, i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(part*1000+i)) }
	rng := rand.New(rand.NewPCG(1, 2))
	add := func(f func(n int, u *Unit, c *Counter)) {
		n := len(log)
		log = append(log, func(u *Unit, c *Counter) {
			f(n, u, c)
			u.Set(testMirror, []byte{byte(n)}, nil)
		})
	}
	fill := func(part int) {
		for i := range filled {
			there[string(key(part, i))] = true
		}
		add(func(n int, u *Unit, c *Counter) {
			for i := range filled {
				u.Set(testRecords, key(part, i), bytes.Repeat([]byte{byte(n), byte(i), byte(i >> 8)}, 700))
			}
			u.Add(c, 0, filled)
		})
	}
	clear := func(part int) {
		gone := 0
		for i := range filled {
			if there[string(key(part, i))] {
				gone++
			}
			delete(there, string(key(part, i)))
		}
		add(func(_ int, u *Unit, c *Counter) {
			u.DeleteRange(testRecords, key(part, 0), key(part+1, 0))
			u.Add(c, 0, int64(-gone))
		})
	}
	touch := func() {
		all := slices.Sorted(maps.Keys(there))
		changed, removed := map[string]bool{}, map[string]bool{}
		for range 40 {
			changed[all[rng.IntN(len(all))]] = true
			removed[all[rng.IntN(len(all))]] = true
		}
		for k := range removed {
			delete(changed, k)
			delete(there, k)
		}
		add(func(n int, u *Unit, c *Counter) {
			for k := range changed {
				u.Set(testRecords, []byte(k), []byte{byte(n)})
			}
			for k := range removed {
				u.Delete(testRecords, []byte(k), -1)
			}
			u.Add(c, 0, -int64(len(removed)))
		})
	}
	fill(0)
	touch()
	fill(1)
	touch()
	clear(0)
	fill(0)
	touch()
	fill(2)
	clear(1)
	touch()
	fill(1)
	touch()
	return log
}()

// applyLog applies the units that a store does not have.
func applyLog(t *testing.T, e *Engine, apart bool) {
	t.Helper()
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		t.Fatal(err)
	}
	for n := e.Applied(); n < uint64(len(apartLog)); n++ {
		u := e.Begin()
		apartLog[n](u, c)
		err := u.Seal()
		if err == nil && apart {
			err = u.ApplyApart(n+1, testRecords, nil, nil)
		} else if err == nil {
			err = u.Apply(n + 1)
		}
		if u.Abort(); err != nil {
			t.Fatalf("unit %d: %v", n, err)
		}
	}
}

// stored is all that a store has, with sums as they are.
func stored(t *testing.T, e *Engine) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := e.EachKey(func(id Ident, key, value []byte) error {
		all[string(appendKey(nil, id, key))] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func openApart(t *testing.T, fs *MemFS) *Engine {
	t.Helper()
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// tables is how many tables were stored that are not of flushes and compactions.
func tables(e *Engine) uint64 {
	m := e.db.Metrics()
	var n uint64
	for _, l := range m.Levels {
		n += l.TablesIngested
	}
	return n
}

// TestApart: what is stored as tables is what is written by the journal, wherever the power,
// or only the process, goes in between and the log is applied again: no older table hides what
// came after it, and no part is left.
func TestApart(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	plain := openApart(t, NewMemFS())
	applyLog(t, plain, false)
	want := stored(t, plain)
	if n := tables(plain); n != 0 {
		t.Fatalf("%d tables", n)
	}
	plain.Close()
	operations := 0
	for round := range 40 {
		fs, at, n, between := NewMemFS(), rng.IntN(operations+1), 0, round%2 == 1
		percent := []int{0, 50, 100}[rng.IntN(3)]
		random := rand.New(rand.NewPCG(rng.Uint64(), 0))
		if between {
			at = rng.IntN(5)
		}
		var crashed *MemFS
		if round > 0 {
			fs.SetFault(func(op, name string) error {
				if between && (op != "remove" || path.Base(name) != apartFile) {
					return nil
				}
				if n++; n == at+1 && crashed == nil {
					crashed = fs.Crash(percent, random)
				}
				return nil
			})
		} else {
			fs.SetFault(func(op, name string) error {
				operations++
				return nil
			})
		}
		e := openApart(t, fs)
		applyLog(t, e, true)
		if n := tables(e); n < 5 {
			t.Fatalf("%d tables, want 5", n)
		}
		if got := stored(t, e); !maps.Equal(got, want) {
			t.Fatal("tables make another store")
		}
		e.Close()
		if crashed == nil {
			continue
		}
		e = openApart(t, crashed)
		if between && percent == 100 {
			if _, _, err := e.Get(testMirror, []byte{byte(e.Applied())}); !errors.Is(err, ErrNotFound) {
				t.Fatalf("unit %d is there and not applied: %v", e.Applied(), err)
			}
		}
		applied := e.Applied()
		applyLog(t, e, true)
		if got := stored(t, e); !maps.Equal(got, want) {
			t.Fatalf("round %d: crashed at operation %d (%d%%) with %d applied, the store differs", round, at, percent, applied)
		}
		e.Close()
	}
}

// TestApartOnFullDisk: where no table can be written, the journal takes the unit.
func TestApartOnFullDisk(t *testing.T) {
	fs := NewMemFS()
	e := openApart(t, fs)
	defer e.Close()
	fs.SetFault(func(op, name string) error {
		if path.Base(name) == apartFile && op == "write" {
			return syscall.ENOSPC
		}
		return nil
	})
	c, _ := e.OpenCounter(testRecords)
	u := e.Begin()
	apartLog[0](u, c)
	if err := errors.Join(u.Seal(), u.ApplyApart(1, testRecords, nil, nil)); err != nil {
		t.Fatal(err)
	}
	u.Abort()
	if n := tables(e); n != 0 || e.Applied() != 1 || c.Load(0) != filled {
		t.Errorf("%d tables, %d applied, %d counted", n, e.Applied(), c.Load(0))
	}
	if names, _ := fs.List("db"); slices.Contains(names, apartFile) {
		t.Error("the file is left")
	}
	fs.SetFault(nil)
	e.space.measure(0)
	applyLog(t, e, true)
	if n := tables(e); n != 4 {
		t.Errorf("%d tables, want 4", n)
	}
}

// TestApartIsSalvaged: what is read of a closed store takes the keys of such a table for newer
// than the deletion of a range before it.
func TestApartIsSalvaged(t *testing.T) {
	fs := NewMemFS()
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 1 << 20, byHand: true})
	if err != nil {
		t.Fatal(err)
	}
	applyLog(t, e, true)
	want := stored(t, e)
	e.Close()
	x, err := Examine(t.Context(), fs, "db", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	got := map[string]string{}
	if err := x.Each(t.Context(), func(id Ident, key, value []byte) error {
		got[string(appendKey(nil, id, key))] = string(value)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(x.Damages) > 0 || !maps.Equal(got, want) {
		t.Errorf("%d keys, want %d; damages: %v", len(got), len(want), x.Damages)
	}
}

// TestRunOf: only values under rising keys of one keyspace, one behind the other, within the
// range, are stored as a table.
func TestRunOf(t *testing.T) {
	e := openApart(t, NewMemFS())
	defer e.Close()
	for _, tc := range []struct{ writes, want string }{
		{"m1 s2 s3 n1", "s2 s3"},
		{"s2 s3", "s2 s3"},
		{"s2 m1 s3", ""},
		{"s3 s2", ""},
		{"s2 s2", ""},
		{"s2 d3", ""},
		{"d2", ""},
		{"s2 s9", ""},
		{"s1 s2", ""},
		{"s2 s3 r1", ""},
		{"m1", ""},
		{"", ""},
	} {
		b := e.db.NewBatch()
		for w := range strings.FieldsSeq(tc.writes) {
			id := map[byte]Ident{'m': testRecords - 1, 'n': testMirror}[w[0]]
			if id == 0 {
				id = testRecords
			}
			key := appendKey(nil, id, []byte(w[1:]))
			switch w[0] {
			case 'd':
				b.Delete(key, nil)
			case 'r':
				b.DeleteRange(key, append(key, 0), nil)
			default:
				b.Set(key, []byte("value"), nil)
			}
		}
		repr := b.Repr()
		r := runOf(repr, testRecords, []byte("2"), []byte("9"))
		var got []string
		for rest := batchrepr.Reader(repr[r.from:r.to]); len(rest) > 0; {
			_, key, _, _, _ := rest.Next()
			_, k := splitKey(key)
			got = append(got, "s"+string(k))
		}
		if strings.Join(got, " ") != tc.want || len(got) != r.count {
			t.Errorf("%q: %q, want %q", tc.writes, got, tc.want)
		}
		b.Close()
	}
}
