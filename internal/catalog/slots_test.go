package catalog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// openSlots makes a collection d.c that lies in slots: its windows are those of "at".
func openSlots(t testing.TB, c *Catalog, key string) *Collection {
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`)); err != nil {
		t.Fatal(err)
	}
	return lieByKey(t, c, ns, key)
}

// hashes returns the range of a shard key on k from one hash up to another.
func hashes(k *schema.ShardKey, from, to int64) schema.ShardRange {
	r := k.Whole()
	r.Min = boundAt(k, from)
	r.Max = boundAt(k, to)
	return r
}

// TestChunkReadsItsOwn counts the blocks that a walk of a chunk reads: those of its slot, or of
// its part of one, and not those of the others.
func TestChunkReadsItsOwn(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll := openSlots(t, c, `{k: "hashed"}`)
	const docs, perWindow = 64_000, 16_000
	pad := strings.Repeat("x", 250)
	for n := 0; n < docs; {
		u := c.Begin()
		for range 2000 {
			doc := new(bson.Builder).Int32("_id", int32(n)).Int32("k", int32(n)).Date("at", int64(n/perWindow)*1000).String("pad", pad).Finish()
			if err := u.Insert(t.Context(), coll, doc); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if err := u.Commit(t.Context(), storage.Buffered); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.engine.Flush(); err != nil {
		t.Fatal(err)
	}
	if whole, err := c.engine.Compact(t.Context(), coll.Ident); err != nil || !whole {
		t.Fatal(whole, err)
	}
	read := func(r schema.ShardRange) (n int, blocks int64) {
		k, ok := coll.Chunk(r)
		if !ok {
			t.Fatal("it does not lie in slots")
		}
		before := c.engine.Metrics()
		it, err := coll.EachOf(c.engine, k)
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			v, err := it.Value()
			if at, aerr := coll.sharding.Key.Append(nil, v); err != nil || aerr != nil || !r.Holds(at) {
				t.Fatalf("%s is not in the chunk: %v", bson.Doc(v), err)
			}
			n++
		}
		if err := errors.Join(it.Err(), it.Close()); err != nil {
			t.Fatal(err)
		}
		after := c.engine.Metrics()
		return n, after.CacheHits + after.CacheMisses - before.CacheHits - before.CacheMisses
	}
	all, allBlocks := read(coll.sharding.Key.Whole())
	if all != docs {
		t.Fatalf("%d documents", all)
	}
	const slot = int64(1) << 58
	for _, tc := range []struct {
		name     string
		from, to int64
		share    int64 // of the documents, and about of the blocks
	}{
		{"a slot", 3 * slot, 4 * slot, 64},
		{"half of a slot", 3 * slot, 3*slot + slot/2, 128},
		{"across two slots", 3*slot + slot/2, 4*slot + slot/2, 64},
	} {
		n, blocks := read(hashes(coll.sharding.Key, tc.from, tc.to))
		t.Logf("%s: %d documents, %d blocks of %d", tc.name, n, blocks, allBlocks)
		if want := docs / tc.share; int64(n) < want/2 || int64(n) > 2*want {
			t.Errorf("%s has %d documents", tc.name, n)
		}
		// In each of four windows: two seeks, each of which may read an index block and one of
		// another chunk.
		if blocks > 2*allBlocks/tc.share+4*2*2 {
			t.Errorf("%s: %d blocks are read, of %d in all", tc.name, blocks, allBlocks)
		}
	}
}

// TestRemoveChunkLeavesOthers: what a client stores in the gap between two parts of a slot,
// while a chunk of the slot is removed, stays.
func TestRemoveChunkLeavesOthers(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll := openSlots(t, c, `{_id: "hashed"}`)
	// Three _ids in one slot, in the order of their hashes.
	const slot = uint64(1) << 58
	in := map[uint64][]int32{}
	var ids []int32
	for id := int32(0); ids == nil; id++ {
		h := schema.HashOf(bson.Int32(id), nil)
		s := (uint64(h) ^ 1<<63) / slot
		if in[s] = append(in[s], id); len(in[s]) == 3 {
			ids = in[s]
		}
	}
	hash := func(id int32) int64 { return schema.HashOf(bson.Int32(id), nil) }
	for i := range ids {
		for j := range i {
			if hash(ids[j]) > hash(ids[i]) {
				ids[i], ids[j] = ids[j], ids[i]
			}
		}
	}
	insert := func(id int32, second int64) {
		if err := write(c, coll, nil, new(bson.Builder).Int32("_id", id).Date("at", second*1000).Finish()); err != nil {
			t.Fatal(err)
		}
	}
	insert(ids[0], 1)
	insert(ids[1], 2) // side by side: the chunk has the two lower hashes
	r := hashes(coll.sharding.Key, hash(ids[0]), hash(ids[2]))
	hide(t, c, &coll, schema.HiddenRange{ShardRange: r, Operation: 1})
	u := c.Begin()
	defer u.Abort()
	now, err := u.enter(t.Context(), coll)
	if err != nil {
		t.Fatal(err)
	}
	k, _ := now.Chunk(r)
	if next, err := u.removePart(t.Context(), now, k); err != nil || next != nil {
		t.Fatal(next, err)
	}
	insert(ids[2], 1) // lies between them
	if err := u.Commit(t.Context(), storage.Buffered); err != nil {
		t.Fatal(err)
	}
	if _, docs := records(t, c.engine, coll); len(docs) != 1 || docs[0].Lookup("_id").Int32() != ids[2] {
		t.Errorf("%v is left", docs)
	}
	mustValidate(t, c, coll)
}

// TestRemoveChunkBeside: a unit that met a lock begins again where its chunk begins, so documents
// of other chunks stay; and a document that is in no hidden range stays, too.
func TestRemoveChunkBeside(t *testing.T) {
	const docs = 40
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	coll := lieByKey(t, c, ns, `{"_id": "hashed"}`)
	r := coll.sharding.Key.Whole()
	r.Min = boundAt(coll.sharding.Key, 0)
	lower := 0
	for held := range int32(docs) {
		lower = 0
		for id := range int32(docs) {
			if schema.HashOf(bson.Int32(id), nil) < 0 {
				if lower++; held > 0 {
					continue // it is there
				}
			}
			if err := write(c, coll, nil, new(bson.Builder).Int32("_id", id).Finish()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.RemoveChunk(t.Context(), coll, r); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
			t.Fatalf("a chunk that is shown is removed: %v", err)
		}
		hide(t, c, &coll, schema.HiddenRange{ShardRange: r, Operation: 1})
		holder := c.Begin()
		if _, err := holder.u.Lock(t.Context(), storage.LockRecord, coll.Ident, coll.lockName(coll.layout.Append(nil, layout.Place{Doc: new(bson.Builder).Int32("_id", held).Finish()}))); err != nil {
			t.Fatal(err)
		}
		removed := make(chan error, 1)
		go func() {
			_, err := c.RemoveChunk(t.Context(), coll, r)
			removed <- err
		}()
		for range 1000 { // for the remover to come as far as the lock
			runtime.Gosched()
		}
		holder.Abort()
		if err := <-removed; err != nil {
			t.Fatal(err)
		}
		hide(t, c, &coll)
		if _, left := records(t, c.engine, coll); len(left) != lower || coll.Count() != int64(lower) {
			t.Fatalf("%d documents are left of the other chunk's %d, %d are counted", len(left), lower, coll.Count())
		}
	}
}

// TestSlotsAfterRelayouts: a sharded collection that was laid by slots and back, and then
// emptied, gets slots again: an _id is found and taken by the entries of its new index on _id.
func TestSlotsAfterRelayouts(t *testing.T) {
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	coll, err := c.Create(t.Context(), ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	ttl := func() *Collection {
		if _, _, err := c.CreateIndexes(t.Context(), ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`)); err != nil {
			t.Fatal(err)
		}
		return c.Lookup(ns)
	}
	insertDated(t, c, coll, 0, 10, 1000)
	k := shardBy(t, c, ns, `{_id: "hashed"}`)
	relayWhole(t, c, coll, ttl().RelayRule())
	if _, slots := c.Lookup(ns).Chunk(k.Whole()); !slots {
		t.Fatal("it does not lie in slots")
	}
	if _, err := c.DropIndexes(t.Context(), ns, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil }); err != nil {
		t.Fatal(err)
	}
	relayWhole(t, c, coll, nil)
	coll = c.Lookup(ns)
	for i := range int32(10) {
		if err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
			record, old, err := u.LockID(t.Context(), coll, bson.Int32(i))
			if err != nil {
				return err
			}
			return u.Delete(t.Context(), coll, record, old)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if coll = ttl(); !coll.Windowed() {
		t.Fatal("it has no windows")
	}
	insertDated(t, c, coll, 0, 10, 1000)
	c.hints = windowHints{} // which would find them
	u := c.Begin()
	defer u.Abort()
	if err := u.Insert(t.Context(), coll, parse(t, `{"_id": 3}`)); !mongoerr.Is(err, mongoerr.DuplicateKey) {
		t.Errorf("an _id is there twice: %v", err)
	}
	mustValidate(t, c, coll)
}

