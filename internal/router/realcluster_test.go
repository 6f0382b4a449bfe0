package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// realCluster is config servers, shards s0 and on, and a router, all in this process.
type realCluster struct {
	t       *testing.T
	address string // of the router
	config  string // of the config server
	router  *client.Conn
	shards  map[string]*client.Conn
}

func (c *realCluster) connect(address string) *client.Conn {
	conn, err := client.Connect(c.t.Context(), client.Options{Address: address})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// newCluster starts a cluster. All of its servers get the arguments.
func newCluster(t *testing.T, shards int, args ...string) *realCluster {
	t.Helper()
	c := &realCluster{t: t, shards: map[string]*client.Conn{}}
	c.config = c.startSet("cfg", append([]string{"--configsvr"}, args...)...)
	c.address = servertest.StartRouter(t, append([]string{"--configdb", "cfg/" + c.config}, args...)...).Address
	c.router = c.connect(c.address)
	for i := range shards {
		c.addShard(fmt.Sprintf("s%d", i), args...)
	}
	c.do("admin", `{balancerStop: 1}`)
	return c
}

// addShard starts another shard, and adds it.
func (c *realCluster) addShard(name string, args ...string) {
	c.t.Helper()
	address := c.startSet(name, append([]string{"--shardsvr"}, args...)...)
	c.shards[name] = c.connect(address)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // until there are primaries
		_, err := c.try("admin", fmt.Sprintf(`{addShard: "%s/%s", name: %q}`, name, address, name))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatal(err)
		}
	}
}

// startSet starts a set of one member, and returns its address.
func (c *realCluster) startSet(name string, args ...string) string {
	port := servertest.FreePort(c.t)
	return servertest.Start(c.t, append([]string{"--port", fmt.Sprint(port), "--replSet", name, "--initiate", "--advertise", fmt.Sprintf("127.0.0.1:%d", port),
		"--setParameter", "enableTestCommands=1"}, args...)...).Address
}

// try runs a command on the router.
func (c *realCluster) try(db, text string) (bson.Doc, error) {
	return c.router.Run(c.t.Context(), db, bson.MustParse(text))
}

// do runs a command on the router that succeeds.
func (c *realCluster) do(db, text string) bson.Doc {
	c.t.Helper()
	return c.done(text)(c.try(db, text))
}

// on runs a command on a shard itself that succeeds.
func (c *realCluster) on(shard, db, text string) bson.Doc {
	c.t.Helper()
	return c.done(text)(c.shards[shard].Run(c.t.Context(), db, bson.MustParse(text)))
}

func (c *realCluster) done(text string) func(bson.Doc, error) bson.Doc {
	return func(reply bson.Doc, err error) bson.Doc {
		c.t.Helper()
		if err != nil || reply.Has("writeErrors") {
			c.t.Fatalf("%s: %v %s", text, err, reply)
		}
		return reply
	}
}

// batch is the first batch of a reply, as text.
func batch(reply bson.Doc) string {
	return reply.Lookup("cursor").Doc().Lookup("firstBatch").String()
}

// fill inserts documents {_id, x, y} into a collection of app.
func (c *realCluster) fill(coll string, from, to int) {
	c.t.Helper()
	var docs []string
	for i := from; i < to; i++ {
		docs = append(docs, fmt.Sprintf(`{_id: %d, x: %d, y: %d}`, i, i, to-i))
	}
	c.do("app", fmt.Sprintf(`{insert: %q, documents: [%s]}`, coll, strings.Join(docs, ", ")))
}

// TestDropUnsharded: each kind of what is not sharded goes when it is dropped.
func TestDropUnsharded(t *testing.T) {
	c := newCluster(t, 1)
	for _, kind := range []string{`{create: "c"}`, `{create: "c", capped: true, size: 1000}`, `{create: "c", timeseries: {timeField: "t", metaField: "m"}}`, `{create: "c", viewOn: "d", pipeline: []}`} {
		c.do("app", kind)
		c.do("app", `{drop: "c"}`)
		if left := c.do("app", `{listCollections: 1, filter: {name: {$ne: "system.views"}}}`); batch(left) != "[]" {
			t.Errorf("%s: %s", kind, left)
		}
	}
	c.do("app", `{drop: "c"}`) // which is no error
}

