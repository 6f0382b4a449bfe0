package storage

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// crashed makes a store of units in tables and in a log, all of them journaled, and
// takes the process away.
func crashed(t *testing.T) *MemFS {
	t.Helper()
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	for n := range 300 {
		if n == 150 {
			if err := e.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := writeUnit(e, c, 0, n, Journaled); err != nil {
			t.Fatal(err)
		}
	}
	return fs.Crash(100, nil)
}

// content is every file of the store, as the disk has it.
func content(t *testing.T, fs *MemFS) map[string]string {
	t.Helper()
	names, err := fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		f, err := fs.mem.Open("db/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		out[name] = string(b)
	}
	return out
}

// kindOf is what a file of a store is.
func kindOf(name string) string {
	switch {
	case strings.HasPrefix(name, "marker."):
		return "marker"
	case strings.HasPrefix(name, "MANIFEST"), strings.HasPrefix(name, "OPTIONS"):
		return name[:strings.IndexByte(name, '-')]
	case path.Ext(name) == ".log", path.Ext(name) == ".sst":
		return path.Ext(name)[1:]
	}
	return name
}

// opens says whether the store opens and serves all 300 units. Where it refuses, the
// error must be ErrCorruption, and no file may have changed.
func opens(t *testing.T, fs *MemFS, what string) (whole bool) {
	t.Helper()
	before := content(t, fs)
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, JournalInterval: time.Hour})
	if err == nil {
		defer e.Close()
		err = readAll(e)
		if err == nil {
			return true
		}
	} else {
		after := content(t, fs)
		for name, b := range before {
			if after[name] != b && name != "LOCK" && (name != controlFile || errors.As(err, new(*DamageError))) {
				t.Errorf("%s: refused, but %s has changed", what, name)
			}
		}
	}
	if !errors.Is(err, ErrCorruption) && !strings.Contains(err.Error(), "this version reads") && !strings.Contains(err.Error(), "this one reads") {
		t.Errorf("%s: %v", what, err)
	}
	return false
}

// readAll reads every unit.
func readAll(e *Engine) error {
	for _, id := range []Ident{testRecords, testMirror} {
		it, err := e.NewIter(id, nil, nil)
		if err != nil {
			return err
		}
		n := 0
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if err != nil {
				return errors.Join(err, it.Close())
			}
			if id == testRecords && !bytes.Equal(v, unitValue(n)) || !bytes.Equal(it.Key(), unitKey(0, n)) {
				return fmt.Errorf("unit %d is %x with other bytes, %d", n, it.Key(), len(v))
			}
			n++
		}
		if err := it.Close(); err != nil {
			return err
		}
		if n != 300 {
			return fmt.Errorf("%d units of 300", n)
		}
	}
	c, err := e.OpenCounter(testRecords)
	if err != nil {
		return err
	}
	if c.Load(0) != 300 {
		return fmt.Errorf("the counter says %d", c.Load(0))
	}
	return nil
}

// named says whether an examination finds damage, in which nothing changes.
func named(t *testing.T, fs *MemFS, what string) bool {
	t.Helper()
	before := content(t, fs)
	x, err := Examine(t.Context(), fs, "db", nil)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if !maps.Equal(before, content(t, fs)) {
		t.Errorf("%s: examining has changed a file", what)
	}
	return len(x.Damages) > 0
}

// TestFlippedBits flips one bit at 200 offsets of each kind of file of a store, and for the
// markers, which have no content, of their names: it is refused, or served whole. What
// is refused, and each bit of a table, is named by an examination; but for options,
// which it does not read.
func TestFlippedBits(t *testing.T) {
	image := crashed(t)
	rng := rand.New(rand.NewPCG(14, 0))
	byKind := map[string][]string{}
	files := content(t, image)
	for name, b := range files {
		if len(b) > 0 {
			byKind[kindOf(name)] = append(byKind[kindOf(name)], name)
		}
	}
	for _, kind := range []string{"sst", "log", "MANIFEST", "OPTIONS", formatFile, controlFile} {
		names := byKind[kind]
		if len(names) == 0 {
			t.Fatalf("there is no %s among %v", kind, byKind)
		}
		slices.Sort(names)
		refused := 0
		for range 200 {
			name := names[rng.IntN(len(names))]
			at, bit := rng.IntN(len(files[name])), rng.IntN(8)
			fs := image.Crash(100, nil)
			flip(t, fs, "db/"+name, int64(at), files[name][at]^1<<bit)
			what := fmt.Sprintf("bit %d of byte %d of %s", bit, at, name)
			found := named(t, fs, what)
			whole := opens(t, fs, what)
			if !whole {
				refused++
			}
			if !found && kind != "OPTIONS" && (!whole || kind == "sst") {
				t.Errorf("%s is not named", what)
			}
		}
		t.Logf("%s: %d refused, %d served whole", kind, refused, 200-refused)
	}
	flipMarkers(t, image, rng)
}

