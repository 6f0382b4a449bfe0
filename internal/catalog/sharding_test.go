package catalog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// entryOf is an entry of d.c, sharded by k, with some changes.
func entryOf(t *testing.T, f func(s *schema.Sharding, whole schema.ShardRange)) *schema.Sharding {
	t.Helper()
	k, err := schema.ParseShardKey(parse(t, `{"k": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	s := &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1}}
	f(s, k.Whole())
	return s
}

// TestFenced: no unit writes by a version that is none any more, whenever its statement
// began, and what waits for a critical section is measured by what comes after it.
func TestFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, storage.NewMemFS())
		ctx := t.Context()
		ns := schema.Namespace{DB: "d", Coll: "c"}
		coll, err := c.Create(ctx, ns, nil)
		if err != nil {
			t.Fatal(err)
		}
		change := func(f func(s *schema.Sharding, whole schema.ShardRange)) {
			t.Helper()
			if _, err := c.SetSharding(ctx, ns, func(*Collection) (*schema.Sharding, error) { return entryOf(t, f), nil }); err != nil {
				t.Fatal(err)
			}
		}
		change(func(*schema.Sharding, schema.ShardRange) {})
		guard := func(major uint32) *Guard {
			return &Guard{Admit: func(c *Collection) error {
				v := c.Sharding().Version
				received := v
				received.Major = major
				return schema.CheckShardVersion("d.c", "s0", received, v)
			}}
		}
		insert := func(id int32, g *Guard) error {
			return c.Run(ctx, storage.Buffered, func(u *Unit) error {
				u.Guard = g
				return u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id).Int32("k", id).Finish())
			})
		}
		if err := insert(1, guard(1)); err != nil {
			t.Fatal(err)
		}
		if err := insert(2, guard(2)); !mongoerr.Is(err, mongoerr.StaleConfig) {
			t.Fatalf("a version that is not told yet: %v", err)
		}

		change(func(s *schema.Sharding, whole schema.ShardRange) { s.Blocked = &schema.BlockedRange{ShardRange: whole} })
		done := make(chan error, 2)
		go func() { done <- insert(3, guard(1)) }()
		go func() { done <- insert(4, nil) }()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("a write did not wait: %v", err)
		default:
		}
		change(func(s *schema.Sharding, whole schema.ShardRange) { s.Version.Major = 2 })
		stale := 0
		for range 2 {
			if err := <-done; mongoerr.Is(err, mongoerr.StaleConfig) {
				stale++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if stale != 1 {
			t.Fatalf("%d writes were stale, want the one with the old version", stale)
		}

		// Who waits too long, or is killed, leaves nothing.
		change(func(s *schema.Sharding, whole schema.ShardRange) { s.Blocked = &schema.BlockedRange{ShardRange: whole} })
		start := time.Now()
		if err := insert(5, nil); !mongoerr.Is(err, mongoerr.StaleConfig) || time.Since(start) != BlockedWait {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
		killed, kill := context.WithCancelCause(ctx)
		cause := errors.New("killed")
		go func() { time.Sleep(time.Second); kill(cause) }()
		err = c.Run(killed, storage.Buffered, func(u *Unit) error { return u.Insert(killed, coll, parse(t, `{"_id": 6}`)) })
		if !errors.Is(err, cause) {
			t.Fatal(err)
		}
		// What moves the range may write.
		if err := c.Run(ctx, storage.Buffered, func(u *Unit) error {
			u.Moving = true
			return u.Insert(ctx, coll, parse(t, `{"_id": 7}`))
		}); err != nil {
			t.Fatal(err)
		}
		if n := coll.Count(); n != 3 {
			t.Fatalf("%d documents, want 1, 4 and 7", n)
		}
	})
}

// TestShardKeyChange: an update that takes a document to another place is told to the
// router, who says whether that is this shard's, too.
func TestShardKeyChange(t *testing.T) {
	c := open(t, storage.NewMemFS())
	ctx := t.Context()
	ns := schema.Namespace{DB: "d", Coll: "c"}
	coll, err := c.Create(ctx, ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := write(c, coll, nil, parse(t, `{"_id": 1, "k": 1}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SetSharding(ctx, ns, func(*Collection) (*schema.Sharding, error) {
		return entryOf(t, func(*schema.Sharding, schema.ShardRange) {}), nil
	}); err != nil {
		t.Fatal(err)
	}
	update := func(doc string, g Guard) error {
		g.Admit = func(*Collection) error { return nil }
		return c.Run(ctx, storage.Buffered, func(u *Unit) error {
			u.Guard = &g
			key, old, err := u.LockID(ctx, coll, bson.Int32(1))
			if err != nil {
				return err
			}
			return u.Update(ctx, coll, key, old, parse(t, doc))
		})
	}
	within := []bson.Doc{parse(t, `{"min": {"k": 5}, "max": {"k": 9}}`)}
	for _, s := range []struct {
		doc  string
		g    Guard
		code mongoerr.Code
	}{
		{`{"_id": 1, "k": 1, "x": 1}`, Guard{Multi: true}, 0},
		{`{"_id": 1, "k": 2}`, Guard{Multi: true}, mongoerr.InvalidOptions},
		{`{"_id": 1, "k": 2}`, Guard{}, mongoerr.IllegalOperation},
		{`{"_id": 1, "k": [2]}`, Guard{Retryable: true}, mongoerr.ShardKeyNotFound},
		{`{"_id": 1, "k": 2}`, Guard{Retryable: true}, mongoerr.WouldChangeOwningShard},
		{`{"_id": 1, "k": 9}`, Guard{Retryable: true, KeyMayBe: within}, mongoerr.WouldChangeOwningShard},
		{`{"_id": 1, "k": 5}`, Guard{Retryable: true, KeyMayBe: within}, 0},
	} {
		err := update(s.doc, s.g)
		if got := mongoerr.Code(0); err != nil {
			if got = mongoerr.From(err).Code; got != s.code {
				t.Errorf("%s: %v", s.doc, err)
			}
		} else if s.code != 0 {
			t.Errorf("%s is let through, want %d", s.doc, s.code)
		}
	}
}

// TestMovedKeepsItsTime: a document that comes from another shard keeps the time of its last
// write, from which its time to live counts; one that is written gets the time of the write.
func TestMovedKeepsItsTime(t *testing.T) {
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	coll, err := c.Create(t.Context(), ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	rule := parse(t, `{"v": 2, "key": {"_ts": 1}, "name": "ttl", "expireAfterSeconds": 60, "since": 0, "storageEngine": {"mayfly": {"expiry": {"by": "lastWrite"}}}}`)
	if _, _, err := c.CreateIndexes(t.Context(), ns, []bson.Doc{rule}); err != nil {
		t.Fatal(err)
	}
	coll = coll.Latest()
	admits := func(*Collection) error { return nil }
	for id, set := range []func(u *Unit){
		func(*Unit) {}, func(u *Unit) { u.Moving = true }, func(u *Unit) { u.Guard = &Guard{Admit: admits, Keeps: true} }, func(u *Unit) { u.Guard = &Guard{Admit: admits} },
	} {
		moving := id == 1 || id == 2
		err := c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
			set(u)
			u.SetTime(500)
			return u.Insert(t.Context(), coll, new(bson.Builder).Int32("_id", int32(id)).Int64("_ts", 7).Finish())
		})
		if err != nil {
			t.Fatal(err)
		}
		_, doc, closer, err := coll.FindID(nil, c.Engine(), bson.Int32(int32(id)))
		if err != nil || doc == nil {
			t.Fatal(err, doc)
		}
		want := int64(500)
		if moving {
			want = 7
		}
		if got := doc.Lookup("_ts").Int64(); got != want {
			t.Errorf("%d: _ts is %d, want %d", id, got, want)
		}
		if err := closer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReceivedIsNotEvicted: an _id of a document that is being received is taken, expired or not:
// where expired documents are hidden too, an insert does not take it for one of those.
func TestReceivedIsNotEvicted(t *testing.T) {
	c, ctx, ns := open(t, storage.NewMemFS()), t.Context(), schema.Namespace{DB: "d", Coll: "c"}
	if _, err := c.Create(ctx, ns, parse(t, `{"storageEngine": {"mayfly": {"expiry": {"visibility": "immediate"}}}}`)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(ctx, ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 10}`)); err != nil {
		t.Fatal(err)
	}
	k, err := schema.ParseShardKey(parse(t, `{"k": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	upper, ok := k.ParseRange(parse(t, `{"min": {"k": 0}, "max": {"k": {"$maxKey": 1}}}`))
	if !ok {
		t.Fatal("not a range")
	}
	if _, err := c.SetSharding(ctx, ns, func(*Collection) (*schema.Sharding, error) {
		return &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1},
			Hidden: []schema.HiddenRange{{ShardRange: upper, Operation: 1, Receiving: true}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	insert := func(doc string, moving bool) error {
		return c.Run(ctx, storage.Buffered, func(u *Unit) error {
			u.Moving = moving
			return u.Insert(ctx, c.Lookup(ns), parse(t, doc))
		})
	}
	for _, at := range []string{"2099", "2001"} {
		id := map[string]int{"2099": 1, "2001": 2}[at]
		if err := insert(fmt.Sprintf(`{"_id": %d, "k": 5, "at": {"$date": "%s-01-01T00:00:00Z"}}`, id, at), true); err != nil {
			t.Fatal(err)
		}
		if err := insert(fmt.Sprintf(`{"_id": %d, "k": -5, "at": {"$date": "2099-01-01T00:00:00Z"}}`, id), false); !mongoerr.Is(err, mongoerr.DuplicateKey) {
			t.Errorf("%s: %v", at, err)
		}
	}
	if _, docs := records(t, c.engine, c.Lookup(ns)); len(docs) != 2 || docs[0].Lookup("k").String() != "5" || docs[1].Lookup("k").String() != "5" {
		t.Errorf("%v", docs)
	}
}

// TestUUIDOfTheNewest: where a shard has an entry of a former name with the UUID, the collection
// that was made last is found by it, whatever becomes of the other.
func TestUUIDOfTheNewest(t *testing.T) {
	c, ctx := open(t, storage.NewMemFS()), t.Context()
	former, now := schema.Namespace{DB: "d", Coll: "former"}, schema.Namespace{DB: "d", Coll: "now"}
	id := UUID{1, 2, 3}
	for _, ns := range []schema.Namespace{former, now} {
		if _, err := c.CreateWith(ctx, ns, NewCollection{UUID: id}); err != nil {
			t.Fatal(err)
		}
	}
	found := func(after string) {
		t.Helper()
		if coll := c.LookupUUID(id); coll == nil || coll.Namespace != now {
			t.Errorf("after %s: %v", after, coll)
		}
	}
	found("its creation")
	if _, _, err := c.CreateIndexes(ctx, former, specs(t, former, `{"key": {"a": 1}, "name": "a"}`)); err != nil {
		t.Fatal(err)
	}
	found("a change of the former")
	if _, err := c.Drop(ctx, former); err != nil {
		t.Fatal(err)
	}
	found("the drop of the former")
}

// TestRangesStayDuringMove: no window is dropped while a range of the collection is handed over,
// even where the visit of the monitor began before that; it is dropped afterwards.
func TestRangesStayDuringMove(t *testing.T) {
	c, coll := openWindowed(t)
	insertDated(t, c, coll, 0, 1, 1_000)
	change := func(f func(s *schema.Sharding, whole schema.ShardRange)) {
		t.Helper()
		if _, err := c.SetSharding(t.Context(), coll.Namespace, func(*Collection) (*schema.Sharding, error) { return entryOf(t, f), nil }); err != nil {
			t.Fatal(err)
		}
	}
	drop := func() int64 {
		t.Helper()
		d, err := c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: 1_000_000})
		if err != nil {
			t.Fatal(err)
		}
		return d.Docs
	}
	change(func(s *schema.Sharding, whole schema.ShardRange) {
		s.Blocked = &schema.BlockedRange{ShardRange: whole, Operation: 1}
	})
	if n := drop(); n != 0 {
		t.Errorf("%d documents were dropped while their range was handed over", n)
	}
	change(func(*schema.Sharding, schema.ShardRange) {})
	if n := drop(); n != 1 {
		t.Errorf("%d documents were dropped afterwards", n)
	}
}