// TestMovePrimary: what is not sharded goes to another shard as it is, of all kinds, and
// what is sharded stays; then the shard that was primary can be removed.
func TestMovePrimary(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for _, text := range []string{
		`{createIndexes: "plain", indexes: [{key: {x: 1}, name: "x_1", unique: true}, {key: {y: -1, x: 1}, name: "yx", partialFilterExpression: {y: {$gt: 5}}}, {key: {at: 1}, name: "at", expireAfterSeconds: 100000}]}`,
		`{create: "last", capped: true, size: 100000, max: 5}`,
		`{create: "strict", validator: {x: {$type: "string"}}, validationLevel: "off", collation: {locale: "en", strength: 2}}`,
		`{create: "clustered", clusteredIndex: {key: {_id: 1}, unique: true, name: "by id"}}`,
		`{create: "readings", timeseries: {timeField: "t", metaField: "m"}, expireAfterSeconds: 100000000}`,
		`{create: "even", viewOn: "plain", pipeline: [{$match: {$expr: {$eq: [{$mod: ["$x", 2]}, 0]}}}]}`,
		`{insert: "last", documents: [{_id: 9}, {_id: 8}, {_id: 7}, {_id: 6}, {_id: 5}, {_id: 4}]}`,
		`{insert: "strict", documents: [{_id: "b"}, {_id: "a", x: 1}]}`,
		`{insert: "clustered", documents: [{_id: 2}, {_id: 1}]}`,
		`{createIndexes: "readings", indexes: [{key: {m: 1, v: 1}, name: "mv"}]}`,
	} {
		c.do("app", text)
	}
	for i := range 30 {
		c.do("app", fmt.Sprintf(`{insert: "readings", documents: [{_id: %d, t: {"$date": "2026-01-01T00:00:%02dZ"}, m: %d, v: %d}]}`, i, i, i%3, i))
	}
	c.do("admin", `{shardCollection: "app.spread", key: {x: "hashed"}}`)
	c.fill("spread", 0, 100)
	for i := range 10 {
		c.fill("plain", 1000*i, 1000*(i+1))
	}
	look := func() (all []string) {
		for _, text := range []string{
			`{listCollections: 1, filter: {name: {$ne: "system.views"}}}`, `{listIndexes: "plain"}`, `{listIndexes: "strict"}`, `{listIndexes: "clustered"}`, `{listIndexes: "readings"}`,
			`{find: "plain", sort: {_id: 1}, batchSize: 20000}`, `{find: "last"}`, `{find: "strict", sort: {_id: 1}}`, `{find: "clustered"}`,
			`{find: "readings", sort: {t: 1}, batchSize: 100}`, `{find: "even", sort: {_id: 1}, batchSize: 20000}`, `{find: "spread", sort: {_id: 1}, batchSize: 200}`,
			`{aggregate: "readings", pipeline: [{$group: {_id: "$m", n: {$sum: "$v"}}}, {$sort: {_id: 1}}], cursor: {}}`,
		} {
			all = append(all, shown(text+"\n"+batch(c.do("app", text))))
		}
		return all
	}
	before := look()
	if _, err := c.try("admin", `{movePrimary: "app", to: "none"}`); !mongoerr.Is(err, mongoerr.ShardNotFound) {
		t.Error(err)
	}
	c.do("admin", `{movePrimary: "app", to: "s0"}`)
	c.do("admin", `{movePrimary: "app", to: "s1"}`)
	for i, after := range look() {
		if after != before[i] {
			t.Errorf("before:\n%.2000s\nafter:\n%.2000s", before[i], after)
		}
	}
	for _, v := range c.on("s0", "app", `{listCollections: 1, nameOnly: true}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		if name := v.Doc().Lookup("name").Str(); name != "spread" && name != "system.views" {
			t.Errorf("the donor still has %s", name)
		}
	}
	c.fill("plain", 10_000, 10_001)
	if _, err := c.try("app", `{insert: "plain", documents: [{_id: -1, x: 7}]}`); err != nil {
		t.Error(err)
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "plain"}`).Lookup("n")); n != 10_001 {
		t.Errorf("%d documents", n)
	}
	// The one that was primary can go.
	c.do("admin", `{removeShard: "s0"}`)
	for _, lo := range []string{`{"$minKey": 1}`, `{"$numberLong": "-4611686018427387902"}`, `{"$numberLong": "0"}`, `{"$numberLong": "4611686018427387902"}`} {
		c.do("admin", `{moveRange: "app.spread", min: {x: `+lo+`}, toShard: "s1"}`)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // what was given away goes first
		reply, err := c.try("admin", `{removeShard: "s0"}`)
		if err == nil && reply.Lookup("state").String() == `"completed"` {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(reply, err)
		}
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "spread"}`).Lookup("n")); n != 100 {
		t.Errorf("%d documents", n)
	}
}

// TestMoveCollection: a collection that is not sharded goes to a shard of its own choice and
// back while a client counts in it; its indexes follow, also those that were made or dropped
// while it was away.
func TestMoveCollection(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("app", `{createIndexes: "plain", indexes: [{key: {x: 1}, name: "x_1", unique: true}]}`)
	c.fill("plain", 0, 1000)
	c.do("app", `{create: "capped", capped: true, size: 10000}`)
	c.do("app", `{create: "view", viewOn: "plain", pipeline: []}`)
	for name, code := range map[string]mongoerr.Code{"capped": mongoerr.InvalidOptions, "view": mongoerr.CommandNotSupportedOnView, "none": mongoerr.NamespaceNotFound} {
		if _, err := c.try("admin", fmt.Sprintf(`{moveCollection: "app.%s", toShard: "s1"}`, name)); !mongoerr.Is(err, code) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop, counted := make(chan struct{}), make(chan int)
	other, count := c.connect(c.address), bson.MustParse(`{update: "plain", updates: [{q: {_id: 7}, u: {$inc: {n: 1}}}]}`)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				counted <- n
				return
			default:
				reply, err := other.Run(t.Context(), "app", count)
				if err != nil || reply.Lookup("nModified").Int32() != 1 {
					t.Errorf("%v %s", err, reply)
					<-stop
					counted <- n
					return
				}
				n++
			}
		}
	}()
	indexes := func() (names []string) {
		for _, v := range c.do("app", `{listIndexes: "plain"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
			names = append(names, v.Doc().Lookup("name").Str())
		}
		return names
	}
	for i, step := range []struct{ to, command, want string }{
		{"s1", `{createIndexes: "plain", indexes: [{key: {y: 1}, name: "y_1"}]}`, "[_id_ x_1 y_1]"},
		{"s2", `{createIndexes: "plain", indexes: [{key: {z: 1}, name: "z_1"}]}`, "[_id_ x_1 y_1 z_1]"},
		{"s1", `{dropIndexes: "plain", index: "y_1"}`, "[_id_ x_1 z_1]"},
		{"s0", `{ping: 1}`, "[_id_ x_1 z_1]"},
	} {
		c.do("admin", fmt.Sprintf(`{moveCollection: "app.plain", toShard: %q}`, step.to))
		c.do("app", step.command)
		if got := fmt.Sprint(indexes()); got != step.want {
			t.Errorf("step %d: indexes %s, want %s", i, got, step.want)
		}
		if n := bson.ClampToInt64(c.do("app", `{count: "plain"}`).Lookup("n")); n != 1000 {
			t.Errorf("step %d: %d documents", i, n)
		}
		if got := batch(c.do("app", `{aggregate: "view", pipeline: [{$match: {_id: {$lt: 2}}}, {$lookup: {from: "plain", localField: "x", foreignField: "_id", as: "a"}}, {$project: {n: {$size: "$a"}}}, {$sort: {_id: 1}}], cursor: {}}`)); got != "[ { _id: 0, n: 1 }, { _id: 1, n: 1 } ]" {
			t.Errorf("step %d: %s", i, got)
		}
	}
	if _, err := c.try("app", `{insert: "plain", documents: [{_id: "u", x: 7}]}`); err != nil {
		t.Error(err)
	}
	c.do("admin", `{untrackUnshardedCollection: "app.plain"}`)
	close(stop)
	n := <-counted
	want := fmt.Sprintf("[ { _id: 7, n: %d } ]", n)
	if got := batch(c.do("app", `{find: "plain", filter: {_id: 7}, projection: {n: 1}}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := batch(c.do("config", `{find: "collections"}`)); got != "[  ]" && got != "[]" {
		t.Errorf("config.collections has %s", got)
	}
	t.Logf("%d increments", n)
}

// TestUnshardCollection: all of a sharded collection comes to one shard, where it is one that
// is not sharded, while a client counts in it.
func TestUnshardCollection(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.fill("c", 0, 1000)
	stop, counted := make(chan struct{}), make(chan [2]int)
	other := c.connect(c.address)
	go func() {
		n := [2]int{}
		for i := 0; ; i++ {
			select {
			case <-stop:
				counted <- n
				return
			default:
				body := bson.MustParse(fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: 1}}}]}`, i%2))
				if reply, err := other.Run(t.Context(), "app", body); err != nil || reply.Lookup("nModified").Int32() != 1 {
					t.Errorf("%v %s", err, reply)
					<-stop
					counted <- n
					return
				}
				n[i%2]++
			}
		}
	}()
	c.do("admin", `{unshardCollection: "app.c", toShard: "s2"}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1", unique: true}]}`) // which no hashed key would let be
	close(stop)
	n := <-counted
	want := fmt.Sprintf("[ { _id: 0, n: %d }, { _id: 1, n: %d } ]", n[0], n[1])
	if got := batch(c.do("app", `{find: "c", filter: {_id: {$lt: 2}}, projection: {n: 1}, sort: {_id: 1}}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "c"}`).Lookup("n")); n != 1000 {
		t.Errorf("%d documents", n)
	}
	if n := bson.ClampToInt64(c.on("s2", "app", `{count: "c"}`).Lookup("n")); n != 1000 {
		t.Errorf("%d documents on s2", n)
	}
	c.do("app", `{update: "c", updates: [{q: {}, u: {$set: {x: 1}}, multi: true}]}`) // it has no shard key any more
	c.do("admin", `{moveCollection: "app.c", toShard: "s0"}`)
	c.do("admin", `{untrackUnshardedCollection: "app.c"}`)
	if n := bson.ClampToInt64(c.do("app", `{count: "c", query: {x: 1}}`).Lookup("n")); n != 1000 {
		t.Errorf("%d documents", n)
	}
	t.Log(n)
}

