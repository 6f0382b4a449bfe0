package expire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestArchiveForget removes documents from an archive, with a store that fails at each of its calls in
// turn, or a process that dies there: what matches is gone behind the last try, and the rest is there
// once, whatever was done before (invariants archived-once and nothing-guessed).
func TestArchiveForget(t *testing.T) {
	for first, dies := range []bool{false, true} {
		step := 2 // each call in one of the ways
		if *archiveTrials > fewTrials {
			first, step = 0, 1
		}
		for nth, more := 1+first, true; more; nth += step {
			t.Run(fmt.Sprintf("dies=%t/%d", dies, nth), func(t *testing.T) {
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) { more = forgetWith(t, dir, nth, dies) })
			})
		}
	}
}

// forgetWith is one trial, in which the nth call fails. It reports whether there were so many.
func forgetWith(t *testing.T, dir string, nth int, dies bool) (hit bool) {
	const command = `{archiveForget: "c", filter: {user: "ann"}}`
	w, p := newForgetWorld(t, dir)
	defer func() { w.close() }()
	check := func(when string, least, most int) {
		t.Helper()
		ids, anns := w.archivedUsers()
		seen := map[string]bool{}
		for _, id := range ids {
			seen[id] = true
		}
		if len(seen) != len(ids) || anns < least || anns > most || len(ids)-anns != 8 {
			t.Errorf("%s: %v are archived, %d of ann's", when, ids, anns)
		}
	}
	check("before", 4, 4)
	if r := w.must(bson.MustParse(`{archiveForget: "c", filter: {user: "ann"}, dryRun: true}`)); r.Lookup("documents").Int64() != 4 {
		t.Error(r)
	}
	check("behind a dry run", 4, 4)
	p.arm(nth, dies)
	r := w.runOn(bson.MustParse(command))
	hit, crashed := p.disarm()
	if crashed != nil {
		w.close()
		w.fs = crashed
		w.open()
	}
	check("behind a failure", 0, 4)
	if !hit && r.Lookup("ok").Double() != 1 {
		t.Error(r)
	}
	if r = w.must(bson.MustParse(command)); !r.Lookup("left").Doc().IsEmpty() {
		t.Error(r)
	}
	check("at the end", 0, 0)
	time.Sleep(2 * orphansEvery)
	synctest.Wait()
	check("behind the collector", 0, 0)
	all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet"))
	if err != nil || len(all) != 3 {
		t.Errorf("%d objects: %v", len(all), err)
	}
	return hit
}

// nthFault is a store of which one call fails.
type nthFault struct {
	objectstore.Store
	p *nthFaults
}

// nthFaults say which: left is how many calls there are up to it, 0 for none.
type nthFaults struct {
	w       *world
	mu      sync.Mutex
	left    int
	dies    bool
	hit     bool
	crashed *storage.MemFS // the disk at the death of the process
}

func (p *nthFaults) arm(nth int, dies bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left, p.dies = nth, dies
}

func (p *nthFaults) disarm() (hit bool, crashed *storage.MemFS) {
	p.mu.Lock()
	defer p.mu.Unlock()
	crashed, p.left, p.crashed = p.crashed, 0, nil
	return p.hit, crashed
}

func (p *nthFaults) call() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.crashed != nil:
		return errDead
	case p.left == 0:
		return nil
	}
	if p.left--; p.left > 0 {
		return nil
	}
	if p.hit = true; p.dies {
		p.crashed = p.w.fs.Crash(100, nil)
		return errDead
	}
	return errFault
}

func (f *nthFault) Temp(ctx context.Context) (*os.File, error) {
	if err := f.p.call(); err != nil {
		return nil, err
	}
	return f.Store.Temp(ctx)
}

func (f *nthFault) Put(ctx context.Context, name string, temp *os.File) error {
	if err := f.p.call(); err != nil {
		return err
	}
	return errors.Join(f.Store.Put(ctx, name, temp), f.p.call())
}

func (f *nthFault) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := f.p.call(); err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, name)
}

func (f *nthFault) Remove(ctx context.Context, name string) error {
	if err := f.p.call(); err != nil {
		return err
	}
	return errors.Join(f.Store.Remove(ctx, name), f.p.call())
}

// newForgetWorld is a server with objects of four days: all of one are ann's.
func newForgetWorld(t *testing.T, dir string) (*world, *nthFaults) {
	p := &nthFaults{}
	w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &nthFault{s, p} })
	p.w = w
	w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s", fields: ["user"]}}}}}]}`, dir)))
	for i, user := range strings.Fields("bob ann cid bob cid bob bob bob bob ann ann ann") {
		w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: %d, user: %q, at: {$date: "1999-12-0%dT00:00:00Z"}}]}`, i, user, 1+i/3)))
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	return w, p
}

// archivedUsers are the _ids of what is archived, and how many are ann's.
func (w *world) archivedUsers() (ids []string, anns int) {
	for _, v := range w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$archive: {}}], cursor: {}}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		ids = append(ids, v.Doc().Lookup("_id").String())
		if v.Doc().Lookup("user").Str() == "ann" {
			anns++
		}
	}
	return ids, anns
}

// TestArchiveForgetRefuses holds that a place that is tampered with is said, and that nothing is guessed.
func TestArchiveForgetRefuses(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newForgetWorld(t, dir)
		defer w.close()
		for command, code := range map[string]int32{
			`{archiveForget: "c"}`: 40414, `{archiveForget: "c", filter: 1}`: 14, `{archiveForget: "c", filter: {}, of: "x"}`: 2,
			`{archiveForget: "c", filter: {}, limit: 1}`: 40415, `{archiveForget: "c", filter: {$where: "true"}}`: 2,
		} {
			if r := w.runOn(bson.MustParse(command)); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != code {
				t.Errorf("%s: %s", command, r)
			}
		}
		if r := w.must(bson.MustParse(`{archiveForget: "none", filter: {}}`)); r.Lookup("documents").Int64() != 0 {
			t.Error(r)
		}
		all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet"))
		if err != nil || len(all) != 4 {
			t.Fatal(all, err)
		}
		if err := os.WriteFile(all[1], []byte("something else"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := w.runOn(bson.MustParse(`{archiveForget: "c", filter: {user: "ann"}}`)); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != 96 {
			t.Error(r)
		}
	})
}