// flipMarkers flips bits in the names of markers.
func flipMarkers(t *testing.T, image *MemFS, rng *rand.Rand) {
	var names []string
	for name := range content(t, image) {
		if kindOf(name) == "marker" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	refused := 0
	for range 200 {
		name := names[rng.IntN(len(names))]
		at := rng.IntN(len(name))
		other := []byte(name)
		other[at] ^= 1 << rng.IntN(7)
		if other[at] == '/' || other[at] == 0 {
			continue // no file has such a name
		}
		fs := image.Crash(100, nil)
		if err := fs.Rename("db/"+name, "db/"+string(other)); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s as %q", name, other)
		found := named(t, fs, what)
		if !opens(t, fs, what) {
			if refused++; !found {
				t.Errorf("%s is not named", what)
			}
		}
	}
	t.Logf("marker: %d refused, %d served whole", refused, 200-refused)
}

func flip(t *testing.T, fs *MemFS, name string, at int64, b byte) {
	t.Helper()
	f, err := fs.mem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b}, at); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestMissingFiles takes each file of a store away, and cuts each in half: it is
// refused, or served whole, with what it was told about what is wrong.
func TestMissingFiles(t *testing.T) {
	image := crashed(t)
	newest := "" // the log that is not in tables yet
	for name := range content(t, image) {
		if kindOf(name) == "log" {
			newest = max(newest, name)
		}
	}
	for name, b := range content(t, image) {
		fs := image.Crash(100, nil)
		if err := fs.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
		whole := opens(t, fs, "without "+name)
		switch kindOf(name) {
		case "log":
			if whole != (name < newest) {
				t.Errorf("without %s the store was served: %t", name, whole)
			}
		case "sst", "MANIFEST", "marker", controlFile:
			if whole {
				t.Errorf("without %s the store was served", name)
			}
		}
		if len(b) < 2 {
			continue
		}
		fs = image.Crash(100, nil)
		f, err := fs.mem.Create("db/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(b[:len(b)/2]))
		f.Close()
		opens(t, fs, "with half of "+name)
	}
}

// TestDamageIsNamed holds what a refusal tells: the file, the offset, what would be
// lost.
func TestDamageIsNamed(t *testing.T) {
	image := crashed(t)
	log := ""
	for name := range content(t, image) {
		if kindOf(name) == "log" && name > log {
			log = name
		}
	}
	fs := image.Crash(100, nil)
	flip(t, fs, "db/"+log, 40_000, 0xff)
	_, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20})
	var damage *DamageError
	if !errors.As(err, &damage) || len(damage.Files) != 1 {
		t.Fatalf("got %v", err)
	}
	d := damage.Files[0]
	if d.File != log || d.Offset > 40_000 || d.Offset < 30_000 || !strings.Contains(d.Lost, "can be read") {
		t.Errorf("got %v", d)
	}
	if again, err := Inspect(fs, "db"); err != nil || !slices.Equal(again, damage.Files) {
		t.Errorf("Inspect tells %v, %v", again, err)
	}
	if clean, err := Inspect(image, "db"); err != nil || len(clean) != 0 {
		t.Errorf("Inspect tells %v, %v of a store that is whole", clean, err)
	}
}

