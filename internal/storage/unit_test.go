package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestUnitReadsItsWrites compares engine, snapshot and unit with maps.
func TestUnitReadsItsWrites(t *testing.T) {
	e := openMem(t, NewMemFS())
	next := Ident(100)
	rapid.Check(t, func(t *rapid.T) {
		id := next
		next += 2
		committed := map[string]string{}
		for range rapid.IntRange(1, 4).Draw(t, "units") {
			u := e.Begin()
			want := map[string]string{}
			for k, v := range committed {
				want[k] = v
			}
			for range rapid.IntRange(0, 12).Draw(t, "writes") {
				k := rapid.StringMatching(`[a-d]{0,2}`).Draw(t, "key")
				switch rapid.IntRange(0, 5).Draw(t, "op") {
				case 0:
					u.Delete(id, []byte(k), len(want[k]))
					delete(want, k)
				case 1:
					hi := k + "b"
					u.DeleteRange(id, []byte(k), []byte(hi))
					for x := range want {
						if x >= k && x < hi {
							delete(want, x)
						}
					}
				case 2:
					checkKeyspace(t, u, id, want)
				default:
					v := fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "value"))
					u.Set(id, []byte(k), []byte(v))
					u.Set(id+1, []byte(k), []byte("neighbour"))
					want[k] = v
				}
			}
			s := e.NewSnapshot()
			checkKeyspace(t, u, id, want)
			checkKeyspace(t, e, id, committed)
			if rapid.Bool().Draw(t, "commit") {
				if err := u.Commit(t.Context(), Buffered); err != nil {
					t.Fatal(err)
				}
				checkKeyspace(t, s, id, committed)
				committed = want
			}
			u.Abort()
			s.Close()
			checkKeyspace(t, e, id, committed)
		}
	})
}

