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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/schema"
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
	p.w = newForgetWorldWith(t, dir, func(s objectstore.Store) objectstore.Store { return &nthFault{s, p} })
	return p.w, p
}

func newForgetWorldWith(t *testing.T, dir string, around func(objectstore.Store) objectstore.Store) *world {
	w := newArchiveWorld(t, dir, around)
	w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s", fields: ["user"]}}}}}]}`, dir)))
	for i, user := range strings.Fields("bob ann cid bob cid bob bob bob bob ann ann ann") {
		w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: %d, user: %q, at: {$date: "1999-12-0%dT00:00:00Z"}}]}`, i, user, 1+i/3)))
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	return w
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
		w.must(bson.MustParse(`{create: "v", viewOn: "c", pipeline: []}`))
		if r := w.runOn(bson.MustParse(`{archiveForget: "v", filter: {}}`)); r.Lookup("code").String() != "166" {
			t.Errorf("a view: %s", r)
		}
	})
}

// TestArchiveForgetDamaged forgets in the other objects, and says which one is damaged.
func TestArchiveForgetDamaged(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newForgetWorld(t, dir)
		defer w.close()
		first, err := filepath.Glob(filepath.Join(dir, "d.c", "dt=1999-12-01", "*.parquet"))
		if err != nil || len(first) != 1 {
			t.Fatal(first, err)
		}
		was, err := os.ReadFile(first[0])
		if err == nil {
			err = os.WriteFile(first[0], []byte("something else"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		r := w.runOn(bson.MustParse(`{archiveForget: "c", filter: {user: "ann"}}`))
		if r.Lookup("code").String() != "96" || !strings.Contains(r.Lookup("errmsg").Str(), filepath.Base(first[0])) || !strings.HasPrefix(r.Lookup("errmsg").Str(), "1 archived objects could not be read; 3 documents were removed from the others") {
			t.Error(r)
		}
		if err := os.WriteFile(first[0], was, 0o600); err != nil {
			t.Fatal(err)
		}
		if ids, anns := w.archivedUsers(); len(ids) != 9 || anns != 1 {
			t.Errorf("%v are archived, %d of ann's", ids, anns)
		}
	})
}

// slowTemp is a store whose Temp answers late, and with an error, while slow is positive; and whose Remove
// fails while stays.
type slowTemp struct {
	objectstore.Store
	slow  *atomic.Int64 // nanoseconds
	stays *atomic.Bool
}

func (s *slowTemp) Temp(ctx context.Context) (*os.File, error) {
	if slow := time.Duration(s.slow.Load()); slow > 0 {
		time.Sleep(slow)
		return nil, errFault
	}
	return s.Store.Temp(ctx)
}

func (s *slowTemp) Remove(ctx context.Context, name string) error {
	if s.stays.Load() {
		return errFault
	}
	return s.Store.Remove(ctx, name)
}

// TestArchiveForgetSlow has the store answer with an error when nobody waits for it any more, and keep
// objects that were replaced: the next run removes those, and says what stays.
func TestArchiveForgetSlow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Int64
		var stays atomic.Bool
		w := newForgetWorldWith(t, dir, func(s objectstore.Store) objectstore.Store { return &slowTemp{s, &slow, &stays} })
		defer w.close()
		forget := bson.MustParse(`{archiveForget: "c", filter: {user: "ann"}}`)
		slow.Store(int64(10 * time.Minute))
		if r := w.runOn(forget); r.Lookup("code").String() != "96" {
			t.Error(r)
		}
		time.Sleep(20 * time.Minute) // the answer comes
		if ids, _ := w.archivedUsers(); len(ids) != 12 {
			t.Errorf("%v are archived", ids)
		}
		slow.Store(0)
		stays.Store(true)
		for _, documents := range []int64{4, 0} {
			r := w.must(forget)
			if r.Lookup("waiting").Int64() != 2 || r.Lookup("documents").Int64() != documents {
				t.Error(r)
			}
		}
		stays.Store(false)
		if r := w.must(forget); r.Lookup("waiting").Int64() != 0 {
			t.Error(r)
		}
		if all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet")); err != nil || len(all) != 3 {
			t.Errorf("%d objects: %v", len(all), err)
		}
	})
}

// TestArchiveForgetLeft names the objects of another server, of which this one is a copy, up to a bound, and
// says that there are more.
func TestArchiveForgetLeft(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newForgetWorld(t, dir)
		defer w.close()
		const ann = `{archiveForget: "c", filter: {user: "ann"}}`
		w.m.o.Owner = func() (string, error) { return "copy", nil }
		manifest := w.cat.Lookup(schema.Namespace{DB: "d", Coll: schema.ArchiveCollection})
		var rows []archive.Row
		for i := range archive.MaxLeft - 1 {
			rows = append(rows, archive.Row{To: "file://" + dir, Path: fmt.Sprintf("d.c/%d.parquet", i), Namespace: "d.c", Collection: w.cat.Lookup(schema.Namespace{DB: "d", Coll: "c"}).UUID, Owner: "original", Writing: true, GivenUp: true})
		}
		if err := w.m.intend(t.Context(), manifest, rows); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct {
			left, documents int64
			more            bool
		}{{archive.MaxLeft, 1, true}, {1, 3, false}, {0, 0, false}} {
			r := w.must(bson.MustParse(ann))
			if int64(len(r.Lookup("left").Doc().Slice())) != want.left || r.Lookup("documents").Int64() != want.documents || r.Lookup("more").Bool() != want.more {
				t.Errorf("%+v: %d left, %s documents, more: %s", want, len(r.Lookup("left").Doc().Slice()), r.Lookup("documents"), r.Lookup("more"))
			}
		}
	})
}

// TestArchiveForgetMemory has what is read of an object be booked: where there is no memory it waits.
func TestArchiveForgetMemory(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newForgetWorld(t, dir)
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: 20, user: "ann", at: {$date: "1999-12-09T00:00:00Z"}}, {_id: 21, text: %q, at: {$date: "1999-12-09T00:00:00Z"}}]}`, strings.Repeat("text ", 20_000))))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		budget := memory.NewBudget(0)
		w.m.o.Exec.Memory = budget
		var others memory.Account
		others.Open(budget)
		holding := others.Hold(nil)
		holding.Book(budget.Stats().Limit)
		forget := `{archiveForget: "c", filter: {user: "ann", at: {$gte: {$date: "1999-12-09T00:00:00Z"}}}`
		if r := w.runOn(bson.MustParse(forget + `, maxTimeMS: 100}`)); r.Lookup("code").String() != "50" {
			t.Errorf("without memory: %s", r)
		}
		others.Close()
		if r := w.must(bson.MustParse(forget + `}`)); r.Lookup("documents").Int64() != 1 || budget.Stats().Operations.Held != 0 {
			t.Errorf("%s, %+v", r, budget.Stats())
		}
	})
}

// TestArchiveForgetTwice has two forget at once, which take turns, and a third one that has no time to wait.
func TestArchiveForgetTwice(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, _ := newForgetWorld(t, dir)
		defer w.close()
		w.m.archives.forgetting <- struct{}{}
		if r := w.runOn(bson.MustParse(`{archiveForget: "c", filter: {}, maxTimeMS: 100}`)); r.Lookup("code").String() != "50" {
			t.Errorf("a wait without an end: %s", r)
		}
		answers := make(chan bson.Doc, 2)
		for i, user := range []string{"ann", "bob"} {
			client := &command.Client{ConnectionID: int64(10 + i)}
			w.d.Clients.Connect(client)
			go func() {
				body := bson.MustParse(fmt.Sprintf(`{archiveForget: "c", filter: {user: %q}}`, user))
				answers <- w.d.Dispatch(t.Context(), &command.Request{Client: client, DB: "d", Body: body}).Body
			}()
		}
		synctest.Wait()
		<-w.m.archives.forgetting
		for range 2 {
			if r := <-answers; r.Lookup("ok").Double() != 1 {
				t.Error(r)
			}
		}
		if ids, _ := w.archivedUsers(); len(ids) != 2 {
			t.Errorf("%v are archived", ids)
		}
	})
}
