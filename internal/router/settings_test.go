package router_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// blocks demands that a write is refused as user writes are blocked.
func (c *realCluster) blocks(conn *client.Conn, db, text string) {
	c.t.Helper()
	reply, err := conn.Run(c.t.Context(), db, bson.MustParse(text))
	if list := reply.Lookup("writeErrors"); err == nil && list.Type == bson.TypeArray {
		for v := range list.Doc().Values() {
			err = mongoerr.New(mongoerr.Code(v.Doc().Lookup("code").Int32()), "%s", v)
		}
	}
	if bulk := reply.Lookup("cursor"); err == nil && bulk.Type == bson.TypeDocument {
		for v := range bulk.Doc().Lookup("firstBatch").Doc().Values() {
			err = mongoerr.New(mongoerr.Code(bson.ClampToInt64(v.Doc().Lookup("code"))), "%s", v)
		}
	}
	if !mongoerr.Is(err, mongoerr.UserWritesBlocked) {
		c.t.Errorf("%s: %v %s", text, err, reply)
	}
}

// mode is whether user writes are blocked on a shard: 2 where they are.
func (c *realCluster) mode(shard string) int32 {
	return c.on(shard, "admin", `{serverStatus: 1}`).Lookup("repl").Doc().Lookup("userWriteBlockMode").Int32()
}

// TestUserWriteBlock: when setUserWriteBlockMode is answered, no client's write gets through to
// any shard, nor to one that is added or becomes primary later; moves go on.
func TestUserWriteBlock(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.do("app", `{create: "plain"}`)
	c.fill("c", 0, 100)
	session := func(number int, text string) string {
		return fmt.Sprintf(`{%s, lsid: {id: {"$uuid": "00000000-0000-4000-8000-00000000000%d"}}, txnNumber: {"$numberLong": "1"}, autocommit: false}`, text, number)
	}
	for i := range 2 { // one with a participant, one with two
		c.do("app", session(i, fmt.Sprintf(`insert: "c", documents: [{_id: %d, x: 1}, {_id: %d, x: %d}], startTransaction: true`, 1000+2*i, 1001+2*i, 1+7*i)))
	}
	c.do("admin", `{setUserWriteBlockMode: 1, global: true, reason: "DiskUseThresholdExceeded"}`)
	c.refused("admin", `{setUserWriteBlockMode: 1, global: true}`, mongoerr.IllegalOperation)
	c.refused("admin", `{setUserWriteBlockMode: 1, global: false}`, mongoerr.IllegalOperation)
	c.do("admin", `{setUserWriteBlockMode: 1, global: true, reason: "DiskUseThresholdExceeded"}`)
	writes := func(conn *client.Conn) {
		t.Helper()
		for _, text := range []string{
			`{insert: "c", documents: [{_id: 200, x: 200}]}`, `{insert: "plain", documents: [{_id: 1}]}`, `{update: "c", updates: [{q: {x: 7}, u: {$set: {y: 0}}}]}`,
			`{update: "c", updates: [{q: {}, u: {$set: {y: 0}}, multi: true}]}`, `{delete: "c", deletes: [{q: {x: 7}, limit: 1}]}`, `{findAndModify: "c", query: {x: 7}, remove: true}`,
			`{create: "other"}`, `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1"}]}`, `{createIndexes: "plain", indexes: [{key: {y: 1}, name: "y_1"}]}`,
			`{drop: "c"}`, `{drop: "plain"}`, `{dropDatabase: 1}`, `{aggregate: "c", pipeline: [{$out: "copy"}], cursor: {}}`,
			`{aggregate: "c", pipeline: [{$merge: {into: "plain"}}], cursor: {}}`, `{collMod: "c", validator: {}}`, `{dropIndexes: "c", index: "*"}`,
		} {
			c.blocks(conn, "app", text)
		}
		for _, text := range []string{
			`{shardCollection: "app.more", key: {x: 1}}`, `{renameCollection: "app.plain", to: "app.renamed"}`, `{refineCollectionShardKey: "app.c", key: {x: "hashed", y: 1}}`,
			`{bulkWrite: 1, ops: [{insert: 0, document: {_id: 300, x: 300}}], nsInfo: [{ns: "app.c"}]}`, `{enableSharding: "fresh"}`,
		} {
			c.blocks(conn, "admin", text)
		}
		c.blocks(conn, "new", `{insert: "c", documents: [{_id: 1}]}`)
	}
	writes(c.router)
	for i := range 2 {
		if reply, err := c.try("admin", session(i, `commitTransaction: 1`)); err == nil {
			t.Errorf("commit %d: %s", i, reply)
		}
	}
	count := func(want int64) {
		t.Helper()
		if n := bson.ClampToInt64(c.do("app", `{aggregate: "c", pipeline: [{$count: "n"}], cursor: {}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc().Lookup("n")); n != want {
			t.Errorf("%d documents instead of %d", n, want)
		}
	}
	count(100)
	c.do("admin", `{moveChunk: "app.c", find: {x: 7}, to: "s0"}`)
	c.do("admin", `{moveChunk: "app.c", find: {x: 7}, to: "s1"}`)
	count(100)

	c.on("s0", "admin", `{replSetStepDown: 1, force: true}`)
	until := func(what string, is func() error) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			err := is()
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	until("a primary", func() error {
		if !c.on("s0", "admin", `{hello: 1}`).Lookup("isWritablePrimary").Truthy() {
			return mongoerr.New(mongoerr.NotWritablePrimary, "none yet")
		}
		return nil
	})
	address := c.startSet("s2", "--shardsvr")
	c.shards["s2"] = c.connect(address)
	until("a shard", func() error {
		_, err := c.try("admin", fmt.Sprintf(`{addShard: "s2/%s", name: "s2"}`, address))
		return err
	})
	for name := range c.shards {
		if n := c.mode(name); n != 2 {
			t.Errorf("%s has mode %d", name, n)
		}
	}
	writes(c.connect(c.address))
	c.do("admin", `{setUserWriteBlockMode: 1, global: false, reason: "DiskUseThresholdExceeded"}`)
	for name := range c.shards {
		if n := c.mode(name); n != 1 {
			t.Errorf("%s has mode %d", name, n)
		}
	}
	c.fill("c", 100, 200)
	count(200)
	c.do("app", `{drop: "plain"}`)

	// One that cannot leaves all as they were.
	c.on("s1", "admin", `{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["_shardsvrSettings"], errorCode: 96}}`)
	c.refused("admin", `{setUserWriteBlockMode: 1, global: true}`, mongoerr.OperationFailed)
	until("the end of it", func() error {
		_, err := c.try("app", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1"}]}`)
		return err
	})
	c.do("admin", `{setUserWriteBlockMode: 1, global: false}`) // waits for what is undone
	for name := range c.shards {
		if n := c.mode(name); n != 1 {
			t.Errorf("after one that failed %s has mode %d", name, n)
		}
	}
	c.fill("c", 200, 300)

	// A shard that leaves takes no block along.
	c.do("admin", `{setUserWriteBlockMode: 1, global: true}`)
	until("a shard that leaves", func() error {
		reply, err := c.try("admin", `{removeShard: "s2"}`)
		if err == nil && reply.Lookup("state").String() != `"completed"` {
			err = fmt.Errorf("%s", reply)
		}
		return err
	})
	if n := c.mode("s2"); n != 1 {
		t.Errorf("the shard that has left has mode %d", n)
	}
	c.do("admin", `{setUserWriteBlockMode: 1, global: false}`)
}

