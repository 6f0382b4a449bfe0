package catalog

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestInsertCountsUp: of documents whose _ids count up few are looked for, and nonetheless none is
// inserted twice: neither one that was there before, nor one that another unit has committed since
// this one has looked, nor one of its own.
func TestInsertCountsUp(t *testing.T) {
	for _, ttl := range []bool{false, true} { // by _id, and in windows, where an index has the _ids
		t.Run(fmt.Sprint("ttl ", ttl), func(t *testing.T) { testInsertCountsUp(t, ttl) })
	}
}

func testInsertCountsUp(t *testing.T, ttl bool) {
	ctx, ns := t.Context(), schema.Namespace{DB: "d", Coll: "c"}
	c := open(t, storage.NewMemFS())
	coll, err := c.Create(ctx, ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	if ttl {
		if _, _, err := c.CreateIndexes(ctx, ns, specs(t, ns, `{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 60}`)); err != nil {
			t.Fatal(err)
		}
		coll = coll.Latest()
	}
	insert := func(u *Unit, id int32, taken bool) {
		t.Helper()
		err := u.Insert(ctx, coll, new(bson.Builder).Int32("_id", id).Date("at", 4e12).Finish())
		if taken != mongoerr.Is(err, mongoerr.DuplicateKey) || !taken && err != nil {
			t.Fatalf("%d: %v", id, err)
		}
	}
	other := func(ids ...int32) {
		t.Helper()
		u := c.Begin()
		defer u.Abort()
		for _, id := range ids {
			insert(u, id, false)
		}
		if err := u.Commit(ctx, storage.Buffered); err != nil {
			t.Fatal(err)
		}
	}
	other(5000, 9000)
	u := c.Begin()
	defer u.Abort()
	for id := int32(4000); id < 5000; id++ {
		insert(u, id, false)
	}
	if known := u.gap.known; !known || u.gap.commits != c.engine.Commits() {
		t.Errorf("after a thousand documents the unit knows of none: %t", known)
	}
	insert(u, 5000, true)
	insert(u, 5001, false)
	insert(u, 5002, false)
	other(5003, 5006)
	insert(u, 5003, true)
	insert(u, 5004, false)
	insert(u, 5004, true)
	insert(u, 5005, false)
	insert(u, 5006, true)
	if err := u.Commit(ctx, storage.Buffered); err != nil {
		t.Fatal(err)
	}
	for _, id := range []int32{4000, 4999, 5002, 5003, 5005} {
		u := c.Begin()
		insert(u, id, true)
		u.Abort()
	}
	if n := coll.Count(); n != 1008 {
		t.Errorf("%d documents", n)
	}
}
