package expire

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/storage"
)

// fewTrials is how many trials TestArchivedOnce makes by default.
const fewTrials = 24

// archiveTrials is how many it makes; more of them are `make test-archive`.
var archiveTrials = flag.Int("archivetrials", fewTrials, "trials of TestArchivedOnce")

// TestArchivedOnce has a store fail at any call, in any way, has the process die before any or
// behind it, and has clients write what is being archived: then archived and live documents are
// together all that there were, each once and as it was written last, and no object is left that
// has no row (invariants archived-first and archived-once).
func TestArchivedOnce(t *testing.T) {
	for seed := range *archiveTrials {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				p := newArchiveTrial(t, dir, uint64(seed))
				p.run()
			})
		})
	}
}

// archiveTrial is a server with an archive whose store fails.
type archiveTrial struct {
	t    *testing.T
	rng  *rand.Rand
	dir  string
	w    *world
	mu   sync.Mutex
	next int                // the _id of the next document
	docs map[int32]bson.Doc // as they were written last
	// chance is of how many calls one fails, 0 for none.
	chance int
	busy   bool // a hook writes
	// crashed is the disk at the death of the process; nil while it lives.
	crashed *storage.MemFS
}

func newArchiveTrial(t *testing.T, dir string, seed uint64) *archiveTrial {
	p := &archiveTrial{t: t, rng: rand.New(rand.NewPCG(seed, 22)), dir: dir, docs: map[int32]bson.Doc{}}
	p.w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &faulty{s, p} })
	p.w.cat.NoWindows.Store(p.rng.IntN(2) == 0)
	p.w.m.archives.docs = 1 + p.rng.IntN(30)
	p.w.m.relays.least = 1
	if p.rng.IntN(2) == 0 {
		p.fill() // so that the rule asks for a relayout
	}
	p.w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 60, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s/x", fields: ["n"]}}}}}, {key: {other: 1}, name: "other", expireAfterSeconds: 0}]}`, dir)))
	return p
}

// newArchiveWorld is newWorld with a place for archives.
func newArchiveWorld(t *testing.T, dir string, around func(objectstore.Store) objectstore.Store) *world {
	t.Helper()
	parquet.Zstd, archive.Zstd = zstd.Codec{}, zstd.Codec{Level: archive.Zstd.Level} // their pools have channels of the last bubble
	w := &world{t: t, fs: storage.NewMemFS(), opened: map[string]openCursor{}, places: "file://" + dir, around: around}
	w.client = &command.Client{ConnectionID: 1}
	w.open()
	w.cat.NoWindows.Store(true)
	return w
}

func (p *archiveTrial) run() {
	for range 3 {
		p.fill()
		p.chance = 2 + p.rng.IntN(8)
		for range 1 + p.rng.IntN(4) {
			time.Sleep(65 * time.Second)
			synctest.Wait()
			if p.crashed != nil {
				p.restart()
			}
		}
	}
	p.chance = 0
	p.mu.Lock()
	crashed := p.crashed
	p.mu.Unlock()
	if crashed != nil {
		p.restart()
	}
	time.Sleep(2 * orphansEvery) // pauses end, too
	synctest.Wait()
	p.judge()
	p.w.close()
}

// fill inserts documents of some days.
func (p *archiveTrial) fill() {
	for range 1 + p.rng.IntN(40) {
		var b bson.Builder
		at := time.Now().Add(-time.Duration(1+p.rng.IntN(72)) * time.Hour).UnixMilli()
		b.Int32("_id", int32(p.next)).Int32("n", int32(p.rng.IntN(3)))
		switch p.rng.IntN(8) {
		case 0:
			b.OpenArray("at").Date("0", at).Date("1", at+1e6).Close()
		case 1:
			b.Date("at", at).Date("other", at) // due by a rule that does not archive, too
		default:
			b.Date("at", at)
		}
		b.String("s", strings.Repeat("x", p.rng.IntN(500)))
		doc := b.Finish()
		p.w.must(new(bson.Builder).String("insert", "c").OpenArray("documents").Doc("0", doc).Close().Finish())
		p.docs[int32(p.next)] = doc
		p.next++
	}
}

