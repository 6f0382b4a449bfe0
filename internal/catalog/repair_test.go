package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/errors/oserror"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

func quiet(string, int64, int64) {}

// repairNames are the collections of variety.
var repairNames = []string{"d.plain", "d.windows", "d.capped", "d.series", "d.written", "d.hashed", "admin.system.users", "d.view"}

// variety makes a store with each kind of collection, documents in tables and in logs, and
// takes the process away.
func variety(t *testing.T) *storage.MemFS {
	t.Helper()
	ctx, fs := context.Background(), storage.NewMemFS()
	c := open(t, fs)
	create := func(name, options string, specs ...string) *Collection {
		db, coll, _ := strings.Cut(name, ".")
		ns := schema.Namespace{DB: db, Coll: coll}
		o, err := schema.LoadOptions(bson.MustParse(options))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(ctx, ns, o.Doc()); err != nil {
			t.Fatal(err)
		}
		if len(specs) > 0 {
			docs := make([]bson.Doc, len(specs))
			for i, s := range specs {
				docs[i] = bson.MustParse(s)
			}
			if _, _, err := c.CreateIndexes(ctx, ns, docs); err != nil {
				t.Fatal(err)
			}
		}
		return c.Lookup(ns)
	}
	plain := create("d.plain", `{validator: {a: {$gte: 0}}}`, `{v: 2, key: {a: 1}, name: "a_1", unique: true}`, `{v: 2, key: {tags: 1}, name: "tags_1"}`)
	windows := create("d.windows", `{}`, `{v: 2, key: {at: 1}, name: "at_1", expireAfterSeconds: {$numberLong: "3600"}}`)
	capped := create("d.capped", `{capped: true, size: {$numberLong: "100000"}}`)
	series := create("d.series", `{timeseries: {timeField: "t", metaField: "m", granularity: "seconds"}, expireAfterSeconds: {$numberLong: "100000"}}`)
	written := create("d.written", `{}`, `{v: 2, key: {_ts: 1}, name: "ts", expireAfterSeconds: {$numberLong: "60"}, since: {$numberLong: "0"}, storageEngine: {mayfly: {expiry: {by: "lastWrite"}}}}`)
	create("d.hashed", `{}`, `{v: 2, key: {k: "hashed"}, name: "k_hashed"}`)
	hashed := lieByKey(t, c, schema.Namespace{DB: "d", Coll: "hashed"}, `{k: "hashed"}`)
	create("d.ranged", `{}`, `{v: 2, key: {k: 1}, name: "k_1"}`)
	ranged := lieByKey(t, c, schema.Namespace{DB: "d", Coll: "ranged"}, `{k: 1}`)
	create("d.slots", `{}`, `{v: 2, key: {at: 1}, name: "at_1", expireAfterSeconds: {$numberLong: "3600"}}`)
	slots := lieByKey(t, c, schema.Namespace{DB: "d", Coll: "slots"}, `{k: "hashed"}`)
	users := create("admin.system.users", `{}`)
	create("d.view", `{viewOn: "plain", pipeline: []}`)
	text := strings.Repeat("text ", 100)
	for round := range 4 {
		for n := range 200 {
			i := round*200 + n
			for coll, doc := range map[*Collection]string{
				plain:   fmt.Sprintf(`{_id: %d, a: %d, tags: ["x", %d], text: "%s"}`, i, i, i%7, text),
				windows: fmt.Sprintf(`{_id: %d, at: {$date: {$numberLong: "%d"}}, text: "%s"}`, i, 1_700_000_000_000+i*60_000, text),
				capped:  fmt.Sprintf(`{_id: %d, n: "%s"}`, i, text),
				hashed:  fmt.Sprintf(`{_id: %d, k: %d, text: "%s"}`, i, i%50, text),
				ranged:  fmt.Sprintf(`{_id: %d, k: %s, text: "%s"}`, i, []string{"[1, 2]", "1", "2", "null", fmt.Sprint(i)}[i%5], text),
				slots:   fmt.Sprintf(`{_id: %d, k: %d, at: {$date: {$numberLong: "%d"}}, text: "%s"}`, i, i%50, 1_700_000_000_000+i*60_000, text),
				users:   fmt.Sprintf(`{_id: "u%d"}`, i),
			} {
				if err := c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.Insert(ctx, coll, bson.MustParse(doc)) }); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Run(ctx, storage.Buffered, func(u *Unit) error { // written long ago
				_, err := u.restore(ctx, written, bson.MustParse(fmt.Sprintf(`{_id: %d, _ts: %d}`, i, 1_600_000_000+i)))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			m, err := timeseries.NewMeasurement(bson.MustParse(fmt.Sprintf(`{_id: %d, t: {$date: {$numberLong: "%d"}}, m: "s%d", v: %d}`, i, 1_700_000_000_000+i*1000, i%3, i)), series.Settings.Timeseries)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
				return u.InsertMeasurements(ctx, series, []timeseries.Measurement{m})
			}); err != nil {
				t.Fatal(err)
			}
		}
		switch round {
		case 1:
			if err := c.SealAll(ctx, series); err != nil {
				t.Fatal(err)
			}
		case 2:
			thin(t, c, plain, windows)
		}
	}
	if err := c.engine.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	return fs.Crash(100, nil)
}

