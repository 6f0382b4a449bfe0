package expire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/storage"
)

// stalled is a store that does not answer while it hangs.
type stalled struct {
	objectstore.Store
	hangs *atomic.Pointer[chan struct{}] // closed when it answers again; nil while it does
	deaf  bool                           // to the end of ctx, as a file system is
	asked atomic.Int64
}

func (h *stalled) wait(ctx context.Context) error {
	h.asked.Add(1)
	c := h.hangs.Load()
	if c == nil {
		return nil
	}
	if h.deaf {
		<-*c
		return nil
	}
	select {
	case <-*c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *stalled) Put(ctx context.Context, name string, temp *os.File) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Store.Put(ctx, name, temp)
}

func (h *stalled) Remove(ctx context.Context, name string) error {
	if err := h.wait(ctx); err != nil {
		return err
	}
	return h.Store.Remove(ctx, name)
}

// newHangingWorld is a server whose place for archives hangs, with as many collections that archive there.
func newHangingWorld(t *testing.T, dir string, deaf bool, collections int) (w *world, hangs *atomic.Pointer[chan struct{}]) {
	hangs = &atomic.Pointer[chan struct{}]{}
	c := make(chan struct{})
	hangs.Store(&c)
	w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store {
		return &stalled{Store: s, hangs: hangs, deaf: deaf}
	})
	for i := range collections {
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "a%d", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, i, dir)))
		w.must(bson.MustParse(fmt.Sprintf(`{insert: "a%d", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`, i)))
	}
	return w, hangs
}

// TestArchiveHangs has the store of many rules hang: the rules of others remove what is due when it
// is, passes go on, and what is to be archived is when the store is back.
func TestArchiveHangs(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%t", deaf), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w, hangs := newHangingWorld(t, dir, deaf, 8)
				defer w.close()
				w.must(bson.MustParse(`{createIndexes: "n", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0}]}`))
				time.Sleep(61 * time.Second) // a pass is under way
				for i := range 20 {
					w.must(bson.MustParse(fmt.Sprintf(`{insert: "n", documents: [{_id: %d, at: {$date: %q}}]}`, i, time.Now().Add(time.Second).UTC().Format(time.RFC3339))))
					time.Sleep(10 * time.Second)
					if got := w.left("n"); got != "none\n" {
						t.Fatalf("%d seconds later there is still %s", 10*i, got)
					}
				}
				if n := w.m.Stats.Passes.Load(); n < 4 {
					t.Errorf("%d passes", n)
				}
				if got := w.left("a1"); got != "1\n" {
					t.Errorf("not archived, and left: %s", got)
				}
				close(*hangs.Swap(nil))
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				for i := range 8 {
					if got := w.left(fmt.Sprintf("a%d", i)); got != "none\n" {
						t.Errorf("a%d: %s", i, got)
					}
					if got := w.must(bson.MustParse(fmt.Sprintf(`{aggregate: "a%d", pipeline: [{$archive: {}}], cursor: {}}`, i))).String(); strings.Count(got, "_id") != 1 {
						t.Errorf("archived: %s", got)
					}
				}
			})
		})
	}
}

// TestArchiveStops stops the monitor while a store hangs that does not mind the end of a context.
func TestArchiveStops(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, hangs := newHangingWorld(t, dir, true, 3)
		time.Sleep(61 * time.Second)
		begun := time.Now()
		w.close()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("the monitor stopped after %v", took)
		}
		close(*hangs.Swap(nil))
	})
}

// TestArchiveBraked brakes while a store hangs: the brake does not wait for it, and nothing goes.
func TestArchiveBraked(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, hangs := newHangingWorld(t, dir, false, 1)
		defer w.close()
		time.Sleep(61 * time.Second)
		begun := time.Now()
		w.must(bson.MustParse(`{setParameter: 1, ttlMonitorEnabled: false, $db: "admin"}`))
		if took := time.Since(begun); took != 0 {
			t.Errorf("the brake took %v", took)
		}
		close(*hangs.Swap(nil))
		time.Sleep(5 * time.Minute)
		if got := w.left("a0"); got != "1\n" {
			t.Errorf("left behind the brake: %s", got)
		}
		w.must(bson.MustParse(`{setParameter: 1, ttlMonitorEnabled: true, $db: "admin"}`))
		time.Sleep(2 * time.Minute)
		if got := w.left("a0"); got != "none\n" {
			t.Errorf("left: %s", got)
		}
	})
}

