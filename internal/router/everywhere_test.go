package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
	if got := c.do("app", `{isdbgrid: 1}`); got.Lookup("isdbgrid").Int32() != 1 || got.Lookup("hostname").Type != bson.TypeString {
		t.Errorf("isdbgrid: %s", got)
	}
	c.refused("app", `{compact: "c"}`, mongoerr.CommandNotSupported)
	c.refused("admin", `{replSetGetStatus: 1}`, mongoerr.UnknownError)
	c.do("admin", `{fsync: 1, lock: true}`)
	locks := c.do("admin", `{lockInfo: 1}`).Lookup("raw").Doc()
	c.do("admin", `{fsyncUnlock: 1}`)
	for name := range c.shards {
		if held := locks.Lookup(name).Doc().Lookup("lockInfo"); held.Type != bson.TypeArray || held.Doc().Len() != 1 {
			t.Errorf("locks of %s: %s", name, locks)
		}
	}
}

// TestFsyncLock: a lock through a router blocks writes on the config servers and each shard until
// it is released as often; one that a shard cannot give leaves none.
func TestFsyncLock(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	locked := func() (n int64) {
		for name := range c.shards {
			if c.on(name, "admin", `{currentOp: 1}`).Lookup("fsyncLock").Truthy() {
				n++
			}
		}
		return n
	}
	for want := int64(1); want <= 2; want++ {
		got := c.do("admin", `{fsync: 1, lock: true}`)
		if n := got.Lookup("lockCount").Int64(); n != want || got.Lookup("numFiles").Int32() != 3 || got.Lookup("all").Doc().Len() != 3 {
			t.Errorf("lock %d: %s", want, got)
		}
		if one := got.Lookup("all").Doc().Lookup("s1").Doc(); one.Lookup("lockCount").Int64() != want {
			t.Errorf("lock %d of s1: %s", want, one)
		}
	}
	written := make(chan struct{})
	other := c.connect(c.address)
	go func() {
		defer close(written)
		if reply, err := other.Run(t.Context(), "app", bson.MustParse(`{insert: "c", documents: [{_id: 1}, {_id: 2}, {_id: 3}, {_id: 4}]}`)); err != nil || reply.Has("writeErrors") {
			t.Errorf("%s %v", reply, err)
		}
	}()
	for left := int64(1); left >= 0; left-- {
		if n := locked(); n != 2 {
			t.Errorf("%d shards are locked", n)
		}
		if got := c.do("admin", `{currentOp: 1}`); !got.Lookup("fsyncLock").Truthy() {
			t.Errorf("currentOp does not tell of the lock: %s", got)
		}
		if n := bson.ClampToInt64(c.do("app", `{count: "c"}`).Lookup("n")); n != 0 {
			t.Errorf("%d documents were written", n)
		}
		if got := c.do("admin", `{fsyncUnlock: 1}`); got.Lookup("lockCount").Int64() != left || got.Lookup("info").Str() != "fsyncUnlock completed" {
			t.Errorf("unlock: %s", got)
		}
	}
	<-written
	c.refused("admin", `{fsyncUnlock: 1}`, mongoerr.IllegalOperation)
	c.refused("app", `{fsync: 1, lock: true}`, mongoerr.Unauthorized)
	c.on("s1", "admin", `{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["fsync"], errorCode: 24}}`)
	c.refused("admin", `{fsync: 1, lock: true}`, 24)
	if n := locked(); n != 0 {
		t.Errorf("%d shards stay locked", n)
	}
	c.on("s1", "admin", `{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["fsync"], closeConnection: true}}`)
	if _, err := c.connect(c.address).Run(t.Context(), "admin", bson.MustParse(`{fsync: 1, lock: true}`)); err == nil || !strings.Contains(err.Error(), "s1 may be locked") {
		t.Errorf("where the answer of s1 is lost: %v", err)
	}
	if n := locked(); n != 0 {
		t.Errorf("%d shards stay locked", n)
	}
	c.do("app", `{insert: "c", documents: [{_id: 5}]}`)
}