// thin flushes and compacts a store, and takes documents and windows of it away.
func thin(t *testing.T, c *Catalog, plain, windows *Collection) {
	t.Helper()
	ctx := context.Background()
	if err := c.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.engine.Compact(ctx, plain.Ident); err != nil {
		t.Fatal(err)
	}
	rule := windows.Latest().Rules()[0] // whole windows that expired
	if d, err := c.DropWindows(ctx, windows.Latest(), Drop{Rule: rule, Now: 1_700_000_000_000 + 100*60_000 + 3_600_000}); err != nil || d.Docs == 0 {
		t.Fatal(d, err)
	}
	if err := c.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.engine.Compact(ctx, windows.Ident); err != nil {
		t.Fatal(err)
	}
	for i := range 50 { // tombstones above the last level
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
			key, doc, err := u.LockID(ctx, plain, bson.Int32(int32(i*3)))
			if err != nil {
				return err
			}
			return u.Delete(ctx, plain, key, doc)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// image is all that a store has, by name: descriptor and documents.
func image(t *testing.T, fs *storage.MemFS, dir string) map[string][]string {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := Open(e, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	out := map[string][]string{}
	for _, db := range c.Databases() {
		for _, coll := range c.Collections(db) {
			all := []string{string(coll.encode().String())}
			if coll.Ident != 0 {
				it, err := e.NewIter(coll.Ident, nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				for ok := it.First(); ok; ok = it.Next() {
					v, err := it.Value()
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, bson.Doc(v).String())
				}
				if err := it.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if coll.Open != 0 {
				all = append(all, fmt.Sprint(coll.Count()))
			}
			out[coll.Namespace.String()] = all
		}
	}
	return out
}

// storeFiles is the content of a directory.
func storeFiles(t *testing.T, fs storage.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if oserror.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		f, err := fs.Open(fs.PathJoin(dir, name))
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

// TestRepairWhole repairs a store that is whole: the new one is the same.
func TestRepairWhole(t *testing.T) {
	ctx, fs := context.Background(), variety(t)
	before := storeFiles(t, fs, "db")
	want := image(t, fs, "db")
	for _, name := range repairNames {
		if len(want[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	if v, err := Verify(ctx, fs, "db", quiet); err != nil || !v.Valid() || v.Documents == 0 || v.Entries == 0 {
		t.Fatalf("before: %+v, %v", v, err)
	}
	r, err := Repair(ctx, fs, "db", "new", quiet)
	if err != nil || !r.Lossless() {
		t.Fatalf("%+v, %v", r, err)
	}
	if after := storeFiles(t, fs, "db"); !maps.Equal(before, after) {
		t.Error("the damaged store has changed")
	}
	got := image(t, fs, "new")
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s: %d documents of %d, or others: %s", name, len(got[name])-1, len(want[name])-1, got[name][0])
		}
	}
	if v, err := Verify(ctx, fs, "new", quiet); err != nil || !v.Valid() {
		t.Errorf("after: %+v, %v", v, err)
	}
}

// TestRepairDamaged flips bits in the files of a store: repair makes a store that is valid,
// and tells of each collection that has less.
func TestRepairDamaged(t *testing.T) {
	ctx, whole := context.Background(), variety(t)
	files := storeFiles(t, whole, "db")
	want := image(t, whole, "db")
	rng := rand.New(rand.NewPCG(14, 1))
	for _, kind := range []string{".sst", ".log", "MANIFEST", "mayfly.control", "OPTIONS"} {
		var names []string
		for name, b := range files {
			if strings.Contains(name, kind) && len(b) > 0 {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for range 12 {
			name := names[rng.IntN(len(names))]
			at, bit := rng.IntN(len(files[name])), rng.IntN(8)
			what := fmt.Sprintf("bit %d of byte %d of %s", bit, at, name)
			fs := whole.Crash(100, nil)
			flipByte(t, fs, "db/"+name, int64(at), files[name][at]^1<<bit)
			before := storeFiles(t, fs, "db")
			r, err := Repair(ctx, fs, "db", "new", quiet)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if after := storeFiles(t, fs, "db"); !maps.Equal(before, after) {
				t.Errorf("%s: the damaged store has changed", what)
			}
			if v, err := Verify(ctx, fs, "new", quiet); err != nil || !v.Valid() {
				t.Errorf("%s: the new store is not valid: %+v, %v", what, v, err)
			}
			got := image(t, fs, "new")
			for ns := range want {
				i := slices.IndexFunc(r.Collections, func(c *RepairedCollection) bool { return c.Namespace.String() == ns })
				if !slices.Equal(got[ns], want[ns]) && len(r.Notes) == 0 && (i < 0 || r.Collections[i].lossless()) {
					t.Errorf("%s: %s has %d documents of %d, which is not told", what, ns, len(got[ns]), len(want[ns]))
				}
			}
		}
	}
}

func flipByte(t *testing.T, fs storage.FS, name string, at int64, b byte) {
	t.Helper()
	f, err := fs.OpenReadWrite(name, "unspecified")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{b}, at); err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// TestRepairMissing takes each file of a store away: repair makes a store that is valid of
// the others, and tells what is lost. Without manifest and markers nothing is.
func TestRepairMissing(t *testing.T) {
	ctx, whole := context.Background(), variety(t)
	want := image(t, whole, "db")
	for name := range storeFiles(t, whole, "db") {
		fs := whole.Crash(100, nil)
		if err := fs.Remove("db/" + name); err != nil {
			t.Fatal(err)
		}
		r, err := Repair(ctx, fs, "db", "new", quiet)
		if err != nil {
			t.Fatalf("without %s: %v", name, err)
		}
		if v, err := Verify(ctx, fs, "new", quiet); err != nil || !v.Valid() {
			t.Errorf("without %s the new store is not valid: %+v, %v", name, v, err)
		}
		got := image(t, fs, "new")
		same := maps.EqualFunc(got, want, slices.Equal)
		switch lossy := strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log"); {
		case !same && !lossy:
			t.Errorf("without %s something is lost", name)
		case !same && r.Lossless():
			t.Errorf("without %s something is lost, which is not told", name)
		}
	}
}

// TestRepairWithoutCatalog loses the entries of all collections: their documents are in
// collections of local.
func TestRepairWithoutCatalog(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	c := open(t, fs)
	coll, err := c.Create(ctx, schema.Namespace{DB: "d", Coll: "c"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 2000
	for i := range n {
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
			return u.Insert(ctx, coll, bson.MustParse(fmt.Sprintf(`{_id: %d, text: "%s"}`, i, strings.Repeat("text ", 100))))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	fs = fs.Crash(100, nil)
	for name, b := range storeFiles(t, fs, "db") {
		if strings.HasSuffix(name, ".sst") && len(b) > 20 { // but for one that is just being made
			flipByte(t, fs, "db/"+name, 20, b[20]^1) // the first block has the entries
		}
	}
	r, err := Repair(ctx, fs, "db", "new", quiet)
	if err != nil || r.Lossless() || !strings.Contains(strings.Join(r.Notes, "\n"), lostAndFound) {
		t.Fatalf("%+v, %v", r, err)
	}
	found := 0
	for name, docs := range image(t, fs, "new") {
		if !strings.HasPrefix(name, "local."+lostAndFound) {
			t.Errorf("there is %s", name)
		}
		found += len(docs) - 1
	}
	if found < n-100 || found > n {
		t.Errorf("%d documents of %d were found", found, n)
	}
	if v, err := Verify(ctx, fs, "new", quiet); err != nil || !v.Valid() {
		t.Errorf("after: %+v, %v", v, err)
	}
}

// TestRepairOthers holds what a repair says of stores that it cannot make whole: those of a
// newer version, those of a replica set's member, and a directory that is in use.
func TestRepairOthers(t *testing.T) {
	ctx, fs := context.Background(), storage.NewMemFS()
	c := open(t, fs)
	u := c.engine.Begin()
	if err := errors.Join(u.Set(storage.IdentRaft, []byte("key"), []byte("value")), u.Commit(ctx, storage.Journaled)); err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(ctx, fs, "db", "new", quiet); err == nil {
		t.Error("a store that is open was repaired")
	}
	if _, err := Verify(ctx, fs, "db", quiet); err == nil {
		t.Error("a store that is open was verified")
	}
	fs = fs.Crash(100, nil)
	if r, err := Repair(ctx, fs, "db", "new", quiet); err != nil || r.Lossless() || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "replica set") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Repair(ctx, fs, "db", "new", quiet); err == nil {
		t.Error("a directory with files was taken for the new one")
	}
	f, err := fs.Create("db/mayfly.format", "unspecified")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("mayfly 999\npebble 19\n")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Repair(ctx, fs, "db", "newer", quiet); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("a newer store: %v", err)
	}
	if v, err := Verify(ctx, fs, "db", quiet); err != nil || v.Valid() {
		t.Errorf("a newer store: %+v, %v", v, err)
	}
	if _, err := fs.List("newer"); err == nil {
		t.Error("there is a new directory")
	}
	if _, err := Verify(ctx, fs, "none", quiet); err == nil {
		t.Error("a directory that is not there was verified")
	}
}