// TestThinnedInSlots: a window of which most documents live on is thinned in all slots, also by
// visits that end before that is done; those that live on are counted once.
func TestThinnedInSlots(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll := openSlots(t, c, `{_id: "hashed"}`)
	const docs = 3 * thinWalk
	insertDated(t, c, coll, 0, docs, 1000)
	r := rand.New(rand.NewPCG(1, 2))
	living := 0
	for id := range docs {
		if r.IntN(4) > 0 {
			touchDated(t, c, coll, id, 9_000_000)
			living++
		}
	}
	rule := coll.Rules()[0]
	visits, more := 0, true
	for ; more && visits < 1000; visits++ {
		d, err := c.DropWindows(t.Context(), coll, Drop{Rule: rule, Now: 100_000, MaxTime: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		more = d.More
	}
	if n := coll.Count(); n != int64(living) || more || visits < 2 {
		t.Errorf("after %d visits, more %t, there are %d documents, and %d live on", visits, more, n, living)
	}
	if n := coll.live.thinned.docs; n != int64(living) {
		t.Errorf("%d are said to live on of %d", n, living)
	}
	mustValidate(t, c, coll)
}

// TestSlotsDropAtOnce: what is due goes from all slots in one unit, and is recorded once.
func TestSlotsDropAtOnce(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll := openSlots(t, c, `{_id: "hashed"}`)
	insertDated(t, c, coll, 0, 1000, 1000)
	insertDated(t, c, coll, 1000, 1100, 9_000_000)
	steps := 0
	d, err := c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: 100_000, Did: func(Dropped, time.Duration) { steps++ }})
	if err != nil || d.Docs != 1000 || steps != 1 {
		t.Fatalf("%+v in %d steps, %v", d, steps, err)
	}
	keys, _ := records(t, c.engine, coll)
	slots := map[byte]bool{}
	for i, k := range keys {
		slots[k[2]] = true
		if i > 0 && bytes.Compare(keys[i-1], k) >= 0 {
			t.Fatal("not in order")
		}
	}
	if len(keys) != 100 || len(slots) < 32 {
		t.Errorf("%d documents are left, in %d slots", len(keys), len(slots))
	}
	mustValidate(t, c, coll)
}

