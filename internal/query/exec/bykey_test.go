package exec

import (
	"context"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// layKeys are shard keys by which collections lie in some tests; "" for the order of _id.
var layKeys = []string{"", "", "", `{"_id": "hashed"}`, `{"a": "hashed"}`, `{"b": "hashed", "a": 1}`, `{"a": 1}`, `{"b": 1, "a": 1}`, `{"a": 1, "c": "hashed"}`}

// create makes a collection that lies by _id, by a shard key or in slots.
func (h *house) create(t *rapid.T, ns schema.Namespace) *catalog.Collection {
	if _, err := h.catalog.Create(context.Background(), ns, nil); err != nil {
		t.Fatal(err)
	}
	if key := rapid.SampledFrom(layKeys).Draw(t, "shard key"); key != "" {
		h.lieByKey(t, ns, key)
		if rapid.Bool().Draw(t, "in slots") {
			spec := bson.MustParse(`{v: 2, key: {due: 1}, name: "due", expireAfterSeconds: 0}`)
			if _, _, err := h.catalog.CreateIndexes(context.Background(), ns, []bson.Doc{spec}); err != nil {
				t.Fatal(err)
			}
			if !h.catalog.Lookup(ns).Windowed() {
				t.Fatal("the collection does not lie in slots")
			}
		}
	}
	return h.catalog.Lookup(ns)
}

// onShardKey returns the specification of the index on the shard key, which the records serve,
// or nothing.
func onShardKey(t *rapid.T, c *catalog.Collection) []string {
	if c.Sharding() == nil || rapid.Bool().Draw(t, "no index on the shard key") {
		return nil
	}
	return []string{`{"key": ` + c.Sharding().Key.String() + `, "name": "served"}`}
}

// lieByKey lays a collection that has no documents by a shard key.
func (h *house) lieByKey(t opener, ns schema.Namespace, key string) {
	t.Helper()
	ctx := context.Background()
	k, err := schema.ParseShardKey(bson.MustParse(key))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.catalog.SetSharding(ctx, ns, func(*catalog.Collection) (*schema.Sharding, error) {
		return &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.catalog.LieByShardKey(ctx, ns); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.catalog.Lookup(ns).Chunk(k.Whole()); !ok {
		t.Fatal("the collection does not lie by its shard key")
	}
}