// touch changes a document, if it is there.
func (p *archiveTrial) touch() {
	id := int32(p.rng.IntN(p.next))
	change := fmt.Sprintf(`{$set: {n: %d}}`, 10+p.rng.IntN(1000))
	if p.rng.IntN(3) == 0 && !p.docs[id].Has("other") {
		change = `{$currentDate: {at: true}}`
	}
	r := p.w.must(bson.MustParse(fmt.Sprintf(`{findAndModify: "c", query: {_id: %d}, update: %s, new: true}`, id, change)))
	if v := r.Lookup("value"); v.Type == bson.TypeDocument {
		p.docs[id] = v.Doc().Clone()
	}
}

// restart begins again with what the death of the process left.
func (p *archiveTrial) restart() {
	docs, without := p.w.m.archives.docs, p.w.cat.NoWindows.Load() // relays are as ever from now on
	p.w.close()
	p.w.fs, p.crashed = p.crashed, nil
	p.w.open()
	p.w.cat.NoWindows.Store(without)
	p.w.m.archives.docs = docs
}

func (p *archiveTrial) judge() {
	t := p.t
	found := map[int32]bson.Doc{}
	add := func(where string, d bson.Doc) {
		id := d.Lookup("_id").Int32()
		if found[id] != nil {
			t.Errorf("%d is there twice, and %s", id, where)
		}
		found[id] = d
		if !bytes.Equal(d, p.docs[id]) {
			t.Errorf("%d is %s as %s, and was written as %s", id, where, d, p.docs[id])
		}
	}
	list := func(command string) []bson.Value {
		return p.w.must(bson.MustParse(command)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice()
	}
	live := list(`{find: "c", batchSize: 10000}`)
	for _, v := range live {
		add("live", v.Doc())
		if at := v.Doc().Lookup("at"); at.Type == bson.TypeDate && at.Date() < time.Now().Add(-10*time.Minute).UnixMilli() {
			t.Errorf("%s is due, and live", v)
		}
	}
	for _, v := range list(`{aggregate: "c", pipeline: [{$archive: {}}], cursor: {batchSize: 10000}}`) {
		add("archived", v.Doc())
	}
	if !maps.EqualFunc(found, p.docs, func(a, b bson.Doc) bool { return true }) {
		t.Errorf("%d documents of %d are there", len(found), len(p.docs))
	}
	rows, writing := map[string]bool{}, 0
	for _, v := range list(`{find: "system.archive", batchSize: 10000}`) {
		r, ok := archive.ParseRow(v.Doc())
		if !ok || r.Writing {
			writing++
		}
		rows[filepath.Join(p.dir, "x", r.Path)] = true
	}
	if writing > 0 {
		t.Errorf("%d rows are intended only", writing)
	}
	err := filepath.WalkDir(p.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Dir(path) != filepath.Join(p.dir, "x", objectstore.TempDirectory) && !rows[path] {
			t.Errorf("%s has no row", path)
		}
		delete(rows, path)
		return err
	})
	if err != nil || len(rows) > 0 {
		t.Errorf("%d objects are missing: %v", len(rows), err)
	}
}

// faulty is a store that fails as the trial says.
type faulty struct {
	objectstore.Store
	p *archiveTrial
}

var (
	errFault = errors.New("the store is said to fail")
	errDead  = errors.New("the process is dead")
)

// call is called before each call of the store. It returns what goes wrong: 0 for nothing, 1 to 3
// for a kind of failure.
func (p *archiveTrial) call() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashed != nil {
		return 0, errDead
	}
	if p.chance == 0 {
		return 0, nil
	}
	if !p.busy && p.rng.IntN(3) == 0 {
		p.busy = true
		p.mu.Unlock()
		p.touch()
		p.mu.Lock()
		p.busy = false
	}
	if p.rng.IntN(p.chance) > 0 {
		return 0, nil
	}
	kind := p.rng.IntN(5)
	if kind == 4 {
		p.crashed = p.w.fs.Crash(100, nil)
		return 0, errDead
	}
	return kind, nil
}

// dies has the process die behind a call, sometimes.
func (p *archiveTrial) dies() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashed == nil && p.chance > 0 && p.rng.IntN(4*p.chance) == 0 {
		p.crashed = p.w.fs.Crash(100, nil)
	}
	if p.crashed != nil {
		return errDead
	}
	return nil
}