// TestLogOfServer begins a store in a directory where the server's own log is already.
func TestLogOfServer(t *testing.T) {
	fs := NewMemFS()
	for _, name := range []string{"server.log", "mayfly.log", "copy.sst"} {
		if err := fs.MkdirAll("db", 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := fs.Create("db/"+name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if names := content(t, fs); len(names) == 0 {
		t.Error("the store has no files")
	} else if _, there := names["server.log"]; !there {
		t.Error("the server's log is gone")
	}
}

// TestTornLog cuts the end of a log that was not synced: that is no damage.
func TestTornLog(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	for n := range 50 {
		d := Durability(Journaled)
		if n >= 30 {
			d = Buffered
		}
		if err := writeUnit(e, c, 0, n, d); err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(20) {
		checkUnits(t, openMem(t, fs.Crash(50, rand.New(rand.NewPCG(seed, 1)))), [testWriters]int64{30})
	}
}

// TestSyncWaitsForRotation: while the last sync of a log that is full runs, nothing
// that it holds is durable.
func TestSyncWaitsForRotation(t *testing.T) {
	fs := NewMemFS()
	e := openMem(t, fs)
	c, _ := e.OpenCounter(testRecords)
	if err := writeUnit(e, c, 0, 0, Buffered); err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fs.SetFault(func(op, name string) error {
		if op == "sync" && path.Ext(name) == ".log" {
			once.Do(func() { close(begun); <-goOn })
		}
		return nil
	})
	flushed, synced := make(chan error, 1), make(chan error, 1)
	go func() { flushed <- e.Flush() }()
	<-begun
	go func() { synced <- e.Sync(context.Background()) }()
	select {
	case err := <-synced:
		close(goOn)
		t.Fatalf("Sync returned %v before the log was synced", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if err := errors.Join(<-synced, <-flushed); err != nil {
		t.Fatal(err)
	}
	checkUnits(t, openMem(t, fs.Crash(0, nil)), [testWriters]int64{1})
}

// TestCrashAtEveryOperation takes the power away at each operation of writers whose
// logs rotate all the time: what was acknowledged as journaled by then is there.
func TestCrashAtEveryOperation(t *testing.T) {
	type image struct {
		fs       *MemFS
		what     string
		promised [testWriters]int64
	}
	var mu sync.Mutex
	var images []image
	var acknowledged [testWriters]int64
	fs := NewMemFS()
	e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 32 << 10, JournalInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 4))
	fs.SetFault(func(op, name string) error {
		if op == "write" && rng.IntN(50) > 0 {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		if len(images) < 400 {
			images = append(images, image{fs.Crash(50*len(images)%100, rand.New(rand.NewPCG(uint64(len(images)), 0))), op + " " + name, acknowledged})
		}
		return nil
	})
	c, _ := e.OpenCounter(testRecords)
	var wg sync.WaitGroup
	for w := range testWriters {
		wg.Go(func() {
			for n := range 200 {
				if err := writeUnit(e, c, w, n, Journaled); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged[w] = int64(n + 1)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fs.SetFault(nil)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	rotations := 0
	for _, i := range images {
		if !strings.HasPrefix(i.what, "write") && !strings.HasPrefix(i.what, "sync") && strings.HasSuffix(i.what, ".log") {
			rotations++
		}
		e, err := Open(Options{Dir: "db", FS: i.fs, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatalf("crash at %s: %v", i.what, err)
		}
		checkUnits(t, e, i.promised)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if rotations < 2 {
		t.Errorf("%d logs were made or went at %d operations", rotations, len(images))
	}
}

// TestControlGolden holds the bytes of the control file.
func TestControlGolden(t *testing.T) {
	r := controlRecord{seq: 7, opened: true, format: 19, files: []controlledFile{{true, 5, 300}, {false, 12, 70_000}}}
	got := r.appendTo(nil)
	const want = "4d46434f4e54524c010000000700000000000000011300000000000000020000000105000000000000002c01000000000000000c000000000000007011010000000000"
	if h := hex.EncodeToString(got[:len(got)-4]); h != want {
		t.Errorf("got %s", h)
	}
	if back, ok := decodeControl(got); !ok || back.seq != 7 || !slices.Equal(back.files, r.files) {
		t.Errorf("read back as %+v, %t", back, ok)
	}
	for at := range got {
		bad := bytes.Clone(got)
		bad[at] ^= 4
		if _, ok := decodeControl(bad); ok {
			t.Errorf("a flip at %d is not seen", at)
		}
	}
}

// TestStoreWithoutControl opens a store of the format before there was a control
// file: it gets one.
func TestStoreWithoutControl(t *testing.T) {
	fs := crashed(t)
	if err := fs.Remove("db/" + controlFile); err != nil {
		t.Fatal(err)
	}
	if err := writeFormat(fs, "db", format{1, pebbleFormat}); err != nil {
		t.Fatal(err)
	}
	if !opens(t, fs, "format 1") {
		t.Fatal("it was refused")
	}
	if f, err := readFormat(fs, "db"); err != nil || f.version != FormatVersion {
		t.Errorf("the format is %v, %v", f, err)
	}
	if rec, found, err := readControl(fs, "db"); err != nil || !found || !rec.opened || len(rec.files) == 0 {
		t.Errorf("the control file has %+v, %t, %v", rec, found, err)
	}
}

// TestReadOnlyDirectory: a directory that cannot be written is no directory in use.
func TestReadOnlyDirectory(t *testing.T) {
	for err, want := range map[error]string{
		&fs.PathError{Op: "open", Path: "db/LOCK", Err: syscall.EROFS}: "IllegalOperation",
		errors.New("resource temporarily unavailable"):                 "DBPathInUse",
	} {
		_, got := Open(Options{Dir: "db", FS: unlockable{NewMemFS(), err}, CacheBytes: 1 << 20})
		if got == nil || mongoerr.From(got).Code.String() != want {
			t.Errorf("%v: got %v, want %s", err, got, want)
		}
	}
}

// unlockable is a file system in which locks fail.
type unlockable struct {
	*MemFS
	err error
}

func (u unlockable) Lock(string) (io.Closer, error) { return nil, u.err }
