package router_test

import (
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// reshardWriter is a client with documents of its own, of which it knows what they are.
type reshardWriter struct {
	c       *realCluster
	conn    *client.Conn
	first   int // its _ids are from here on
	next    int
	session string
	txn     int64
	model   map[int][3]int // _id: x, y, n
}

func (c *realCluster) writer(first int) *reshardWriter {
	var id [16]byte
	_, _ = rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return &reshardWriter{c: c, conn: c.connect(c.address), first: first, session: fmt.Sprintf(`{"$uuid": "%x-%x-%x-%x-%x"}`, id[:4], id[4:6], id[6:8], id[8:10], id[10:]), model: map[int][3]int{}}
}

// write runs a statement, numbered as drivers do, twice where again says so: the second time
// it must do nothing, and say the same. It reports whether it was executed: not if the document would
// go to another shard, which needs a transaction.
func (w *reshardWriter) write(text string, again bool) (done bool) {
	w.txn++
	body := bson.MustParse(fmt.Sprintf(`{%s, lsid: {id: %s}, txnNumber: {"$numberLong": "%d"}}`, text, w.session, w.txn))
	for range map[bool]int{false: 1, true: 2}[again] {
		reply, err := w.conn.Run(w.c.t.Context(), "app", body)
		if strings.Contains(reply.Lookup("writeErrors").String(), "code: 20,") {
			return false
		}
		if w.c.t.Context().Err() != nil {
			return true
		}
		if err != nil || reply.Has("writeErrors") || bson.ClampToInt64(reply.Lookup("n")) != 1 {
			w.c.t.Errorf("%s: %v %s", text, err, reply)
		}
	}
	return true
}

// step makes one change, the i-th.
func (w *reshardWriter) step(i int) {
	again := i%3 == 0
	id := w.first + w.next
	w.write(fmt.Sprintf(`insert: "c", documents: [{_id: %d, x: %d, y: %d, n: 0, pad: "0123456789"}]`, id, id, -id), again)
	w.model[id] = [3]int{id, -id, 0}
	w.next++
	old := w.first + i*7%w.next
	d, ok := w.model[old]
	if !ok {
		return
	}
	switch i % 5 {
	case 0:
		w.write(fmt.Sprintf(`delete: "c", deletes: [{q: {_id: %d}, limit: 1}]`, old), again)
		delete(w.model, old)
		return
	case 1: // a change of one shard key
		d[0] = i * 31
		if !w.write(fmt.Sprintf(`update: "c", updates: [{q: {_id: %d, x: %d, y: %d}, u: {$set: {x: %d}}}]`, old, w.model[old][0], d[1], d[0]), again) {
			// as an application does it: it goes to another shard, under its _id
			w.write(fmt.Sprintf(`delete: "c", deletes: [{q: {_id: %d, x: %d, y: %d}, limit: 1}]`, old, w.model[old][0], d[1]), false)
			w.write(fmt.Sprintf(`insert: "c", documents: [{_id: %d, x: %d, y: %d, n: %d}]`, old, d[0], d[1], d[2]), false)
		}
	case 2: // and of the other
		d[1] = i * 17
		if !w.write(fmt.Sprintf(`update: "c", updates: [{q: {_id: %d, x: %d, y: %d}, u: {$set: {y: %d}}}]`, old, d[0], w.model[old][1], d[1]), again) {
			d[1] = w.model[old][1]
		}
	default:
		d[2]++
		w.write(fmt.Sprintf(`update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: 1}}}]`, old), again)
	}
	w.model[old] = d
}

// TestReshardCollection: a collection gets one shard key after the other while clients
// insert, update and delete, change both shard keys, and send statements again, and while
// documents expire. Nothing is lost, doubled or executed twice, and what has expired stays away.
func TestReshardCollection(t *testing.T) {
	c := newCluster(t, 3)
	for _, shard := range []string{"s0", "s1", "s2"} {
		c.on(shard, "admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`)
	}
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {n: 1}, name: "n_1"}, {key: {at: 1}, name: "at_1", expireAfterSeconds: 0}]}`)
	writers := []*reshardWriter{c.writer(1_000_000), c.writer(2_000_000), c.writer(3_000_000)}
	for i := range 100 {
		for _, w := range writers {
			w.step(i)
		}
	}
	uuid := c.do("config", `{find: "collections", filter: {_id: "app.c"}}`).String()
	stop, running := make(chan struct{}), sync.WaitGroup{}
	for _, w := range writers {
		running.Go(func() {
			for i := 100; ; i++ {
				select {
				case <-stop:
					return
				default:
					w.step(i)
				}
			}
		})
	}
	expiring := c.connect(c.address)
	running.Go(func() { // what comes due in the next second
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				text := fmt.Sprintf(`{insert: "c", documents: [{_id: %d, x: %d, y: %d, at: {"$date": {"$numberLong": "%d"}}}]}`, -i-1, i, i, time.Now().Add(time.Second).UnixMilli())
				if reply, err := expiring.Run(t.Context(), "app", bson.MustParse(text)); err != nil || reply.Has("writeErrors") {
					t.Errorf("%v %s", err, reply)
				}
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	for _, command := range []string{
		`{reshardCollection: "app.c", key: {y: "hashed"}}`,
		`{reshardCollection: "app.c", key: {x: 1}, numInitialChunks: 7}`,
		`{reshardCollection: "app.c", key: {y: 1, _id: 1}, numInitialChunks: 5}`,
		`{reshardCollection: "app.c", key: {y: 1, x: "hashed"}}`,
		`{reshardCollection: "app.c", key: {y: 1, x: "hashed"}, forceRedistribution: true, shardDistribution: [{shard: "s2"}]}`,
		`{reshardCollection: "app.c", key: {_id: "hashed"}, numInitialChunks: 9}`,
	} {
		if strings.Contains(command, "numInitialChunks: 7") { // copying takes long: logs are read meanwhile
			c.hold("s0", "_shardsvrDonate", 2)
			c.hold("s1", "_shardsvrDonate", 2)
		}
		reply := c.do("admin", command)
		t.Logf("%s: %s", command, reply)
		if !reply.Has("writesBlockedMillis") {
			t.Errorf("%s does not say how long writes were blocked: %s", command, reply)
		}
	}
	close(stop)
	running.Wait()
	c.checkResharded(writers)
	now := c.do("config", `{find: "collections", filter: {_id: "app.c"}}`).String()
	if now == uuid || !strings.Contains(now, `key: { _id: "hashed" }`) {
		t.Errorf("config.collections had %s, has %s", uuid, now)
	}
	if n := bson.ClampToInt64(c.do("config", `{count: "chunks"}`).Lookup("n")); n != 9 {
		t.Errorf("%d chunks", n)
	}
	var names []string
	for _, v := range c.do("app", `{listIndexes: "c"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		names = append(names, v.Doc().Lookup("name").Str())
	}
	for _, want := range []string{"n_1", "at_1", "_id_hashed"} {
		if !slices.Contains(names, want) {
			t.Errorf("indexes %s, and no %s", names, want)
		}
	}
}

