package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

var testNS = schema.Namespace{DB: "d", Coll: "c"}

// testDoc is a document of the concurrent tests: u is unique while all writers
// draw it from their own numbers.
func testDoc(id, a, u int) bson.Doc {
	return new(bson.Builder).Int32("_id", int32(id)).Int32("a", int32(a)).Int32("u", int32(u)).
		Array("m", bson.Array(bson.Int32(int32(a)), bson.Int32(int32(u%7))).Doc()).String("pad", "0123456789012345678901234567890123456789").Finish()
}

// churn inserts, updates and deletes until stop, on documents all writers
// share; it returns errors it does not expect.
func churn(c *Catalog, w, ids int, stop *atomic.Bool, unique bool) error {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(uint64(w), 7))
	for n := 0; !stop.Load(); n++ {
		err := c.Run(ctx, storage.Durability(rng.IntN(2)), func(u *Unit) error {
			coll := c.Lookup(testNS)
			for range 1 + rng.IntN(3) {
				id, a, k := rng.IntN(ids), rng.IntN(50), rng.IntN(ids*2)
				if !unique {
					k = 1_000_000*(w+1) + n*4
					n++
				}
				if err := churnOne(ctx, u, coll, rng, testDoc(id, a, k)); err != nil && !mongoerr.Is(err, mongoerr.DuplicateKey) {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func churnOne(ctx context.Context, u *Unit, coll *Collection, rng *rand.Rand, doc bson.Doc) error {
	key := coll.AppendIDKey(nil, doc.Lookup("_id"))
	if rng.IntN(3) == 0 {
		return u.Insert(ctx, coll, doc)
	}
	old, err := u.LockRecord(ctx, coll, key)
	if err != nil {
		return err
	}
	switch {
	case old == nil:
		return u.Insert(ctx, coll, doc)
	case rng.IntN(4) == 0:
		return u.Delete(ctx, coll, key, old)
	}
	return u.Update(ctx, coll, key, old, doc)
}

// startChurn runs writers until the returned function is called.
func startChurn(t *testing.T, c *Catalog, writers, ids int, unique bool) (stop func()) {
	var flag atomic.Bool
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			if err := churn(c, w, ids, &flag, unique); err != nil {
				t.Error(err)
			}
		})
	}
	return func() {
		flag.Store(true)
		wg.Wait()
	}
}

// TestBuildWithWriters builds indexes on a collection that is written to all
// the time; afterwards every entry must be right.
func TestBuildWithWriters(t *testing.T) {
	c := open(t, storage.NewMemFS())
	if _, err := c.Create(t.Context(), testNS, nil); err != nil {
		t.Fatal(err)
	}
	const ids = 2000
	fill(t, c, ids)
	stop := startChurn(t, c, 4, ids, false)
	for round := range 6 {
		_, after, err := c.CreateIndexes(t.Context(), testNS, specs(t, testNS,
			`{"key": {"a": 1}, "name": "a"}`, `{"key": {"u": 1}, "name": "u", "unique": true}`, `{"key": {"m": 1, "a": -1}, "name": "m"}`))
		if err != nil || after != 4 {
			t.Fatalf("round %d: %d indexes, %v", round, after, err)
		}
		coll := c.Lookup(testNS)
		mustValidate(t, c, coll)
		if m := coll.Index("m").Multikey(); !m.Any() {
			t.Error("m is not multikey")
		}
		if _, err := c.DropIndexes(t.Context(), testNS, func(c *Collection) ([]*Index, error) { return c.Indexes()[1:], nil }); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	coll := c.Lookup(testNS)
	if v := mustValidate(t, c, coll); v.Records != coll.Count() {
		t.Errorf("%d records, count %d", v.Records, coll.Count())
	}
	if len(c.Builds()) != 0 {
		t.Error("builds are left")
	}
}

func fill(t testing.TB, c *Catalog, n int) {
	t.Helper()
	coll := c.Lookup(testNS)
	for at := 0; at < n; at += 500 {
		err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
			for i := at; i < min(n, at+500); i++ {
				if err := u.Insert(t.Context(), coll, testDoc(i, i%50, i)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBuildMeetsDuplicates: writers are not refused by a unique index that is
// being built; if their duplicates are there at the end, the build fails.
func TestBuildMeetsDuplicates(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll, err := c.Create(t.Context(), testNS, nil)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, c, 1000)
	for _, mend := range []bool{false, true} {
		b, next := startBuild(t, c, `{"key": {"u": 1}, "name": "u", "unique": true}`)
		if next == nil {
			t.Fatal("the build ended at once")
		}
		for _, id := range []int{3, 997} { // behind and before the build
			key := coll.AppendIDKey(nil, bson.Int32(int32(id)))
			if err := write(c, coll, key, testDoc(id, 1, 500)); err != nil {
				t.Fatal(err)
			}
		}
		if mend {
			for _, id := range []int{3, 997} {
				if err := write(c, coll, coll.AppendIDKey(nil, bson.Int32(int32(id))), testDoc(id, 1, id)); err != nil {
					t.Fatal(err)
				}
			}
		}
		err := finishBuild(b, next)
		if mend && err != nil || !mend && !mongoerr.Is(err, mongoerr.DuplicateKey) {
			t.Errorf("mended %t: %v", mend, err)
		}
		if n := len(c.Lookup(testNS).Indexes()); n != map[bool]int{false: 1, true: 2}[mend] {
			t.Errorf("%d indexes", n)
		}
		mustValidate(t, c, coll)
	}
}

// startBuild begins a build and does its first chunk.
func startBuild(t *testing.T, c *Catalog, spec string) (*build, RecordKey) {
	t.Helper()
	var b *build
	err := c.change(t.Context(), c.named(testNS), func(ch *change) error {
		coll, err := ch.find(testNS)
		if err != nil {
			return err
		}
		b, _, err = ch.addIndexes(t.Context(), coll, specs(t, testNS, spec))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	next, err := chunkOf(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b, next
}

// chunkOf does one chunk, and returns where the next starts.
func chunkOf(b *build, from RecordKey) (RecordKey, error) {
	places := make(chan RecordKey, 1)
	err := b.chunk(from, places)
	return <-places, err
}

// finishBuild does the rest, as run does.
func finishBuild(b *build, from RecordKey) (err error) {
	for from != nil && err == nil {
		from, err = chunkOf(b, from)
	}
	return b.end(err)
}

// TestDDLDuringBuild: dropping ends builds, and a build follows a rename.
func TestDDLDuringBuild(t *testing.T) {
	const spec = `{"key": {"a": 1}, "name": "a"}`
	other := schema.Namespace{DB: "e", Coll: "c"}
	for name, tc := range map[string]struct {
		do   func(*Catalog) error
		want mongoerr.Code
	}{
		"drop collection": {func(c *Catalog) error { _, err := c.Drop(context.Background(), testNS); return err }, mongoerr.IndexBuildAborted},
		"drop index": {func(c *Catalog) error {
			_, err := c.DropIndexes(context.Background(), testNS, func(c *Collection) ([]*Index, error) { return c.Indexes()[1:], nil })
			return err
		}, mongoerr.IndexBuildAborted},
		"abort": {func(c *Catalog) error {
			if !c.AbortBuild(c.Builds()[0].ID, mongoerr.New(mongoerr.Interrupted, "killed")) {
				return errors.New("no such build")
			}
			return nil
		}, mongoerr.Interrupted},
		"rename": {func(c *Catalog) error { _, err := c.Rename(context.Background(), testNS, other, false); return err }, 0},
	} {
		c := open(t, storage.NewMemFS())
		if _, err := c.Create(t.Context(), testNS, nil); err != nil {
			t.Fatal(err)
		}
		fill(t, c, 600)
		b, next := startBuild(t, c, spec)
		if err := tc.do(c); err != nil {
			t.Fatal(name, err)
		}
		err := finishBuild(b, next)
		if tc.want == 0 && err != nil || tc.want != 0 && !mongoerr.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, ns := range []schema.Namespace{testNS, other} {
			if coll := c.Lookup(ns); coll != nil {
				mustValidate(t, c, coll)
				if n := len(coll.Indexes()); (n == 2) != (tc.want == 0) {
					t.Errorf("%s: %d indexes", name, n)
				}
			}
		}
	}
}

// TestUniqueUnderContention has many writers fight for few keys: exactly one
// document per key, and every refusal because another has it.
func TestUniqueUnderContention(t *testing.T) {
	c := open(t, storage.NewMemFS())
	if _, err := c.Create(t.Context(), testNS, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), testNS, specs(t, testNS, `{"key": {"u": 1}, "name": "u", "unique": true}`, `{"key": {"m": 1}, "name": "m"}`)); err != nil {
		t.Fatal(err)
	}
	stop := startChurn(t, c, 8, 20, true)
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		mustValidate(t, c, c.Lookup(testNS))
	}
	stop()
	mustValidate(t, c, c.Lookup(testNS))
}

// TestDDLWithWriters renames, drops and makes collections under writers, who
// see 26 and go on.
func TestDDLWithWriters(t *testing.T) {
	c := open(t, storage.NewMemFS())
	var stop atomic.Bool
	var wg sync.WaitGroup
	var inserted atomic.Int64
	names := []schema.Namespace{{DB: "d", Coll: "a"}, {DB: "d", Coll: "b"}, {DB: "e", Coll: "a"}}
	for w := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for !stop.Load() {
				ns := names[rng.IntN(len(names))]
				err := c.Run(context.Background(), storage.Buffered, func(u *Unit) error {
					for range 3 {
						coll := c.Lookup(ns)
						if coll == nil {
							var err error
							if coll, err = c.Create(context.Background(), ns, nil); err != nil {
								return err
							}
						}
						if err := u.Insert(context.Background(), coll, testDoc(rng.IntN(1000), 1, 1)); err != nil {
							return err
						}
						inserted.Add(1)
						ns = names[rng.IntN(len(names))]
					}
					return nil
				})
				if err != nil && !mongoerr.Is(err, mongoerr.DuplicateKey, mongoerr.NamespaceNotFound, mongoerr.NamespaceExists) {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for inserted.Load() < 3000 && !t.Failed() {
		a, b := names[rng.IntN(3)], names[rng.IntN(3)]
		switch rng.IntN(4) {
		case 0:
			c.Drop(t.Context(), a)
		case 1:
			c.DropDatabase(t.Context(), a.DB)
		default:
			if a != b {
				c.Rename(t.Context(), a, b, rng.IntN(2) == 0)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	for _, ns := range names {
		if coll := c.Lookup(ns); coll != nil {
			mustValidate(t, c, coll)
		}
	}
}

// TestCappedOrder: concurrent inserts become visible in the order of their
// record keys, so a tailing reader misses nothing.
func TestCappedOrder(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll, err := c.Create(t.Context(), testNS, parse(t, `{"capped": true, "size": 1000000, "max": 200}`))
	if err != nil {
		t.Fatal(err)
	}
	var writers atomic.Int32
	for w := range 4 {
		writers.Add(1)
		go func() {
			defer writers.Add(-1)
			for n := range 700 {
				if err := write(c, coll, nil, testDoc(w*1000+n, 1, n)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	var seen RecordKey
	for more := true; more; {
		more = writers.Load() > 0
		keys, _ := records(t, c.engine, coll)
		for _, k := range keys {
			if slices.Compare(k, seen) > 0 {
				if len(seen) > 0 && layout.Sequence(k) != layout.Sequence(seen)+1 && layout.Sequence(keys[0]) <= layout.Sequence(seen) {
					t.Fatalf("record %d after %d", layout.Sequence(k), layout.Sequence(seen))
				}
				seen = k
			}
		}
		if len(keys) > 200 {
			t.Fatalf("%d documents", len(keys))
		}
	}
	mustValidate(t, c, coll)
	if layout.Sequence(seen) != 2800 {
		t.Errorf("the last record is %d", layout.Sequence(seen))
	}
}

// TestCrash takes the power from a catalog under load, with index builds under
// way, and checks what is left: see also storage's TestCrash.
func TestCrash(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	fs := storage.NewMemFS()
	for round := range 8 {
		c := open(t, fs)
		if c.Lookup(testNS) == nil {
			if _, err := c.Create(t.Context(), testNS, nil); err != nil {
				t.Fatal(err)
			}
			fill(t, c, 1500)
		}
		stop := startChurn(t, c, 3, 1500, false)
		var ddl sync.WaitGroup
		var ended atomic.Bool
		ddl.Go(func() {
			for n := 0; !ended.Load(); n++ {
				name := fmt.Sprintf("i%d", n%3)
				c.CreateIndexes(t.Context(), testNS, specs(t, testNS, fmt.Sprintf(`{"key": {"m": 1, "%s": 1}, "name": "%s"}`, name, name)))
				c.DropIndexes(t.Context(), testNS, func(c *Collection) ([]*Index, error) {
					if ix := c.Index(fmt.Sprintf("i%d", (n+1)%3)); ix != nil {
						return []*Index{ix}, nil
					}
					return nil, nil
				})
			}
		})
		time.Sleep(time.Duration(20+rng.IntN(60)) * time.Millisecond)
		crashed := fs.Crash([]int{0, 50, 100}[round%3], rand.New(rand.NewPCG(rng.Uint64(), 0)))
		ended.Store(true)
		stop()
		ddl.Wait()
		if err := errors.Join(c.Close(), c.engine.Close()); err != nil {
			t.Fatal(err)
		}
		fs = crashed
		c = open(t, fs)
		if coll := c.Lookup(testNS); coll != nil {
			mustValidate(t, c, coll)
			for _, ix := range coll.Indexes() {
				if !ix.Ready {
					t.Errorf("%s is unfinished after a start", ix.Name)
				}
			}
		} else if round > 0 {
			t.Fatal("the collection is gone")
		}
		if err := errors.Join(c.Close(), c.engine.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