func (f *faulty) Temp(ctx context.Context) (*os.File, error) {
	if kind, err := f.p.call(); err != nil || kind == 1 {
		return nil, errors.Join(err, errFault)
	}
	return f.Store.Temp(ctx)
}

func (f *faulty) Put(ctx context.Context, name string, temp *os.File) error {
	kind, err := f.p.call()
	switch {
	case err != nil:
		return err
	case kind == 1:
		return errFault
	case kind == 2: // it is stored, and said not to be
		return errors.Join(f.Store.Put(ctx, name, temp), errFault)
	case kind == 3: // half of it is stored
		info, err := temp.Stat()
		if err == nil {
			err = temp.Truncate(info.Size() / 2)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(f.Store.Put(ctx, name, temp), f.p.dies())
}

func (f *faulty) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	kind, err := f.p.call()
	switch {
	case err != nil:
		return nil, err
	case kind == 1:
		return nil, errFault
	}
	in, err := f.Store.Get(ctx, name)
	if err == nil && kind == 2 {
		return struct {
			io.Reader
			io.Closer
		}{io.LimitReader(in, 10), in}, nil
	}
	return in, err
}

func (f *faulty) Remove(ctx context.Context, name string) error {
	kind, err := f.p.call()
	switch {
	case err != nil:
		return err
	case kind == 1:
		return errFault
	}
	return errors.Join(f.Store.Remove(ctx, name), f.p.dies())
}

// TestArchiveAway has the place of an archive be away: what is due waits, and all that tells of
// expiry says so. Then it is back.
func TestArchiveAway(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		away := true
		w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &failing{s, &away} })
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
		stats := func() string {
			d := w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc().Lookup("skipped").Doc().Lookup("0")
			if d.IsMissing() {
				return ""
			}
			return d.Str()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := w.left("c"); got != "1\n" {
			t.Errorf("left: %s", got)
		}
		if got := stats(); !strings.Contains(got, "its archive cannot be written since 2000-01-01T00:0") || !strings.Contains(got, "the store is away") {
			t.Errorf("skipped: %s", got)
		}
		if log := w.log.take(); strings.Count(log, "cannot be archived, and stay") != 1 {
			t.Errorf("the log says it %d times", strings.Count(log, "cannot be archived, and stay"))
		}
		if n := w.m.Archived().Lookup("rulesAway").Int64(); n != 1 {
			t.Errorf("%d rules are away", n)
		}
		away = false
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if got := w.left("c"); got != "none\n" {
			t.Errorf("left: %s", got)
		}
		if got := stats(); got != "" {
			t.Errorf("skipped: %s", got)
		}
		if log := w.log.take(); strings.Count(log, "are archived again") != 1 {
			t.Errorf("the log: %s", log)
		}
	})
}