// TestReshardByID: the new key has _id, whole or a field of it, and others.
func TestReshardByID(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	var docs []string
	for i := range 100 {
		docs = append(docs, fmt.Sprintf(`{_id: {p: %d}, x: %d}`, i, i%10))
	}
	c.do("app", `{insert: "c", documents: [`+strings.Join(docs, ", ")+`]}`)
	for _, key := range []string{`{x: 1, _id: 1}`, `{_id: 1, x: 1}`, `{"_id.p": 1, x: 1}`, `{"_id.p": "hashed"}`} {
		c.do("admin", `{reshardCollection: "app.c", key: `+key+`, numInitialChunks: 4}`)
		if n := bson.ClampToInt64(c.do("config", `{count: "chunks"}`).Lookup("n")); n != 4 {
			t.Errorf("%s: %d chunks", key, n)
		}
		if n := bson.ClampToInt64(c.do("app", `{count: "c", query: {x: {$gte: 0}}}`).Lookup("n")); n != 100 {
			t.Errorf("%s: %d documents", key, n)
		}
		for name := range c.shards {
			if v := c.on(name, "app", `{validate: "c", full: true}`); !v.Lookup("valid").Truthy() {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
}

// checkResharded demands that app.c has what its writers know, once, on its shards, and
// nothing else.
func (c *realCluster) checkResharded(writers []*reshardWriter) {
	t := c.t
	t.Helper()
	want := map[int][3]int{}
	for _, w := range writers {
		maps.Copy(want, w.model)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if n := bson.ClampToInt64(c.do("app", `{count: "c", query: {at: {$exists: true}}}`).Lookup("n")); n == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d documents do not expire", n)
		}
	}
	found := 0
	for _, v := range c.do("app", `{find: "c", batchSize: 1000000}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		d := v.Doc()
		id := int(d.Lookup("_id").Int32())
		got := [3]int{int(d.Lookup("x").Int32()), int(d.Lookup("y").Int32()), int(d.Lookup("n").Int32())}
		if have, ok := want[id]; !ok || have != got {
			t.Errorf("%d is %v, want %v %t", id, got, have, ok)
		}
		found++
	}
	if found != len(want) {
		t.Errorf("%d documents, want %d", found, len(want))
	}
	on := int64(0)
	for name := range c.shards {
		on += bson.ClampToInt64(c.on(name, "app", `{count: "c"}`).Lookup("n"))
		for _, v := range c.on(name, "app", `{listCollections: 1}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
			if coll := v.Doc().Lookup("name").Str(); strings.HasPrefix(coll, "system.resharding") {
				t.Errorf("%s still has %s", name, coll)
			}
		}
		if strings.Contains(c.on(name, "app", `{listCollections: 1}`).String(), `"c"`) {
			if v := c.on(name, "app", `{validate: "c", full: true}`); !v.Lookup("valid").Truthy() {
				t.Errorf("%s: %s", name, v)
			}
		}
	}
	if on != int64(len(want)) {
		t.Errorf("the shards have %d documents together, want %d", on, len(want))
	}
	t.Logf("%d documents", found)
}

// TestReshardRefused: what cannot be resharded says why, and stays as it is.
func TestReshardRefused(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	c.do("admin", `{split: "app.c", middle: {x: 50}}`)
	c.do("admin", `{moveChunk: "app.c", find: {x: 50}, to: "s1"}`)
	c.fill("c", 0, 100)
	c.do("app", `{insert: "plain", documents: [{_id: 1}]}`)
	c.do("admin", `{shardCollection: "app.u", key: {x: 1}, unique: true}`)
	for _, x := range []struct {
		command string
		code    mongoerr.Code
	}{
		{`{reshardCollection: "app.c"}`, 40414},
		{`{reshardCollection: "app.c", key: {}}`, 2},
		{`{reshardCollection: "app.c", key: {y: -1}}`, 2},
		{`{reshardCollection: "app.c", key: {y: 1}, unique: true}`, 2},
		{`{reshardCollection: "app.c", key: {y: 1}, collation: {locale: "fr"}}`, 2},
		{`{reshardCollection: "app.c", key: {y: 1}, zones: [{zone: "none", min: {y: 1}, max: {y: 2}}]}`, 177},
		{`{reshardCollection: "app.c", key: {y: 1}, forceRedistribution: true}`, 72},
		{`{reshardCollection: "app.c", key: {y: 1}, shardDistribution: [{shard: "none"}]}`, 70},
		{`{reshardCollection: "app.c", key: {y: 1}, shardDistribution: [{shard: "s0", min: {y: {"$minKey": 1}}, max: {y: 5}}]}`, 72},
		{`{reshardCollection: "app.c", key: {z: 1}, numInitialChunks: 3}`, 4952606},
		{`{reshardCollection: "app.u", key: {y: 1}}`, 72},
		{`{reshardCollection: "app.plain", key: {y: 1}}`, 118},
		{`{reshardCollection: "app.none", key: {y: 1}}`, 118},
		{`{reshardCollection: "none.c", key: {y: 1}}`, 26},
		{`{reshardCollection: "config.chunks", key: {y: 1}}`, 20},
		{`{reshardCollection: "app.c", key: {y: 1}, wrong: 1}`, 40415},
		{`{commitReshardCollection: "app.c"}`, 339},
		{`{abortReshardCollection: "app.c"}`, 339},
	} {
		if reply, err := c.try("admin", x.command); !mongoerr.Is(err, x.code) {
			t.Errorf("%s: %v %s, want %d", x.command, err, reply, x.code)
		}
	}
	// Two documents with one _id do not fit on one shard.
	c.do("app", `{insert: "c", documents: [{_id: "two", x: 1, y: 1}]}`)
	c.do("app", `{insert: "c", documents: [{_id: "two", x: 60, y: 1}]}`)
	if _, err := c.try("admin", `{reshardCollection: "app.c", key: {y: 1}, numInitialChunks: 1}`); !mongoerr.Is(err, mongoerr.DuplicateKey) {
		t.Error(err)
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "c"}`).Lookup("n")); n != 102 {
		t.Errorf("%d documents", n)
	}
	c.do("app", `{delete: "c", deletes: [{q: {_id: "two", x: 60}, limit: 1}]}`)
	c.do("admin", `{addShardToZone: "s1", zone: "high"}`)
	c.do("admin", `{updateZoneKeyRange: "app.c", min: {x: 70}, max: {x: 80}, zone: "high"}`)
	if _, err := c.try("admin", `{reshardCollection: "app.c", key: {y: 1}}`); !mongoerr.Is(err, mongoerr.BadValue) {
		t.Error(err)
	}
	c.do("admin", `{reshardCollection: "app.c", key: {y: 1}, zones: [{zone: "high", min: {y: 30}, max: {y: 40}}]}`)
	if got := batch(c.do("config", `{find: "tags", projection: {_id: 0}}`)); got != `[ { ns: "app.c", min: { y: 30 }, max: { y: 40 }, tag: "high" } ]` {
		t.Error(got)
	}
	if n := bson.ClampToInt64(c.on("s1", "app", `{count: "c", query: {y: {$gte: 30, $lt: 40}}}`).Lookup("n")); n != 10 {
		t.Errorf("%d documents of the zone on its shard", n)
	}
	if reply := c.do("admin", `{reshardCollection: "app.c", key: {y: 1}}`); reply.Has("writesBlockedMillis") {
		t.Errorf("the same key again: %s", reply)
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "c"}`).Lookup("n")); n != 101 {
		t.Errorf("%d documents", n)
	}
}