// TestArchiveOutsideOfGate locks writes while a store hangs: for a batch, for what it gives up, and
// for what the collector removes. fsyncLock waits for none.
func TestArchiveOutsideOfGate(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, hangs := newHangingWorld(t, dir, false, 1)
		defer w.close()
		lock := func(when string) {
			t.Helper()
			begun := time.Now()
			w.must(bson.MustParse(`{fsync: 1, lock: true, $db: "admin"}`))
			if took := time.Since(begun); took != 0 {
				t.Errorf("%s: fsyncLock took %v", when, took)
			}
			w.must(bson.MustParse(`{fsyncUnlock: 1, $db: "admin"}`))
		}
		for i := range 90 { // while objects are stored, and given up
			time.Sleep(3 * time.Second)
			lock(fmt.Sprint("batch, ", i))
		}
		w.must(bson.MustParse(`{collMod: "a0", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: null}}}}}`))
		time.Sleep(2 * time.Minute)
		ended := make(chan error, 1)
		go func() {
			_, err := w.m.CollectOrphans(t.Context())
			ended <- err
		}()
		time.Sleep(3 * time.Second)
		lock("collector")
		close(*hangs.Swap(nil))
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOrphansOfOthers has one place fail for good while orphans of it are there: those of other places,
// and what has expired, go nevertheless.
func TestOrphansOfOthers(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		away := true
		w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &failingAt{s, "/a", &away} })
		defer w.close()
		for _, c := range []string{"a", "b"} {
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s/%s", expireAfterSeconds: 60}}}}}]}`, c, dir, c)))
			w.must(bson.MustParse(fmt.Sprintf(`{insert: %q, documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`, c)))
		}
		time.Sleep(5 * time.Hour)
		rows := w.must(bson.MustParse(`{find: "system.archive"}`)).String()
		if strings.Contains(rows, dir+"/b") || !strings.Contains(rows, dir+"/a") {
			t.Errorf("in system.archive: %s", rows)
		}
		if log := w.log.take(); !strings.Contains(log, "could not be removed") {
			t.Errorf("the log does not say it: %s", log)
		}
	})
}

// failingAt is a store that is away if it is at a place that ends so.
type failingAt struct {
	objectstore.Store
	at   string
	away *bool
}

func (f *failingAt) Put(ctx context.Context, name string, temp *os.File) error {
	if *f.away && strings.HasSuffix(f.String(), f.at) {
		return errors.New("the store is away")
	}
	return f.Store.Put(ctx, name, temp)
}

func (f *failingAt) Remove(ctx context.Context, name string) error {
	if *f.away && strings.HasSuffix(f.String(), f.at) {
		return errors.New("the store is away")
	}
	return f.Store.Remove(ctx, name)
}

// TestArchiveStateFollows takes the setting of a rule away whose store is away, gives it another place, and
// deletes what it has kept: nothing says any more that it is away.
func TestArchiveStateFollows(t *testing.T) {
	for _, change := range []string{
		`{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: null}}}}}`,
		`{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: {to: "file://DIR/b"}}}}}}`,
		`{delete: "c", deletes: [{q: {}, limit: 0}]}`,
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			away := true
			w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &failingAt{s, "/a", &away} })
			defer w.close()
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s/a"}}}}}]}`, dir)))
			w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
			time.Sleep(10 * time.Minute)
			if n := w.m.Archived().Lookup("rulesAway").Int64(); n != 1 {
				t.Fatalf("%d rules are away", n)
			}
			w.must(bson.MustParse(strings.Replace(change, "DIR", dir, 1)))
			time.Sleep(6 * time.Minute)
			if n := w.m.Archived().Lookup("rulesAway").Int64(); n != 0 {
				t.Errorf("%s: %d rules are away", change, n)
			}
			if got := w.left("c"); got != "none\n" {
				t.Errorf("%s: left: %s", change, got)
			}
		})
	}
}