// TestArchiveAwayNoMore has a place be away, and then the rule or its documents not need it any more: nothing
// says that it is away.
func TestArchiveAwayNoMore(t *testing.T) {
	dir := t.TempDir()
	for what, command := range map[string]string{
		"the setting is taken away": `{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: null}}}}}`,
		"and the rule is paused":    `{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: null, paused: true}}}}}`,
		"another place":             `{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: {to: "file://` + dir + `/good"}}}}}}`,
		"nothing is due":            `{delete: "c", deletes: [{q: {}, limit: 0}]}`,
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				away := true
				w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store {
					if strings.HasSuffix(s.String(), "good") {
						return s
					}
					return &failing{s, &away}
				})
				defer w.close()
				w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s/bad"}}}}}]}`, dir)))
				w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
				time.Sleep(20 * time.Minute) // the pause is at its longest
				synctest.Wait()
				said := func() (int64, bool) {
					return w.m.Archived().Lookup("rulesAway").Int64(), strings.Contains(w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`)).String(), "cannot be written")
				}
				if n, says := said(); n != 1 || !says {
					t.Fatalf("%d rules are away; it is said: %v", n, says)
				}
				w.must(bson.MustParse(command))
				time.Sleep(61 * time.Second)
				if what == "nothing is due" {
					time.Sleep(maxArchivePause)
				}
				synctest.Wait()
				if n, says := said(); n != 0 || says {
					t.Errorf("%d rules are away; it is said: %v", n, says)
				}
				if got := w.left("c"); got != "none\n" && what != "and the rule is paused" {
					t.Errorf("left: %s", got)
				}
			})
		})
	}
}

// failing is a store that is away.
type failing struct {
	objectstore.Store
	away *bool
}

func (f *failing) Put(ctx context.Context, name string, temp *os.File) error {
	if *f.away {
		return errors.New("the store is away")
	}
	return f.Store.Put(ctx, name, temp)
}

// TestArchiveReadErrors says what ended a read, and error 96 only of objects and stores.
func TestArchiveReadErrors(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		w := newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store { return &hanging{s, &hangs} })
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, zero: 0, at: {$date: "1999-01-01T00:00:00Z"}}]}`))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		code := func(stage, rest string) string {
			return w.runOn(bson.MustParse(`{aggregate: "c", pipeline: [{$archive: ` + stage + `}], cursor: {}` + rest + `}`)).Lookup("code").String()
		}
		if got := code(`{query: {$expr: {$divide: [1, "$zero"]}}}`, ""); got != "4848401" && got != "2" {
			t.Errorf("a division by zero: %s", got)
		}
		hangs.Store(true)
		if got := code(`{}`, `, maxTimeMS: 100`); got != "50" {
			t.Errorf("more than maxTimeMS: %s", got)
		}
		killed := make(chan string, 1)
		other := &command.Client{ConnectionID: 2}
		w.d.Clients.Connect(other)
		go func() {
			body := bson.MustParse(`{aggregate: "c", pipeline: [{$archive: {}}], cursor: {}}`)
			killed <- w.d.Dispatch(t.Context(), &command.Request{Client: other, DB: "d", Body: body}).Body.Lookup("code").String()
		}()
		synctest.Wait()
		for _, v := range w.must(bson.MustParse(`{currentOp: 1, $all: true, $db: "admin"}`)).Lookup("inprog").Doc().Slice() {
			if v.Doc().Lookup("command").Doc().Has("aggregate") {
				w.must(new(bson.Builder).Int32("killOp", 1).Value("op", v.Doc().Lookup("opid")).String("$db", "admin").Finish())
			}
		}
		if got := <-killed; got != "11601" {
			t.Errorf("killed: %s", got)
		}
		for _, stage := range []string{`{}`, `{query: {_id: 1}}`} { // whole, and in row groups
			begun := time.Now()
			if got := code(stage, ""); got != "96" || time.Since(begun) > 2*time.Minute { // the store's minute is over
				t.Errorf("%s of a store that does not answer: %s in %v", stage, got, time.Since(begun))
			}
		}
		if r := w.runOn(bson.MustParse(`{archiveForget: "c", filter: {}}`)); r.Lookup("code").String() != "96" {
			t.Errorf("forget in a store that does not answer: %s", r)
		}
		hangs.Store(false)
		time.Sleep(time.Hour) // the calls end
	})
}

// hanging is a store that does not answer for long, and does not mind the end of ctx.
type hanging struct {
	objectstore.Store
	now *atomic.Bool
}

func (h *hanging) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if h.now.Load() {
		time.Sleep(time.Hour)
		return nil, errFault
	}
	return h.Store.Get(ctx, name)
}

func (h *hanging) GetRange(ctx context.Context, name string, from, bytes int64) (io.ReadCloser, error) {
	if h.now.Load() {
		time.Sleep(time.Hour)
		return nil, errFault
	}
	return h.Store.GetRange(ctx, name, from, bytes)
}