// hold has a shard answer a request only after some seconds.
func (c *realCluster) hold(shard, request string, seconds int) {
	c.t.Helper()
	c.on(shard, "admin", fmt.Sprintf(`{configureFailPoint: "failCommand", mode: {times: 1}, data: {failCommands: [%q], blockConnection: true, blockTimeMS: %d}}`, request, seconds*1000))
}

// TestReshardAbort: a resharding in progress is shown, keeps others away, and can be undone
// or hurried.
func TestReshardAbort(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.do("admin", `{shardCollection: "app.d", key: {x: "hashed"}}`)
	c.fill("c", 0, 500)
	c.fill("d", 0, 500)
	other := c.connect(c.address)
	begin := func() chan error {
		ended := make(chan error, 1)
		c.hold("s0", "_shardsvrDonate", 8)
		go func() {
			_, err := other.Run(t.Context(), "admin", bson.MustParse(`{reshardCollection: "app.c", key: {y: 1}, numInitialChunks: 4}`))
			ended <- err
		}()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			all := c.do("admin", `{currentOp: 1, desc: {$regex: "^Resharding"}}`).String()
			if strings.Contains(all, `coordinatorState: "cloning"`) && strings.Contains(all, `recipientState: "cloning"`) && strings.Contains(all, "remainingOperationTimeEstimatedSecs") {
				return ended
			}
			if time.Now().After(deadline) {
				t.Fatal(all)
			}
		}
	}
	ended := begin()
	if _, err := c.try("admin", `{reshardCollection: "app.c", key: {z: 1}}`); !mongoerr.Is(err, 338) {
		t.Error(err)
	}
	c.do("admin", `{reshardCollection: "app.d", key: {y: 1}, numInitialChunks: 4}`) // at the same time
	if _, err := c.try("app", `{createIndexes: "c", indexes: [{key: {z: 1}, name: "z_1"}]}`); !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Error(err)
	}
	c.do("admin", `{abortReshardCollection: "app.c"}`)
	if err := <-ended; !mongoerr.Is(err, 341) {
		t.Error(err)
	}
	if got := c.do("config", `{find: "collections", filter: {_id: "app.c"}}`).String(); !strings.Contains(got, `key: { x: "hashed" }`) {
		t.Error(got)
	}
	c.do("app", `{update: "c", updates: [{q: {}, u: {$set: {z: 1}}, multi: true}]}`)
	ended = begin()
	c.do("admin", `{commitReshardCollection: "app.c"}`)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for _, coll := range []string{"c", "d"} {
		if n := bson.ClampToInt64(c.do("app", `{count: "`+coll+`"}`).Lookup("n")); n != 500 {
			t.Errorf("%s has %d documents", coll, n)
		}
	}
	if n := bson.ClampToInt64(c.do("app", `{count: "c", query: {z: 1}}`).Lookup("n")); n != 500 {
		t.Errorf("%d documents were updated", n)
	}
	if n := bson.ClampToInt64(c.do("config", `{count: "chunks"}`).Lookup("n")); n != 8 {
		t.Errorf("%d chunks", n)
	}
}