// BenchmarkExpiryLayouts compares a sharded collection that lies by windows with one in slots:
// what the insert of 300,000 documents of 300 bytes that are due over an hour costs, finding
// them by _id, and removing them all when they are due.
func BenchmarkExpiryLayouts(b *testing.B) {
	const docs = 300_000
	for _, l := range []struct{ name, key string }{
		{"windows", `{k: "hashed"}`}, {"slots", `{k: "hashed"}`}, {"windows of _id", `{_id: "hashed"}`}, {"slots of _id", `{_id: "hashed"}`},
	} {
		b.Run(l.name, func(b *testing.B) {
			pad := strings.Repeat("x", 220)
			for b.Loop() {
				c := open(b, storage.NewMemFS())
				ns := schema.Namespace{DB: "d", Coll: "c"}
				coll, err := c.Create(b.Context(), ns, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, _, err := c.CreateIndexes(b.Context(), ns, specs(b, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`, `{"key": `+l.key+`, "name": "hashed"}`)); err != nil {
					b.Fatal(err)
				}
				if coll = c.Lookup(ns); strings.HasPrefix(l.name, "slots") {
					coll = lieByKey(b, c, ns, l.key)
				} else {
					shardBy(b, c, ns, l.key)
					coll = c.Lookup(ns)
				}
				phase := func(name string, f func()) {
					begun := cpuTime(b)
					f()
					b.ReportMetric(float64((cpuTime(b)-begun).Nanoseconds())/1000/docs, "cpu-µs/"+name)
				}
				phase("insert", func() {
					for n := 0; n < docs; {
						u := c.Begin()
						for range 1000 {
							doc := new(bson.Builder).ObjectID("_id", objectID(n)).Int32("k", int32(n)).Date("at", int64(n)*12).String("pad", pad).Finish()
							if err := u.Insert(b.Context(), coll, doc); err != nil {
								b.Fatal(err)
							}
							n++
						}
						if err := u.Commit(b.Context(), storage.Buffered); err != nil {
							b.Fatal(err)
						}
					}
					c.engine.Flush()
				})
				find := func() {
					for i := range docs {
						_, doc, closer, err := coll.FindID(nil, c.engine, bson.ObjectID(objectID(i*7919%docs)))
						if doc == nil || err != nil {
							b.Fatal(doc, err)
						}
						closer.Close()
					}
				}
				phase("hinted-find", find)
				phase("drop", func() {
					if d, err := c.DropWindows(b.Context(), coll, Drop{Rule: coll.Rules()[0], Now: 1e10}); err != nil || d.Docs != docs {
						b.Fatal(d, err)
					}
				})
			}
		})
	}
}
