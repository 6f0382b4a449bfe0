package catalog

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// halfRelaid is a collection of n documents {_id, at, n} that is about to be laid by
// windows; those with even _ids are due at halfRelaidNow.
func halfRelaid(t *testing.T, fs *storage.MemFS, n int) (*Catalog, *Collection) {
	t.Helper()
	c := open(t, fs)
	if _, err := c.Create(t.Context(), relayNS, nil); err != nil {
		t.Fatal(err)
	}
	err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
		for id := range n {
			at := int64(1_000_000 + id)
			if id%2 == 1 {
				at *= 10
			}
			doc := new(bson.Builder).Int32("_id", int32(id)).Date("at", at).Int32("n", int32(-id)).Finish()
			if err := u.Insert(t.Context(), c.Lookup(relayNS), doc); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{`{"v": 2, "key": {"n": 1}, "name": "n", "unique": true}`, `{"v": 2, "key": {"at": 1}, "name": "at", "expireAfterSeconds": 0}`} {
		if _, _, err := c.CreateIndexes(t.Context(), relayNS, []bson.Doc{parse(t, spec)}); err != nil {
			t.Fatal(err)
		}
	}
	coll := c.Lookup(relayNS)
	if err := c.BeginRelay(t.Context(), coll, coll.RelayRule(), nil); err != nil {
		t.Fatal(err)
	}
	return c, c.Lookup(relayNS)
}

const halfRelaidNow = 2_000_000

// TestRelayLocked: a document that another unit has locked while relayout comes by (in
// the part's second group) moves when that unit has ended, as it has left it.
func TestRelayLocked(t *testing.T) {
	const docs, locked = relayDocs + 10, relayDocs + 3
	for _, tc := range []struct {
		name  string
		end   func(u *Unit, c *Collection, record RecordKey, old bson.Doc) error
		moved int64 // by relayout
		left  int64
		more  bool // the document has another field
	}{
		{"nothing", func(*Unit, *Collection, RecordKey, bson.Doc) error { return nil }, docs, docs, false},
		{"update", func(u *Unit, c *Collection, record RecordKey, old bson.Doc) error {
			return u.Update(context.Background(), c, record, old, withField(old, "more", bson.Int32(1)))
		}, docs - 1, docs, true},
		{"delete", func(u *Unit, c *Collection, record RecordKey, old bson.Doc) error {
			return u.Delete(context.Background(), c, record, old)
		}, docs - 1, docs - 1, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, coll := halfRelaid(t, storage.NewMemFS(), docs)
			u := c.Begin()
			var record RecordKey
			var old bson.Doc
			moved := int64(0)
			did := func(s RelayStep, _ time.Duration) (err error) {
				switch moved += s.Moved; {
				case s.Passed == 0: // of a document that was locked
					return nil
				case moved == relayDocs:
					record, old, err = u.LockID(t.Context(), coll, bson.Int32(locked))
					return err
				case moved != docs-1:
					t.Errorf("%d documents moved beside the locked one", moved)
				}
				if err := tc.end(u, coll, record, old); err != nil {
					return err
				}
				return u.Commit(t.Context(), storage.Buffered)
			}
			if _, end, err := c.RelayPart(t.Context(), coll, Relay{Bytes: 1 << 20, Did: did}); err != nil || !end {
				t.Fatal(end, err)
			}
			if moved != tc.moved {
				t.Errorf("%d documents have moved", moved)
			}
			if done, err := c.EndRelay(t.Context(), coll.Latest(), func(time.Duration) error { return nil }); err != nil || !done {
				t.Fatal(done, err)
			}
			_, docs := records(t, c.engine, coll.Latest())
			if n := int64(len(docs)); n != tc.left || coll.Latest().Count() != tc.left {
				t.Errorf("%d documents, counted %d", n, coll.Latest().Count())
			}
			for _, d := range docs {
				if d.Has("more") != (tc.more && d.Lookup("_id").Int32() == locked) {
					t.Errorf("%s", d)
				}
			}
			mustValidate(t, c, coll.Latest())
		})
	}
}