func checkKeyspace(t *rapid.T, r Reader, id Ident, want map[string]string) {
	keys := []string{}
	for k := range want {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	it, err := r.NewIter(id, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	i := 0
	for ok := it.First(); ok; ok = it.Next() {
		v, _ := it.Value()
		if i == len(keys) || string(it.Key()) != keys[i] || string(v) != want[keys[i]] {
			t.Fatalf("key %d is %q = %q, want %q", i, it.Key(), v, keys)
		}
		i++
	}
	if i != len(keys) {
		t.Fatalf("%d keys, want %q", i, keys)
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if i--; string(it.Key()) != keys[i] {
			t.Fatalf("backwards: key %d is %q", i, it.Key())
		}
	}
	for _, k := range []string{"", "a", "bb", "dd"} {
		at := sort.SearchStrings(keys, k)
		if ok := it.SeekGE([]byte(k)); ok != (at < len(keys)) || ok && string(it.Key()) != keys[at] {
			t.Fatalf("SeekGE(%q)", k)
		}
		if ok := it.SeekLT([]byte(k)); ok != (at > 0) || ok && string(it.Key()) != keys[at-1] {
			t.Fatalf("SeekLT(%q)", k)
		}
		v, closer, err := r.Get(id, []byte(k))
		if w, has := want[k]; has != (err == nil) || has && !bytes.Equal(v, []byte(w)) {
			t.Fatalf("Get(%q) = %q, %v", k, v, err)
		}
		if err == nil {
			closer.Close()
		}
	}
}

func TestMergedValues(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, err := e.OpenCounter(30)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		u := e.Begin()
		u.Add(c, 0, int64(i))
		u.Add(c, 0, 1)
		u.Add(c, 1, -5)
		u.OrBits(31, []byte("m"), bytes.Repeat([]byte{1 << (i % 8)}, 1+i))
		if i%3 == 0 {
			u.Abort()
			continue
		}
		if err := u.Commit(t.Context(), Buffered); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			e.Flush()
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = openMem(t, fs)
	again, err := e.OpenCounter(30)
	if err != nil {
		t.Fatal(err)
	}
	if c.Load(0) != 33 || c.Load(1) != -30 || again.Load(0) != 33 || again.Load(1) != -30 {
		t.Errorf("%d %d, then %d %d", c.Load(0), c.Load(1), again.Load(0), again.Load(1))
	}
	v, closer, err := e.Get(31, []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	if got := fmt.Sprintf("%x", Bits(v)); got != "b7b7b5b1b1a1818101" {
		t.Errorf("bits %s", got)
	}
}

// newIdent takes an ident in a unit of its own.
func newIdent(e *Engine) (Ident, error) {
	u := e.Begin()
	id := u.NewIdent(CommonIdents)
	return id, u.Commit(context.Background(), Journaled)
}

func TestIdentsAreNeverUsedTwice(t *testing.T) {
	fs := NewMemFS()
	seen := map[Ident]bool{}
	for range 3 {
		e := openMem(t, fs)
		for i := range 100 {
			r := IdentRange(i % 2)
			u := e.Begin()
			a, b := u.NewIdent(r), u.NewIdent(r)
			if seen[a] || seen[b] || a == b || a < firstIdents[r] || (r == CommonIdents) != (b < FirstOwnIdent) {
				t.Fatalf("idents %d and %d", a, b)
			}
			if i%3 == 0 {
				u.Abort() // both are free again
				continue
			}
			seen[a], seen[b] = true, true
			u.Set(a, nil, nil)
			if err := u.Commit(t.Context(), Journaled); err != nil {
				t.Fatal(err)
			}
		}
		fs = fs.Crash(0, nil)
	}
	if len(seen) != 2*2*(100-34)*3/2 {
		t.Errorf("%d idents were taken", len(seen))
	}
}

func TestCheckpointAndSizes(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	for n := range 500 {
		if err := writeUnit(e, c, 0, n, Buffered); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	copied, err := Open(Options{Dir: "copy", FS: fs, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	checkUnits(t, copied, [testWriters]int64{500})
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, err := e.DiskUsage(testRecords); err != nil || n < 1<<10 {
		t.Errorf("disk usage %d, %v", n, err)
	}
	u := e.Begin()
	u.DeleteRange(testRecords, nil, nil)
	u.DeleteRange(testMirror, nil, nil)
	u.DropCounter(c)
	if err := u.Commit(t.Context(), Journaled); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Compact(t.Context(), testRecords); err != nil {
		t.Fatal(err)
	}
	if n, err := e.DiskUsage(testRecords); err != nil || n != 0 {
		t.Errorf("disk usage of an empty keyspace is %d, %v", n, err)
	}
	checkUnits(t, e, [testWriters]int64{})
	if m := e.Metrics(); m.Flushes == 0 || m.LogBytesWritten == 0 {
		t.Errorf("metrics %+v", m)
	}
}

// TestCheckpointOfReusedLog holds that a copy has of a log what was written to it, and not what its
// file has of the log before.
func TestCheckpointOfReusedLog(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	n := 0
	write := func(units int) {
		t.Helper()
		for range units {
			if err := writeUnit(e, c, 0, n, Buffered); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	largest := func(dir string) (size int64) {
		t.Helper()
		names, err := fs.List(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && strings.HasSuffix(name, ".log") {
				size = max(size, info.Size())
			}
		}
		return size
	}
	for range 4 {
		write(500)
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	write(3)
	if size := largest(e.opts.Dir); size < 200<<10 {
		t.Fatalf("no log took over a file: the largest has %d bytes", size)
	}
	if err := e.Checkpoint("copy"); err != nil {
		t.Fatal(err)
	}
	if size := largest("copy"); size == 0 || size > 50<<10 {
		t.Errorf("the copy has a log of %d bytes", size)
	}
	copied, err := Open(Options{Dir: "copy", FS: fs, CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	checkUnits(t, copied, [testWriters]int64{int64(n)})
	if err := errors.Join(copied.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
}

// A copy that need not have a range of keys is made without the tables that have nothing
// else.
func TestCheckpointWithout(t *testing.T) {
	fs := NewMemFS()
	e, err := Open(Options{Dir: "data", FS: fs, CacheBytes: 1 << 20, byHand: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	value := bytes.Repeat([]byte("v"), 1000)
	write := func(id Ident, keys ...string) {
		t.Helper()
		u := e.Begin()
		for _, k := range keys {
			if err := u.Set(id, []byte(k), value); err != nil {
				t.Fatal(err)
			}
		}
		if err := errors.Join(u.Commit(t.Context(), Buffered), e.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	write(FirstIdent, "a", "b", "c")
	write(IdentRaft, "e1", "e2", "e3") // a table of its own
	write(IdentRaft, "e4", "e5", "s")  // another one, of which a part is wanted
	if err := e.CheckpointWithout("copy", IdentRaft, []byte("e1"), []byte("e5")); err != nil {
		t.Fatal(err)
	}
	copied, err := Open(Options{Dir: "copy", FS: fs, CacheBytes: 1 << 20, byHand: true})
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	has := func(id Ident, key string) bool {
		_, closer, err := copied.Get(id, []byte(key))
		if errors.Is(err, ErrNotFound) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		return closer.Close() == nil
	}
	for _, k := range []string{"a", "b", "c"} {
		if !has(FirstIdent, k) {
			t.Errorf("the copy lacks %s", k)
		}
	}
	for k, want := range map[string]bool{"e1": false, "e2": false, "e3": false, "e5": true, "s": true} {
		if has(IdentRaft, k) != want {
			t.Errorf("that the copy has %s is %t", k, !want)
		}
	}
}