// TestArchiveOnShard has a server become a shard that has a rule which archives: nothing is removed, and it is said.
func TestArchiveOnShard(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s", expireAfterSeconds: 60}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
		time.Sleep(2 * time.Minute)
		w.m.Stop()
		w.m.o.Shares = func(context.Context, []Claim) (Shares, error) { return Shares{}, nil }
		w.m.Start()
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 2, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
		time.Sleep(3 * time.Hour)
		if got := w.left("c"); got != "2\n" {
			t.Errorf("left: %s", got)
		}
		if got := w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`)).String(); !strings.Contains(got, "a shard does not archive") {
			t.Errorf("skipped: %s", got)
		}
		if got := w.must(bson.MustParse(`{find: "system.archive"}`)).String(); strings.Count(got, "_id") != 1 {
			t.Errorf("rows: %s", got)
		}
	})
}

// hooked is a store with something done before an object is stored, and behind it.
type hooked struct {
	objectstore.Store
	before, behind func()
}

func (h *hooked) Put(ctx context.Context, name string, temp *os.File) error {
	h.before()
	err := h.Store.Put(ctx, name, temp)
	h.behind()
	return err
}

// TestArchiveCollectedMeanwhile has another primary collect what is intended before it is stored: the object
// does not stay.
func TestArchiveCollectedMeanwhile(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		times := 0
		collect := func() {
			if times++; times > 1 {
				return
			}
			w.m.archives.mu.Lock()
			clear(w.m.archives.underWay)
			w.m.archives.mu.Unlock()
			if n, err := w.m.CollectOrphans(t.Context()); n != 1 || err != nil {
				t.Errorf("collected %d: %v", n, err)
			}
		}
		w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &hooked{s, collect, func() {}} })
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet")); err != nil || len(all) != 1 || times < 2 {
			t.Errorf("objects: %v %v, stored %d times", all, err, times)
		}
	})
}

// TestArchivePowerCut has the power go when an object is stored and before anything else is: what was
// intended is on the disk, so the object is found.
func TestArchivePowerCut(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		var crashed *storage.MemFS
		w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store {
			return &hooked{s, func() {}, func() {
				if crashed == nil {
					crashed = w.fs.Crash(0, nil)
				}
			}}
		})
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}], writeConcern: {j: true}}`))
		time.Sleep(2 * time.Minute)
		w.close()
		w.fs = crashed
		w.open()
		defer w.close()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet")); err != nil || len(all) != 1 {
			t.Errorf("objects: %v %v", all, err)
		}
		if got := w.left("c"); got != "none\n" {
			t.Errorf("left: %s", got)
		}
	})
}

// TestArchiveNestedDate passes objects over by a date in a document, and not where an array has dates.
func TestArchiveNestedDate(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		for name, doc := range map[string]string{"one": `{b: {$date: "1999-01-01T00:00:00Z"}}`, "many": `[{b: {$date: "1999-01-01T00:00:00Z"}}, {b: {$date: "2030-01-01T00:00:00Z"}}]`} {
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {"a.b": 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, name, dir)))
			w.must(bson.MustParse(fmt.Sprintf(`{insert: %q, documents: [{_id: 1, "a": %s}]}`, name, doc)))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		rows := w.must(bson.MustParse(`{find: "system.archive", projection: {_id: 0, ns: 1, arrays: 1}, sort: {ns: 1}}`)).Lookup("cursor").Doc().Lookup("firstBatch").String()
		if want := `[ { ns: "d.many", arrays: true }, { ns: "d.one", arrays: false } ]`; rows != want {
			t.Errorf("%s, want %s", rows, want)
		}
	})
}