// TestRepairRelayout repairs a store in which a collection is being laid anew, by
// windows with what is due gone from a part, and back: nothing is lost, what went does
// not come back, and relayout goes on to its end.
func TestRepairRelayout(t *testing.T) {
	const docs, part = 400, 8000 // bytes
	for _, back := range []bool{false, true} {
		t.Run(fmt.Sprintf("back %t", back), func(t *testing.T) {
			ctx, fs := t.Context(), storage.NewMemFS()
			c, coll := halfRelaid(t, fs, docs)
			if back {
				relayOn(t, c, coll, 1<<20)
				if _, err := c.DropIndexes(ctx, relayNS, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("at")}, nil }); err != nil {
					t.Fatal(err)
				}
				if err := c.BeginRelay(ctx, coll.Latest(), nil, nil); err != nil {
					t.Fatal(err)
				}
			}
			if _, end, err := c.RelayPart(ctx, coll.Latest(), Relay{Bytes: part, Rule: coll.Latest().RelayServes(), Now: halfRelaidNow}); err != nil || end {
				t.Fatal(end, err)
			}
			_, want := records(t, c.engine, coll.Latest())
			if left, err := c.RelayLeft(coll.Latest()); err != nil || left == 0 || left == docs || back == (len(want) < docs) {
				t.Fatalf("%d are left to move, of %d documents, %v", left, len(want), err)
			}
			if err := c.engine.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			disk := fs.Crash(100, nil)
			if v, err := Verify(ctx, disk, "db", quiet); err != nil || !v.Valid() || v.Documents != int64(len(want)) {
				t.Fatalf("before: %+v, %v", v, err)
			}
			if r, err := Repair(ctx, disk, "db", "new", quiet); err != nil || !r.Lossless() {
				t.Fatalf("%+v, %v", r, err)
			}
			if v, err := Verify(ctx, disk, "new", quiet); err != nil || !v.Valid() {
				t.Fatalf("after: %+v, %v", v, err)
			}
			e, err := storage.Open(storage.Options{Dir: "new", FS: disk, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if c, err = Open(e, Options{}); err != nil {
				t.Fatal(err)
			}
			defer endProcess(t, c)
			sameDocuments(t, c, want)
			if coll = c.Lookup(relayNS); coll.Relaying() {
				relayOn(t, c, coll, part)
			}
			if coll = c.Lookup(relayNS); coll.Relaying() || coll.Windowed() == back {
				t.Errorf("it is laid anew: %t, by windows: %t", coll.Relaying(), coll.Windowed())
			}
			sameDocuments(t, c, want)
		})
	}
}

// relayOn goes on with a relayout to its end, in parts of so many bytes.
func relayOn(t failer, c *Catalog, coll *Collection, size int) {
	t.Helper()
	ctx := context.Background()
	for from, end := RecordKey(nil), false; !end; {
		var err error
		if from, end, err = c.RelayPart(ctx, coll.Latest(), Relay{From: from, Bytes: size, Alone: func() bool { return true }}); err != nil {
			t.Fatal(err)
		}
	}
	if done, err := c.EndRelay(ctx, coll.Latest(), func(time.Duration) error { return nil }); err != nil || !done {
		t.Fatal(done, err)
	}
}

// sameDocuments holds that the collection has these documents and no others, in whatever
// order, each found by its _id, and is whole.
func sameDocuments(t *testing.T, c *Catalog, want []bson.Doc) {
	t.Helper()
	coll := c.Lookup(relayNS)
	if n := coll.Count(); n != int64(len(want)) {
		t.Errorf("%d documents of %d", n, len(want))
	}
	for _, d := range want {
		_, found, closer, err := coll.FindID(nil, c.engine, d.Lookup("_id"))
		if err != nil || found == nil {
			t.Fatalf("%s is not found: %v", d, err)
		}
		if string(found) != string(d) {
			t.Errorf("%s is %s", d, found)
		}
		closer.Close()
	}
	mustValidate(t, c, coll)
}
