package router_test

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestEverywhere: what administrators say to a router reaches all shards, and what is about the
// router itself stays there.
func TestEverywhere(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	note := c.do("admin", `{appendOplogNote: 1, data: {note: "of the router"}}`)
	for name := range c.shards {
		entries := c.on(name, "local", `{find: "oplog.rs", filter: {op: "n", "o.note": "of the router"}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice()
		if len(entries) != 1 {
			t.Fatalf("%s has %d notes", name, len(entries))
		}
		if at := entries[0].Doc().Lookup("ts"); bson.Compare(at, note.Lookup("operationTime")) > 0 {
			t.Errorf("the note of %s is of %s, the reply of %s", name, at, note)
		}
	}
	if n := c.do("admin", `{fsync: 1}`).Lookup("numFiles").Int32(); n != 3 {
		t.Errorf("%d servers have synced", n)
	}
	c.refused("admin", `{fsync: 1, lock: true}`, mongoerr.CommandNotSupported)
	c.refused("admin", `{setFeatureCompatibilityVersion: "6.0", confirm: true}`, 4926900)
	c.do("admin", `{setFeatureCompatibilityVersion: "7.0", confirm: true}`)
	for name := range c.shards {
		if got := c.on(name, "admin", `{getParameter: 1, featureCompatibilityVersion: 1}`).String(); !strings.Contains(got, `version: "7.0"`) {
			t.Errorf("%s has %s", name, got)
		}
	}
	c.refused("app", `{setIndexCommitQuorum: "c", indexNames: ["x_1"], commitQuorum: 1}`, mongoerr.IndexNotFound)
	c.do("admin", `{logApplicationMessage: "hello"}`)
	c.do("app", `{profile: 0, slowms: 777}`)
	if got := c.do("app", `{profile: -1}`); bson.ClampToInt64(got.Lookup("slowms")) != 777 || bson.ClampToInt64(got.Lookup("was")) != 0 {
		t.Errorf("the router's profiler: %s", got)
	}
	c.refused("app", `{profile: 1}`, mongoerr.BadValue)
	c.do("app", `{profile: 0, slowms: 100}`)
}