// TestArchiveSettings holds that what is not built, or not allowed, is refused, and that collMod
// changes the rest.
func TestArchiveSettings(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		index := func(coll, archive string) bson.Doc {
			return w.runOn(bson.MustParse(fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: %s}}}}]}`, coll, archive)))
		}
		here := fmt.Sprintf("%q", "file://"+dir)
		for archive, code := range map[string]int32{
			`{to: "file:///elsewhere"}`: 72, `{to: "s3://bucket"}`: 72, `{}`: 40414, `"x"`: 14, `{to: 1}`: 14, `{to: "x"}`: 2,
			`{to: ` + here + `, queryable: true}`: 40415, `{to: ` + here + `, expireAfterSeconds: 0}`: 2, `{to: ` + here + `, expireAfterSeconds: "1"}`: 14, `{to: ` + here + `, format: "jsonLines"}`: 40415,
			`{to: ` + here + `, removeAnywayAfterSecs: 1}`: 40415, `{to: ` + here + `, fields: ["_ID"]}`: 2, `{to: ` + here + `, fields: ["a", "A"]}`: 2,
			`{to: ` + here + `, fields: ["a..b"]}`: 2, `{to: ` + here + `, fields: "a"}`: 14, `{to: ` + here + `, fields: [1]}`: 14,
		} {
			if r := index("c", archive); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != code {
				t.Errorf("%s: %s", archive, r)
			}
		}
		for command, code := range map[string]int32{
			`{create: "a", storageEngine: {mayfly: {expiry: {archive: {to: ` + here + `}}}}}`:                                                                                       72,
			`{createIndexes: "l", indexes: [{key: {_ts: 1}, name: "l", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {by: "lastWrite", archive: {to: ` + here + `}}}}}]}`: 72,
			`{insert: "system.archive", documents: [{_id: 1}]}`:                                                                                                                     73,
			`{create: "system.archive"}`: 73,
		} {
			if r := w.runOn(bson.MustParse(command)); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != code {
				t.Errorf("%s: %s", command, r)
			}
		}
		w.must(bson.MustParse(`{create: "s", timeseries: {timeField: "at", metaField: "m"}}`))
		if r := w.runOn(bson.MustParse(`{createIndexes: "s", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 5, partialFilterExpression: {m: 1}, storageEngine: {mayfly: {expiry: {archive: {to: ` + here + `}}}}}]}`)); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != 72 {
			t.Errorf("time series: %s", r)
		}
		if r := index("c", `{to: `+here+`, fields: ["a"]}`); r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
		shown := func() string {
			return w.must(bson.MustParse(`{listIndexes: "c"}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("1").Doc().Lookup("storageEngine").String()
		}
		if got := shown(); !strings.Contains(got, "archive") || !strings.Contains(got, `"a"`) && !strings.Contains(got, "'a'") {
			t.Error(got)
		}
		change := func(archive string) bson.Doc {
			return w.runOn(bson.MustParse(`{collMod: "c", index: {name: "at", storageEngine: {mayfly: {expiry: {archive: ` + archive + `}}}}}`))
		}
		if r := change(`{to: "file:///elsewhere"}`); r.Lookup("code").IsMissing() || r.Lookup("code").Int32() != 72 {
			t.Error(r)
		}
		if r := change(`{fields: ["b"]}`); r.Lookup("ok").Double() != 1 || !strings.Contains(shown(), dir) || strings.Contains(shown(), `"a"`) {
			t.Error(r, shown())
		}
		if r := change(`null`); r.Lookup("ok").Double() != 1 || strings.Contains(shown(), "archive") {
			t.Error(r, shown())
		}
	})
}

// TestArchiveExpires keeps archived objects as long as the rule says, counted from when they were
// archived, and no longer: also of documents that were older by then, as one of 1999 is, and all
// are where the rule keeps them for longer than their archive.
func TestArchiveExpires(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 10800, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s", expireAfterSeconds: 7200}}}}}]}`, dir)))
		w.must(bson.MustParse(`{insert: "c", documents: [{_id: 1, at: {$date: "1999-12-01T01:30:00Z"}}, {_id: 2, at: {$date: "2000-01-01T00:00:00Z"}}]}`))
		count := func() (objects int, ids string) {
			all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet"))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$archive: {}}], cursor: {}}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
				ids += v.Doc().Lookup("_id").String()
			}
			return len(all), ids
		}
		for _, at := range []struct {
			wait    time.Duration
			objects int
			ids     string
		}{{119 * time.Minute, 1, "1"}, {92 * time.Minute, 2, "2"}, {80 * time.Minute, 1, "2"}, {40 * time.Minute, 1, ""}, {time.Hour, 0, ""}} {
			time.Sleep(at.wait)
			synctest.Wait()
			if objects, ids := count(); objects != at.objects || ids != at.ids {
				t.Errorf("at %v there are %d objects, and %q is archived; want %d, %q", time.Now().UTC(), objects, ids, at.objects, at.ids)
			}
		}
	})
}