// TestFsyncLockOfNewShard: a shard that is added after the router has read the list of them, and
// before the config servers are locked, is locked, too; a client that goes away leaves no locks.
func TestFsyncLockOfNewShard(t *testing.T) {
	c := newCluster(t, 1)
	address := c.startSet("s1", "--shardsvr")
	c.shards["s1"] = c.connect(address)
	config := c.connect(c.config)
	late := func(ms int) {
		c.done("configureFailPoint")(config.Run(t.Context(), "admin", bson.MustParse(fmt.Sprintf(
			`{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["fsync"], blockConnection: true, blockTimeMS: %d}}`, ms))))
	}
	locked := func(shard string) bool {
		return c.on(shard, "admin", `{currentOp: 1}`).Lookup("fsyncLock").Truthy()
	}
	lock := func(text string) chan error {
		ended, conn := make(chan error, 1), c.connect(c.address)
		go func() {
			reply, err := conn.Run(t.Context(), "admin", bson.MustParse(text))
			if err == nil && reply.Lookup("numFiles").Int32() != 3 {
				err = fmt.Errorf("%s", reply)
			}
			ended <- err
		}()
		for !locked("s0") {
			time.Sleep(time.Millisecond)
		}
		return ended
	}
	late(2000)
	ended := lock(`{fsync: 1, lock: true}`)
	c.do("admin", fmt.Sprintf(`{addShard: "s1/%s", name: "s1"}`, address))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !locked("s1") {
		t.Error("the new shard is not locked")
	}
	c.do("admin", `{fsyncUnlock: 1}`)

	late(500)
	ended = lock(`{fsync: 1, lock: true, comment: "to be killed"}`)
	for v := range c.do("admin", `{aggregate: 1, pipeline: [{$currentOp: {localOps: true}}, {$match: {"command.comment": "to be killed"}}], cursor: {}}`).
		Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		c.do("admin", fmt.Sprintf(`{killOp: 1, op: %d}`, v.Doc().Lookup("opid").Int32()))
	}
	if err := <-ended; !mongoerr.Is(err, mongoerr.Interrupted) {
		t.Error(err)
	}
	if locked("s0") || locked("s1") {
		t.Error("a lock is left")
	}
	c.do("app", `{insert: "c", documents: [{_id: 1}]}`)
}

// TestRouterDiagnostics: a router tells of itself and its connections.
func TestRouterDiagnostics(t *testing.T) {
	c := newCluster(t, 2)
	if d := c.do("admin", `{getDiagnosticData: 1}`).Lookup("data").Doc(); d.Lookup("serverStatus").Doc().Lookup("process").Str() != "mongos" || d.Has("replSetGetStatus") {
		t.Errorf("getDiagnosticData: %s", d)
	}
	c.do("admin", `{fsync: 1}`) // so it knows the shards
	stats := c.do("admin", `{connPoolStats: 1}`)
	hosts := stats.Lookup("hosts").Doc()
	if hosts.Len() != 3 || stats.Lookup("replicaSets").Doc().Len() != 3 || stats.Lookup("totalCreated").Int32() == 0 {
		t.Fatalf("connPoolStats: %s", stats)
	}
	available := func(d bson.Doc, host string) int32 {
		return d.Lookup("hosts").Doc().Lookup(host).Doc().Lookup("available").Int32()
	}
	host := ""
	for name := range hosts.All() {
		if available(stats, name) > 0 && name != c.config { // with which the router talks all the time
			host = name
		}
	}
	c.do("admin", `{dropConnections: 1, hostAndPort: ["`+host+`", "nobody:1"]}`)
	if n := available(c.do("admin", `{connPoolStats: 1}`), host); host == "" || n != 0 {
		t.Errorf("%s has %d connections", host, n)
	}
	c.refused("admin", `{dropConnections: 1, hostAndPort: ["a:b"]}`, mongoerr.FailedToParse)
	c.refused("app", `{getDiagnosticData: 1}`, mongoerr.Unauthorized)
}
