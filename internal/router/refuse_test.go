package router_test

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestShardOfAnotherCluster: a shard of one cluster is not taken into another, and stays what
// it is; the operation that tried ends.
func TestShardOfAnotherCluster(t *testing.T) {
	c, other := newCluster(t, 1), newCluster(t, 2)
	other.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	other.fill("c", 0, 10)
	host := other.do("admin", `{listShards: 1}`).Lookup("shards").Doc().Lookup("1").Doc().Lookup("host").Str()
	for range 2 { // the second one finds no operation of the first in its way
		if _, err := c.try("admin", fmt.Sprintf(`{addShard: %q, name: "mine"}`, host)); !mongoerr.Is(err, mongoerr.AlreadyInitialized) {
			t.Errorf("a shard of another cluster is added: %v", err)
		}
	}
	if n := other.do("app", `{count: "c"}`).Lookup("n").Int32(); n != 10 {
		t.Errorf("the other cluster has %d documents", n)
	}
	if state := other.on("s1", "admin", `{shardingState: 1}`); state.Lookup("shardName").Str() != "s1" {
		t.Errorf("the shard is now %s", state)
	}
}

// TestShardLostItsCollection: whoever talks to a shard itself may drop what is sharded. What
// is done to the collection afterwards ends all the same.
func TestShardLostItsCollection(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for _, name := range []string{"a", "b", "c", "d"} {
		c.do("admin", fmt.Sprintf(`{shardCollection: "app.%s", key: {x: 1}}`, name))
		c.do("admin", fmt.Sprintf(`{split: "app.%s", middle: {x: 0}}`, name))
		c.do("admin", fmt.Sprintf(`{moveChunk: "app.%s", find: {x: 1}, to: "s1"}`, name))
		c.on("s1", "app", fmt.Sprintf(`{drop: %q}`, name))
	}
	c.do("admin", `{split: "app.a", middle: {x: 10}}`)
	c.do("app", `{drop: "a"}`)
	for _, text := range []string{
		`{moveChunk: "app.b", find: {x: -1}, to: "s1"}`, `{moveChunk: "app.b", find: {x: 1}, to: "s0"}`, `{renameCollection: "app.b", to: "app.e"}`,
	} {
		_, err := c.try("admin", text)
		t.Log(text, err) // refused or not, it ends
	}
	c.do("app", `{drop: "b"}`)
	c.do("app", `{dropDatabase: 1}`)
	for _, d := range c.do("config", `{find: "operations"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		if d.Doc().Lookup("_id").Type != bson.TypeString {
			t.Errorf("an operation does not end: %s", d)
		}
	}
}

// TestRenameOntoWhatAShardHas: a collection that only another shard has under the new name is
// found before anything is renamed.
func TestRenameOntoWhatAShardHas(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.fill("c", 0, 20)
	c.on("s1", "app", `{insert: "there", documents: [{_id: 1}]}`)
	if _, err := c.try("admin", `{renameCollection: "app.c", to: "app.there"}`); !mongoerr.Is(err, mongoerr.NamespaceExists) {
		t.Errorf("it is renamed: %v", err)
	}
	c.do("admin", `{renameCollection: "app.c", to: "app.free"}`)
	if n := c.do("app", `{count: "free"}`).Lookup("n").Int32(); n != 20 {
		t.Errorf("%d documents have the new name", n)
	}
}

// TestShardCollectionLeavesNothing: what is refused leaves no collection, and an empty one as
// it was.
func TestShardCollectionLeavesNothing(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	if _, err := c.try("admin", `{shardCollection: "app.new", key: {x: 1}, implicitlyCreateIndex: false}`); !mongoerr.Is(err, 6373200) {
		t.Error(err)
	}
	c.do("app", `{createIndexes: "empty", indexes: [{key: {y: 1}, name: "y"}]}`)
	c.on("s1", "app", `{insert: "empty", documents: [{_id: 1}]}`) // which stands in the way
	c.on("s1", "app", `{insert: "fresh", documents: [{_id: 1}]}`)
	for _, name := range []string{"empty", "fresh"} {
		if _, err := c.try("admin", fmt.Sprintf(`{shardCollection: "app.%s", key: {x: "hashed"}}`, name)); !mongoerr.Is(err, mongoerr.NamespaceExists) {
			t.Error(name, err)
		}
	}
	if got := batch(c.do("app", `{listCollections: 1, nameOnly: true}`)); got != `[ { name: "empty", type: "collection" } ]` {
		t.Errorf("there are now %s", got)
	}
	if got := c.do("app", `{listIndexes: "empty"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Len(); got < 2 {
		t.Errorf("the collection that was there has %d indexes", got)
	}
}

// TestUniqueOnAllShards: an index becomes unique on all shards, or on none.
func TestUniqueOnAllShards(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	c.do("admin", `{split: "app.c", middle: {x: 0}}`)
	c.do("admin", `{moveChunk: "app.c", find: {x: 1}, to: "s1"}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {x: 1, y: 1}, name: "xy"}]}`)
	c.do("app", `{insert: "c", documents: [{x: -1, y: 1}, {x: 5, y: 1}, {x: 5, y: 1}]}`) // only s1 has twins
	c.do("app", `{collMod: "c", index: {name: "xy", prepareUnique: true}}`)
	if _, err := c.try("app", `{collMod: "c", index: {name: "xy", unique: true}}`); !mongoerr.Is(err, 359) {
		t.Errorf("twins are unique: %v", err)
	}
	for name := range c.shards {
		for _, d := range c.on(name, "app", `{listIndexes: "c"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
			if d.Doc().Lookup("unique").Truthy() {
				t.Errorf("%s has made it unique", name)
			}
		}
	}
	c.do("app", `{delete: "c", deletes: [{q: {x: 5}, limit: 1}]}`)
	if raw := c.do("app", `{collMod: "c", index: {name: "xy", unique: true}}`).Lookup("raw").Doc(); raw.Len() != 2 {
		t.Errorf("the reply has %s", raw)
	}
}