// TestArchiveLongNames archives a collection whose name is longer, as it is encoded, than one of a
// directory may be.
func TestArchiveLongNames(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		for _, end := range []string{"가", "나"} {
			name := strings.Repeat("로그", 40) + end
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, name, dir)))
			w.must(bson.MustParse(fmt.Sprintf(`{insert: %q, documents: [{_id: 1, at: {$date: "1999-12-01T01:30:00Z"}}]}`, name)))
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := w.must(bson.MustParse(fmt.Sprintf(`{aggregate: %q, pipeline: [{$archive: {}}], cursor: {}}`, name))).String(); strings.Count(got, "_id") != 1 {
				t.Errorf("archived: %s", got)
			}
		}
		if all, err := filepath.Glob(filepath.Join(dir, "d.*~*", "*", "*.parquet")); err != nil || len(all) != 2 || filepath.Dir(filepath.Dir(all[0])) == filepath.Dir(filepath.Dir(all[1])) {
			t.Errorf("objects: %v %v", all, err)
		}
	})
}

// TestArchiveRead reads what was archived: by dates, by a filter, and of what had the name before.
func TestArchiveRead(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newArchiveWorld(t, dir, nil)
		defer w.close()
		make := func() {
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s", fields: ["k"]}}}}}]}`, dir)))
		}
		make()
		for day := 1; day <= 9; day++ {
			w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: %d, k: %d, at: {$date: "1999-12-0%dT10:00:00Z"}}, {_id: %d, k: 7, at: {$date: "1999-12-0%dT11:00:00Z"}}]}`, day, day, day, 10+day, day)))
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		list := func(command string) string {
			r := w.runOn(bson.MustParse(command))
			if r.Lookup("ok").Double() != 1 {
				return fmt.Sprint(r.Lookup("code"))
			}
			var ids []string
			for _, v := range r.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
				ids = append(ids, v.Doc().Lookup("_id").String())
			}
			return strings.Join(ids, " ")
		}
		read := func(stage string) string {
			return list(`{aggregate: "c", pipeline: [{$archive: ` + stage + `}, {$sort: {_id: 1}}], cursor: {}}`)
		}
		for stage, want := range map[string]string{
			`{}`:                "1 2 3 4 5 6 7 8 9 11 12 13 14 15 16 17 18 19",
			`{query: {k: 7}}`:   "7 11 12 13 14 15 16 17 18 19",
			`{query: {k: "7"}}`: "",
			`{query: {at: {$gte: {$date: "1999-12-02T10:30:00Z"}, $lt: {$date: "1999-12-04T00:00:00Z"}}}}`: "3 12 13",
			`{query: 1}`: "14", `{of: "x"}`: "2", `{limit: 1}`: "40415", `{objects: []}`: "", `{objects: ["none"]}`: "96", `{objects: 1}`: "14", `{objects: [1]}`: "14",
		} {
			if got := read(stage); got != want {
				t.Errorf("%s: %q, want %q", stage, got, want)
			}
		}
		for stage, code := range map[string]string{
			`{query: {at: {$near: [0, 0]}}}`: "5626500", `{query: {at: {$nearSphere: [0, 0]}}}`: "5626500", `{query: {$text: {$search: "x"}}}`: "2", `{query: {$where: "true"}}`: "2",
			`{query: {$expr: {$eq: ["$k", "$$other"]}}}`: "17276",
		} {
			if got := read(stage); got != code {
				t.Errorf("%s: %q, want error %s", stage, got, code)
			}
		}
		if got := list(`{aggregate: "c", let: {n: 3}, pipeline: [{$archive: {query: {$expr: {$eq: ["$k", "$$n"]}}}}], cursor: {}}`); got != "3" {
			t.Errorf("with a variable of the command: %q", got)
		}
		w.must(bson.MustParse(`{create: "v", viewOn: "c", pipeline: [{$match: {k: 7}}]}`))
		if got := list(`{aggregate: "v", pipeline: [{$archive: {}}], cursor: {}}`); got != "40602" {
			t.Errorf("of a view: %q", got)
		}
		w.must(bson.MustParse(`{insert: "j", documents: [{_id: 0, n: 4}]}`))
		if got := list(`{aggregate: "j", pipeline: [{$lookup: {from: "c", let: {n: "$n"}, pipeline: [{$archive: {query: {$expr: {$eq: ["$k", "$$n"]}}}}], as: "old"}}, {$unwind: "$old"}, {$replaceWith: "$old"}], cursor: {}}`); got != "4" {
			t.Errorf("with a variable of $lookup: %q", got)
		}
		w.must(bson.MustParse(`{setParameter: 1, archiveMaxBytesRead: 10, $db: "admin"}`))
		if got := read(`{}`); got != "292" {
			t.Errorf("more than allowed: %q", got)
		}
		if got := read(`{query: {at: {$lt: {$date: "1990-01-01T00:00:00Z"}}}}`); got != "" {
			t.Errorf("objects that cannot match are read: %q", got)
		}
		of := w.must(bson.MustParse(`{find: "system.archive", filter: {}, limit: 1}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc().Lookup("bytes").Int64()
		w.must(bson.MustParse(fmt.Sprintf(`{setParameter: 1, archiveMaxBytesRead: %d, $db: "admin"}`, 9*of-1)))
		if got := read(`{query: {_id: 3}}`); got != "3" {
			t.Errorf("few row groups of more than allowed: %q", got)
		}
		w.must(bson.MustParse(`{setParameter: 1, archiveMaxBytesRead: 0, $db: "admin"}`))
		for _, command := range []string{
			`{insert: "system.archive", documents: [{_id: 1}]}`, `{delete: "system.archive", deletes: [{q: {}, limit: 0}]}`,
			`{update: "system.archive", updates: [{q: {}, u: {$set: {x: 1}}, multi: true}]}`, `{findAndModify: "system.archive", remove: true}`,
			`{bulkWrite: 1, ops: [{delete: 0, filter: {}, multi: true}], nsInfo: [{ns: "d.system.archive"}], $db: "admin"}`,
			`{aggregate: "c", pipeline: [{$out: "system.archive"}], cursor: {}}`, `{aggregate: "c", pipeline: [{$match: {_id: "none"}}, {$merge: "system.archive"}], cursor: {}}`,
			`{drop: "system.archive"}`, `{renameCollection: "d.system.archive", to: "d.x", $db: "admin"}`, `{renameCollection: "d.c", to: "d.system.archive", dropTarget: true, $db: "admin"}`,
			`{createIndexes: "system.archive", indexes: [{key: {gone: 1}, name: "gone", expireAfterSeconds: 0}]}`, `{collMod: "system.archive", validator: {x: 1}}`,
			`{convertToCapped: "system.archive", size: 1000}`,
		} {
			r := w.runOn(bson.MustParse(command))
			if n := r.Lookup("nErrors"); r.Lookup("ok").Double() == 1 && !r.Has("writeErrors") && (n.IsMissing() || n.String() == "0") {
				t.Errorf("%s: %s", command, r)
			}
		}
		w.must(bson.MustParse(`{renameCollection: "d.c", to: "d.r", $db: "admin"}`))
		if got := w.must(bson.MustParse(`{aggregate: "r", pipeline: [{$archive: {}}, {$count: "n"}], cursor: {}}`)).String(); !strings.Contains(got, "18") {
			t.Errorf("by another name: %s", got)
		}
		if got := read(`{of: "all"}`); got != "" {
			t.Errorf("what a collection has that was renamed is read by its old name: %s", got)
		}
		w.must(bson.MustParse(`{renameCollection: "d.r", to: "d.c", $db: "admin"}`))
		w.must(bson.MustParse(`{drop: "c"}`))
		if got := read(`{of: "all", query: {k: 3}}`); got != "3" {
			t.Errorf("of a collection that was dropped: %q", got)
		}
		make()
		if got := read(`{}`); got != "" {
			t.Errorf("of another collection of the name: %q", got)
		}
		// Somebody empties the place: it is said, and not taken for nothing.
		all, err := filepath.Glob(filepath.Join(dir, "d.c", "*", "*.parquet"))
		if err != nil || len(all) < 9 {
			t.Fatal(err, all)
		}
		slices.Sort(all)
		if err := os.Remove(all[0]); err != nil {
			t.Fatal(err)
		}
		if got := read(`{of: "all"}`); got != "96" {
			t.Errorf("an object is missing: %q", got)
		}
	})
}