// TestRename: nothing that has a name loses it to a collection that is renamed, sharded or
// not, unless the client says so.
func TestRename(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	c.do("admin", `{split: "app.c", middle: {x: 10}}`)
	c.do("admin", `{moveChunk: "app.c", find: {x: 10}, to: "s1"}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, x: 1}, {_id: 2, x: 20}, {_id: 3, x: 30}]}`)
	c.do("app", `{insert: "u", documents: [{_id: 1}, {_id: 2}]}`)
	c.do("app", `{insert: "v", documents: [{_id: 1}]}`)
	c.do("app", `{create: "w", viewOn: "u", pipeline: []}`)
	c.do("admin", `{enableSharding: "other", primaryShard: "s1"}`)
	count := func(coll string, want int64) {
		t.Helper()
		if n := bson.ClampToInt64(c.do("app", `{count: "`+coll+`"}`).Lookup("n")); n != want {
			t.Errorf("%s has %d documents, want %d", coll, n, want)
		}
	}
	for _, x := range []struct {
		from, to string
		code     mongoerr.Code
	}{
		{"app.v", "app.u", mongoerr.NamespaceExists},
		{"app.c", "app.u", mongoerr.NamespaceExists},
		{"app.c", "app.w", mongoerr.NamespaceExists},
		{"app.u", "app.w", mongoerr.NamespaceExists},
		{"app.none", "app.x", mongoerr.NamespaceNotFound},
		{"app.w", "app.x", mongoerr.CommandNotSupportedOnView},
		{"app.u", "none.u", mongoerr.NamespaceNotFound},
		{"app.u", "other.u", mongoerr.CommandFailed},
		{"app.c", "other.c", mongoerr.CommandFailed},
	} {
		if _, err := c.try("admin", `{renameCollection: "`+x.from+`", to: "`+x.to+`"}`); !mongoerr.Is(err, x.code) {
			t.Errorf("%s to %s: %v", x.from, x.to, err)
		}
	}
	count("c", 3)
	count("u", 2)
	count("v", 1)
	uuid := func(coll string) string {
		list := c.do("app", `{listCollections: 1, filter: {name: "`+coll+`"}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
		return list.Lookup("0").Doc().Lookup("info").Doc().Lookup("uuid").String()
	}
	other := `{$binary: {base64: "AAAAAAAAAAAAAAAAAAAAAA==", subType: "04"}}`
	for _, x := range []struct {
		options string
		code    mongoerr.Code
	}{
		{`to: "app.u", dropTarget: ` + other, mongoerr.CollectionUUIDMismatch},
		{`to: "app.new", dropTarget: ` + other, mongoerr.CollectionUUIDMismatch},
		{`to: "app.new", collectionUUID: ` + other, mongoerr.CollectionUUIDMismatch},
		{`to: "more.u", dropTarget: ` + other, mongoerr.InvalidOptions},
		{`to: "app.u", dropTarget: {$binary: {base64: "AAAA", subType: "04"}}`, mongoerr.InvalidUUID},
		{`to: "app.u", dropTarget: 1`, mongoerr.TypeMismatch},
		{`to: "app.new", stayTemp: 1`, mongoerr.TypeMismatch},
	} {
		for _, from := range []string{"c", "v"} {
			if _, err := c.try("admin", `{renameCollection: "app.`+from+`", `+x.options+`}`); !mongoerr.Is(err, x.code) {
				t.Errorf("%s, %s: %v", from, x.options, err)
			}
		}
	}
	c.do("admin", `{renameCollection: "app.v", to: "app.u", dropTarget: `+uuid("u")+`, stayTemp: true}`)
	count("v", 0)
	count("u", 1)
	c.do("admin", `{renameCollection: "app.c", to: "app.u", dropTarget: true}`)
	count("c", 0)
	count("u", 3)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("app", `{insert: "c", documents: [{_id: 1}, {_id: 2}, {_id: 3}, {_id: 4}]}`)
	c.do("admin", `{renameCollection: "app.c", to: "app.u", dropTarget: true}`)
	count("c", 0)
	count("u", 4)
}

// TestIndexesRefused: an index that one shard cannot build is on none of them, and the
// command ends with that shard's error.
func TestIndexesRefused(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	c.do("admin", `{split: "app.c", middle: {x: 10}}`)
	c.do("admin", `{moveChunk: "app.c", find: {x: 10}, to: "s1"}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, x: 1, y: 1}, {_id: 2, x: 20, y: 1}, {_id: 3, x: 20, y: 1}]}`)
	if _, err := c.try("app", `{createIndexes: "c", indexes: [{key: {x: 1, y: 1}, name: "xy", unique: true}, {key: {y: 1}, name: "y"}]}`); !mongoerr.Is(err, mongoerr.DuplicateKey) {
		t.Errorf("an index that is not unique on one shard: %v", err)
	}
	if _, err := c.try("app", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y", unique: true}]}`); !mongoerr.Is(err, mongoerr.CannotCreateIndex) {
		t.Errorf("an index that is not unique over all shards: %v", err)
	}
	for _, shard := range []string{"s0", "s1"} {
		if got := c.on(shard, "app", `{listIndexes: "c"}`).String(); strings.Contains(got, `"xy"`) || strings.Contains(got, `"y"`) {
			t.Errorf("%s has %s", shard, got)
		}
	}
}

