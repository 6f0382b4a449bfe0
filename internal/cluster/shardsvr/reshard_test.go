package shardsvr

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestReshardingEnds: what receives a collection under another shard key writes no more once that
// collection is shown, or has been dropped: who reads it would see the donors' log.
func TestReshardingEnds(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	cat, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	ns := schema.Namespace{DB: "d", Coll: schema.ReshardingPrefix + "0102"}
	key, err := schema.ParseShardKey(bson.MustParse(`{k: 1}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Create(t.Context(), ns, nil); err != nil {
		t.Fatal(err)
	}
	hide := func(hidden ...schema.HiddenRange) {
		t.Helper()
		if _, err := cat.SetSharding(t.Context(), ns, func(*catalog.Collection) (*schema.Sharding, error) {
			return &schema.Sharding{Key: key, Shard: "s0", Hidden: hidden}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	hide()
	if err := cat.LieByShardKey(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	if _, lies := cat.Lookup(ns).Chunk(key.Whole()); !lies {
		t.Error("what is received does not lie by its shard key")
	}
	r := newResharder(&Shard{cat: cat}, ns)
	r.at.operation, r.at.ranges = 7, bson.ArrayOf(bson.Empty)
	step := func(id int32) error {
		return r.step(t.Context(), func(u *catalog.Unit, _ *resharding) error {
			return u.Insert(t.Context(), cat.Lookup(ns), new(bson.Builder).Int32("_id", id).Int32("k", id).Finish())
		})
	}
	holds := func(n int64, when string) {
		t.Helper()
		if got := cat.Lookup(ns).Count(); got != n {
			t.Errorf("%s: it has %d documents, want %d", when, got, n)
		}
	}
	hide(schema.HiddenRange{ShardRange: key.Whole(), Operation: 7, Receiving: true})
	if err := step(1); err != nil {
		t.Fatal(err)
	}
	holds(1, "while it is received")
	hide()
	if err := step(2); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Errorf("once it is shown: %v", err)
	}
	hide(schema.HiddenRange{ShardRange: key.Whole(), Operation: 8, Receiving: true})
	if err := step(3); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Errorf("while another operation receives it: %v", err)
	}
	holds(1, "at the end")
}