// TestArchiveWindows archives windows as ranges: while nothing is written in them meanwhile, and what is
// not due any more stays. Where a client writes between read and removal, documents are archived as they
// are then.
func TestArchiveWindows(t *testing.T) {
	for _, touched := range []bool{false, true} {
		t.Run(fmt.Sprintf("touched=%t", touched), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				var w *world
				writes := touched
				w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store {
					return &putting{s, func() error {
						if writes {
							w.must(bson.MustParse(`{update: "c", updates: [{q: {_id: 5}, u: {$inc: {n: 1}}}]}`))
						}
						return nil
					}}
				})
				defer w.close()
				w.cat.NoWindows.Store(false)
				w.m.archives.docs = 4
				w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 60, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}, {key: {n: 1}, name: "n"}]}`, dir)))
				for i := range 200 {
					at := time.Now().Add(time.Duration(i-400) * time.Second)
					if i >= 100 {
						at = time.Now().AddDate(0, 0, i/10-100)
					}
					w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: %d, n: 0, at: {$date: %q}}]}`, i, at.UTC().Format(time.RFC3339))))
				}
				w.must(bson.MustParse(`{update: "c", updates: [{q: {_id: 7}, u: {$set: {at: {$date: "2000-02-01T00:00:00Z"}}}}]}`))
				time.Sleep(61 * time.Second)
				synctest.Wait()
				writes = false // else that one stays
				time.Sleep(61 * time.Second)
				synctest.Wait()
				if got := w.left("c"); got != "7\n" {
					t.Errorf("left: %s", got)
				}
				if n := w.m.Archived().Lookup("windows").Int64(); (n < 100) != touched {
					t.Errorf("%d windows were archived as ranges", n)
				}
				got := w.must(bson.MustParse(`{aggregate: "c", pipeline: [{$archive: {}}, {$group: {_id: "$_id", n: {$sum: 1}}}, {$group: {_id: 0, documents: {$sum: 1}, most: {$max: "$n"}}}], cursor: {}}`)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc()
				if got.Lookup("documents").Int32() != 199 || got.Lookup("most").Int32() != 1 {
					t.Errorf("archived: %s", got)
				}
				if v := w.must(bson.MustParse(`{validate: "c", full: true}`)); !v.Lookup("valid").Bool() {
					t.Error(v)
				}
			})
		})
	}
}