// TestClusterParameters: a parameter of the cluster is the same on all shards and on the router,
// also on a shard that is added later.
func TestClusterParameters(t *testing.T) {
	c := newCluster(t, 1)
	value := func(reply bson.Doc) bson.Doc {
		return reply.Lookup("clusterParameters").Doc().Lookup("0").Doc()
	}
	c.do("admin", `{setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 100}}}}`)
	c.do("admin", `{setClusterParameter: {defaultMaxTimeMS: {readOperations: 50}}}`)
	address := c.startSet("s1", "--shardsvr")
	c.shards["s1"] = c.connect(address)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.try("admin", fmt.Sprintf(`{addShard: "s1/%s", name: "s1"}`, address))
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	const ask = `{getClusterParameter: "changeStreamOptions"}`
	want := value(c.do("admin", ask))
	if n := want.Lookup("preAndPostImages").Doc().Lookup("expireAfterSeconds").Int64(); n != 100 || want.Lookup("clusterParameterTime").Timestamp() == 0 {
		t.Errorf("%s", want)
	}
	for name := range c.shards {
		if got := value(c.on(name, "admin", ask)); got.String() != want.String() {
			t.Errorf("%s has %s instead of %s", name, got, want)
		}
		if _, err := c.shards[name].Run(t.Context(), "admin", bson.MustParse(`{setClusterParameter: {defaultMaxTimeMS: {readOperations: 1}}}`)); !mongoerr.Is(err, mongoerr.NotImplemented) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c.fill("c", 0, 10)
	slow := `{find: "c", filter: {$expr: {$lt: [{$size: {$range: [0, 3000000]}}, 0]}}}`
	c.refused("app", slow, mongoerr.MaxTimeMSExpired)
	if n := len(c.do("admin", `{getClusterParameter: "*"}`).Lookup("clusterParameters").Doc().Slice()); n != 5 {
		t.Errorf("%d parameters", n)
	}
	c.refused("admin", `{setClusterParameter: {none: {}}}`, mongoerr.NoSuchKey)
	c.refused("admin", `{setClusterParameter: {defaultMaxTimeMS: 1}}`, mongoerr.BadValue)
	c.refused("app", `{setClusterParameter: {defaultMaxTimeMS: {readOperations: 1}}}`, mongoerr.Unauthorized)
	c.on("s1", "admin", `{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: ["_shardsvrSettings"], errorCode: 96}}`)
	c.refused("admin", `{setClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 7}}}}`, mongoerr.OperationFailed)
	c.do("admin", `{setClusterParameter: {defaultMaxTimeMS: {readOperations: 0}}}`) // waits for what is undone
	for name := range c.shards {
		if got := value(c.on(name, "admin", ask)); got.String() != want.String() {
			t.Errorf("after one that failed %s has %s instead of %s", name, got, want)
		}
	}
	// What is in effect everywhere is answered so, although the router cannot read it now.
	config := c.connect(c.config)
	for _, mode := range []string{"alwaysOn", "off"} {
		c.done("configureFailPoint")(config.Run(t.Context(), "admin", bson.MustParse(fmt.Sprintf(
			`{configureFailPoint: "failCommand", mode: "%s", data: {failCommands: ["find"], errorCode: 96}}`, mode))))
		c.do("admin", `{setClusterParameter: {defaultMaxTimeMS: {readOperations: 60000}}}`)
	}
}