// TestAnalyzeShardKey: what is said of keys is what the documents of all shards have.
func TestAnalyzeShardKey(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {g: 1, y: 1}, name: "gy"}]}`)
	for i := range 100 {
		c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, x: %d, y: %d, g: %d}]}`, i, i, 100-i, i%10/4))
	}
	c.do("app", `{create: "view", viewOn: "c", pipeline: []}`)
	for _, x := range []struct{ command, want string }{
		{`{analyzeShardKey: "app.c", key: {g: 1}}`, `{ keyCharacteristics: { numDocsTotal: 100, numOrphanDocs: 0, avgDocSizeBytes: 35, numDocsSampled: 100, isUnique: false, numDistinctValues: 3, ` +
			`mostCommonValues: [ { value: { g: 0 }, frequency: 40 }, { value: { g: 1 }, frequency: 40 }, { value: { g: 2 }, frequency: 20 } ], monotonicity: { type: "unknown" } }, ` +
			`readDistribution: { sampleSize: { total: 0, find: 0, aggregate: 0, count: 0, distinct: 0 } }, writeDistribution: { sampleSize: { total: 0, update: 0, delete: 0, findAndModify: 0 } }`},
		{`{analyzeShardKey: "app.c", key: {x: "hashed"}, readWriteDistribution: false, sampleSize: 10}`, `{ keyCharacteristics: { numDocsTotal: 100, numOrphanDocs: 0, avgDocSizeBytes: 35, numDocsSampled: 10, isUnique: false, numDistinctValues: 10, `},
		{`{analyzeShardKey: "app.c", key: {_id: 1}, readWriteDistribution: false, sampleRate: 1}`, `{ keyCharacteristics: { numDocsTotal: 100, numOrphanDocs: 0, avgDocSizeBytes: 35, numDocsSampled: 100, isUnique: true, numDistinctValues: 100, `},
		{`{analyzeShardKey: "app.c", key: {z: 1}}`, "20"},
		{`{analyzeShardKey: "app.view", key: {x: 1}}`, "166"},
		{`{analyzeShardKey: "app.none", key: {x: 1}}`, "26"},
		{`{analyzeShardKey: "config.c", key: {x: 1}}`, "20"},
		{`{analyzeShardKey: "app", key: {x: 1}}`, "73"},
		{`{analyzeShardKey: "app.c", key: {x: -1}}`, "2"},
		{`{analyzeShardKey: "app.c"}`, "40414"},
		{`{analyzeShardKey: "app.c", key: {x: 1}, keyCharacteristics: false, readWriteDistribution: false}`, "72"},
		{`{analyzeShardKey: "app.c", key: {x: 1}, sampleSize: 1, sampleRate: 0.5}`, "72"},
		{`{analyzeShardKey: "app.c", key: {x: 1}, sampleRate: 0}`, "2"},
		{`{analyzeShardKey: "app.c", key: {x: 1}, keyCharacteristics: false}`, `{ readDistribution: `},
	} {
		reply, err := c.try("admin", x.command)
		got := reply.String()
		if err != nil {
			got = fmt.Sprint(int32(mongoerr.From(err).Code))
		}
		if !strings.HasPrefix(got, x.want) {
			t.Errorf("%s\n got %s\nwant %s", x.command, got, x.want)
		}
	}
}