// TestArchiveRefused holds that a visit which may not go on, as writes are blocked while its store fails, is
// not taken for one that only waits for its store.
func TestArchiveRefused(t *testing.T) {
	for _, windows := range []bool{false, true} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			var w *world
			blocks := true
			w = newArchiveWorld(t, dir, func(s objectstore.Store) objectstore.Store {
				return &putting{s, func() error {
					if !blocks {
						return nil
					}
					w.d.UserWrites.Block(0)
					return errFault
				}}
			})
			defer w.close()
			w.cat.NoWindows.Store(!windows)
			w.must(bson.MustParse(fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 60, storageEngine: {mayfly: {expiry: {archive: {to: "file://%s"}}}}}]}`, dir)))
			for i := range 50 {
				w.must(bson.MustParse(fmt.Sprintf(`{insert: "c", documents: [{_id: %d, at: {$date: %q}}]}`, i, time.Now().Add(time.Duration(i-400)*time.Second).UTC().Format(time.RFC3339))))
			}
			time.Sleep(61 * time.Second)
			synctest.Wait()
			if n := w.m.Archived().Lookup("failures").Int64(); n != 0 || w.left("c") == "none\n" {
				t.Errorf("windows %t: %d failures of the store, %s", windows, n, w.left("c"))
			}
			blocks = false
			w.d.UserWrites.Unblock()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if got := w.left("c"); got != "none\n" {
				t.Errorf("windows %t: left: %s", windows, got)
			}
		})
	}
}

// putting is a store that calls f before each object is stored.
type putting struct {
	objectstore.Store
	f func() error
}

func (p *putting) Put(ctx context.Context, name string, temp *os.File) error {
	if err := p.f(); err != nil {
		return err
	}
	return p.Store.Put(ctx, name, temp)
}
