package router_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// The tests here hold invariants of MongoDB's public specifications in TLA+ (src/mongo/tla_plus),
// and are named as these are: the specification, and the invariant. Each goes through the orders
// of events of a small world, on real servers.

// stmts is a transaction with statements by a router.
type stmts struct {
	c      *realCluster
	number int
	open   bool
	found  []string // what each statement has found
	err    error    // of the first that failed
}

// read executes one more statement, unless one has failed.
func (x *stmts) read(concern, coll string, id int) {
	if x.err != nil {
		return
	}
	start := ""
	if !x.open {
		start = `startTransaction: true, `
		if concern != "" {
			start += `readConcern: {level: "` + concern + `"}, `
		}
	}
	x.open = true
	var reply bson.Doc
	if reply, x.err = x.c.try("app", fmt.Sprintf(`{find: %q, filter: {_id: %d}, %s%s}`, coll, id, start, x.in())); x.err == nil {
		x.found = append(x.found, batch(reply))
	}
}

func (x *stmts) in() string {
	return fmt.Sprintf(`lsid: {id: {"$uuid": "00112233-4455-6677-8899-0000%08x"}}, txnNumber: {"$numberLong": "1"}, autocommit: false`, x.number)
}

// commit commits, and reports whether it did. An error is one that says: begin anew.
func (x *stmts) commit(t *testing.T) bool {
	t.Helper()
	if x.err == nil {
		_, x.err = x.c.try("admin", `{commitTransaction: 1, `+x.in()+`}`)
	}
	var e *mongoerr.Error
	if x.err != nil && (!errors.As(x.err, &e) || !slices.Contains(e.Labels, "TransientTransactionError")) {
		t.Errorf("the error has no label: %v", x.err)
	}
	return x.err == nil
}

// secondRouter is another router of the cluster: what it does, the first does not know.
func (c *realCluster) secondRouter() *client.Conn {
	c.t.Helper()
	return c.connect(servertest.StartRouter(c.t, "--configdb", "cfg/"+c.config).Address)
}

// TestTxnsMoveRange: a transaction reads a document of each of two collections, while the second
// one's moves to or from the shard of the first, before, between or behind the statements, known
// to the router or not. What is committed has seen both documents: a shard whose view of the data
// is older than what has moved to it refuses the statement. (TxnsMoveRange:
// CommittedTxnImpliesAllStmtsSuccessful, CommittedTxnImpliesKeysAreVisible.)
func TestTxnsMoveRange(t *testing.T) {
	c := newCluster(t, 2)
	other := c.secondRouter()
	elsewhere := func(text string) {
		t.Helper()
		c.done(text)(other.Run(t.Context(), "admin", bson.MustParse(text)))
	}
	move := func(coll string, id int, to int) {
		t.Helper()
		elsewhere(fmt.Sprintf(`{moveChunk: "app.%s", find: {_id: %d}, to: "s%d"}`, coll, id, to))
	}
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for _, coll := range []string{"a", "b"} {
		c.do("admin", `{shardCollection: "app.`+coll+`", key: {_id: 1}}`)
		c.do("admin", `{split: "app.`+coll+`", middle: {_id: 10}}`) // so that each shard has something now and then
		c.do("app", `{insert: "`+coll+`", documents: [{_id: 1}, {_id: 11}]}`)
	}
	number, committed, refused := 0, 0, 0
	for _, concern := range []string{"", "majority", "snapshot"} {
		for places := range 4 {
			a, b := places&1, places>>1
			for when := range 4 { // 0: before the first, unknown to the router; 3: before it, known
				number++
				move("a", 1, a)
				move("b", 1, b)
				c.do("app", `{find: "a"}`) // the router knows
				c.do("app", `{find: "b"}`)
				x := &stmts{c: c, number: number}
				if when == 0 || when == 3 {
					move("b", 1, 1-b)
				}
				if when == 3 {
					c.do("app", `{find: "b"}`)
				}
				x.read(concern, "a", 1)
				if when == 1 {
					move("b", 1, 1-b)
				}
				x.read(concern, "b", 1)
				if when == 2 {
					move("b", 1, 1-b)
				}
				if !x.commit(t) {
					refused++
					continue
				}
				committed++
				if got := fmt.Sprint(x.found); got != "[[ { _id: 1 } ] [ { _id: 1 } ]]" {
					t.Errorf("CommittedTxnImpliesKeysAreVisible: %q, a on s%d, b on s%d, moved at %d: %s", concern, a, b, when, got)
				}
			}
		}
	}
	t.Logf("%d committed, %d refused", committed, refused)
	if committed < number/2 || refused == 0 {
		t.Errorf("of %d transactions %d committed, %d were refused: that says little", number, committed, refused)
	}
}

// TestTxnsCollectionIncarnation: a transaction reads two documents of a collection that lie on two
// shards, or on one, while the collection is dropped and made again, or another one takes its
// name. What is committed has seen both of one and the same collection. (TxnsCollectionIncarnation:
// CommittedTxnImpliesConsistentKeySet.)
func TestTxnsCollectionIncarnation(t *testing.T) {
	c := newCluster(t, 2)
	other := c.secondRouter()
	fill := func(coll string, sharded bool, generation int) error {
		var all []string
		if sharded {
			all = append(all, `{shardCollection: "app.`+coll+`", key: {_id: 1}}`, `{split: "app.`+coll+`", middle: {_id: 10}}`, `{moveChunk: "app.`+coll+`", find: {_id: 10}, to: "s1"}`)
		}
		for _, text := range all {
			if _, err := other.Run(t.Context(), "admin", bson.MustParse(text)); err != nil {
				return err
			}
		}
		_, err := other.Run(t.Context(), "app", bson.MustParse(fmt.Sprintf(`{insert: %q, documents: [{_id: 1, g: %d}, {_id: 11, g: %d}]}`, coll, generation, generation)))
		return err
	}
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	number, committed := 0, 0
	for _, concern := range []string{"", "majority", "snapshot"} {
		for _, was := range []bool{false, true} {
			for _, is := range []bool{false, true} {
				for _, renamed := range []bool{false, true} {
					if renamed && was != is {
						continue
					}
					number++
					_, _ = c.try("app", `{drop: "c"}`)
					if err := fill("c", was, 1); err != nil {
						t.Fatal(err)
					}
					c.do("app", `{find: "c"}`)
					if renamed {
						_, _ = c.try("app", `{drop: "d"}`)
						if err := fill("d", is, 2); err != nil {
							t.Fatal(err)
						}
					}
					x := &stmts{c: c, number: 1000 + number}
					x.read(concern, "c", 1)
					ended := runs(func() error { // it waits for the transaction, where that has locked the collection
						if renamed {
							_, err := other.Run(t.Context(), "admin", bson.MustParse(`{renameCollection: "app.d", to: "app.c", dropTarget: true}`))
							return err
						}
						_, err := other.Run(t.Context(), "app", bson.MustParse(`{drop: "c", maxTimeMS: 300}`))
						if err != nil {
							return nil // the transaction comes first
						}
						return fill("c", is, 2)
					})
					x.read(concern, "c", 11)
					if x.commit(t) {
						committed++
						if got := fmt.Sprint(x.found); got != "[[ { _id: 1, g: 1 } ] [ { _id: 11, g: 1 } ]]" && got != "[[ { _id: 1, g: 2 } ] [ { _id: 11, g: 2 } ]]" {
							t.Errorf("CommittedTxnImpliesConsistentKeySet: %q, sharded %v, then %v, renamed %v: %s", concern, was, is, renamed, got)
						}
					}
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	t.Logf("%d of %d committed", committed, number)
}

// TestMoveRange: all documents of a collection are read in batches of one, while one of its three
// chunks moves: before the cursor is there, known to the router or not, or between two batches.
// (MoveRange: UniqueKeysReturned, PropertyAllKeysReturned; RoutingTableConsistent,
// ShardOwnershipConsistent, OwningShardsHaveNonZeroPlacementVersion and
// NotOwningShardsHaveZeroPlacementVersion after each move.)
func TestMoveRange(t *testing.T) {
	c := newCluster(t, 2)
	other := c.secondRouter()
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	keys := []int{1, 11, 21}
	for _, at := range []int{10, 20} {
		c.do("admin", fmt.Sprintf(`{split: "app.c", middle: {_id: %d}}`, at))
	}
	c.do("app", `{insert: "c", documents: [{_id: 1}, {_id: 11}, {_id: 21}]}`)
	at := map[int]string{}
	move := func(key int, to string) {
		t.Helper()
		text := fmt.Sprintf(`{moveChunk: "app.c", find: {_id: %d}, to: %q}`, key, to)
		c.done(text)(other.Run(t.Context(), "admin", bson.MustParse(text)))
		at[key] = to
		c.judgePlacement(at)
	}
	number := 0
	for _, concern := range []string{"local", "majority", "snapshot"} {
		for _, moved := range keys {
			for when := range 4 { // 0: before, unknown to the router; 1: before, known; 2 and 3: behind as many batches less one
				number++
				for i, key := range keys {
					if to := fmt.Sprintf("s%d", number>>i&1); at[key] != to {
						move(key, to)
					}
				}
				c.do("app", `{find: "c"}`) // the router knows
				away := map[string]string{"s0": "s1", "s1": "s0"}[at[moved]]
				if when < 2 {
					move(moved, away)
				}
				if when == 1 {
					c.do("app", `{find: "c"}`)
				}
				cursor := c.do("app", fmt.Sprintf(`{find: "c", batchSize: 1, readConcern: {level: %q}}`, concern)).Lookup("cursor").Doc()
				var got []int
				for name, batches := "firstBatch", 1; ; name, batches = "nextBatch", batches+1 {
					for v := range cursor.Lookup(name).Doc().Values() {
						got = append(got, int(bson.ClampToInt64(v.Doc().Lookup("_id"))))
					}
					if when == batches+1 {
						move(moved, away)
					}
					id := cursor.Lookup("id").Int64()
					if id == 0 {
						break
					}
					cursor = c.do("app", fmt.Sprintf(`{getMore: {"$numberLong": "%d"}, collection: "c", batchSize: 1}`, id)).Lookup("cursor").Doc()
				}
				slices.Sort(got)
				if !slices.Equal(got, keys) {
					t.Errorf("UniqueKeysReturned, PropertyAllKeysReturned: %s, %d moves at %d: %v", concern, moved, when, got)
				}
			}
		}
	}
}

// judgePlacement holds what the config servers and the shards say of app.c against where its
// documents are to be.
func (c *realCluster) judgePlacement(at map[int]string) {
	c.t.Helper()
	type chunk struct{ min, max, shard string }
	var chunks []chunk
	owns := map[string]bool{}
	for v := range c.do("config", `{find: "chunks", sort: {min: 1}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		d := v.Doc()
		chunks = append(chunks, chunk{d.Lookup("min").String(), d.Lookup("max").String(), d.Lookup("shard").Str()})
		owns[d.Lookup("shard").Str()] = true
	}
	for i := range chunks {
		if i > 0 && chunks[i-1].max != chunks[i].min {
			c.t.Errorf("RoutingTableConsistent: %v", chunks)
		}
	}
	shown := map[int]string{}
	for shard := range c.shards {
		for v := range c.on(shard, "app", `{find: "c"}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
			key := int(bson.ClampToInt64(v.Doc().Lookup("_id")))
			if shown[key] != "" {
				c.t.Errorf("ShardOwnershipConsistent: %d is on %s and %s", key, shown[key], shard)
			}
			shown[key] = shard
		}
		stale, _ := c.shards[shard].Run(c.t.Context(), "app", bson.MustParse(`{find: "c", shardVersion: {e: {"$oid": "000000000000000000000000"}, t: {"$timestamp": {t: 0, i: 0}}, v: {"$timestamp": {t: 0, i: 0}}}}`))
		version := uint64(0)
		if v := stale.Lookup("vWanted"); v.Type != bson.TypeDocument {
			c.t.Fatalf("%s does not say its version: %s", shard, stale)
		} else if v = v.Doc().Lookup("v"); v.Type == bson.TypeTimestamp {
			version = v.Timestamp()
		}
		if owns[shard] != (version != 0) {
			c.t.Errorf("OwningShardsHaveNonZeroPlacementVersion, NotOwningShardsHaveZeroPlacementVersion: %s has the version %x, and owns something: %v", shard, version, owns[shard])
		}
	}
	for key, want := range at {
		if shown[key] != want {
			c.t.Errorf("%d is on %s and not on %s", key, shown[key], want)
		}
	}
}

// TestChangeStreamTopologyChange: a stream is opened at a time that is still to come; before that a
// shard is added, and behind it that shard's primary steps down and the shard leaves. What was
// written before the time is not told, all else once, and no token goes back.
// (ChangeStreamTopologyChange: NoEventBeforeResumeToken and MonotonicHighWatermark, which the
// watcher holds at each batch, and EventuallyDelivered.)
func TestChangeStreamTopologyChange(t *testing.T) {
	c := newCluster(t, 1)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	c.do("admin", `{split: "app.c", middle: {_id: 10}}`)
	begins := time.Now().Add(4 * time.Second).Unix()
	w := c.watch(c.router, "c", fmt.Sprintf(`startAtOperationTime: {"$timestamp": {t: %d, i: 1}}`, begins), "")
	c.addShard("s1")
	move := func(to string) { c.do("admin", fmt.Sprintf(`{moveChunk: "app.c", find: {_id: 11}, to: %q}`, to)) }
	move("s1")
	early := c.do("app", `{insert: "c", documents: [{_id: 1}, {_id: 11}]}`)
	if at := early.Lookup("operationTime").Timestamp() >> 32; int64(at) >= begins {
		t.Fatal("this machine is too slow")
	}
	for time.Now().Unix() <= begins {
		if err := w.more(); err != nil {
			t.Fatal(err)
		}
	}
	c.do("app", `{insert: "c", documents: [{_id: 2}, {_id: 12}]}`)
	c.on("s1", "admin", `{replSetStepDown: 1, secondaryCatchUpPeriodSecs: 0, force: true}`)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_, err := c.try("app", `{update: "c", updates: [{q: {_id: 13}, u: {$set: {x: 1}}, upsert: true}]}`)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	move("s0")
	for deadline := time.Now().Add(time.Minute); c.do("admin", `{removeShard: "s1"}`).Lookup("state").Str() != "completed"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("s1 does not leave")
		}
	}
	c.do("app", `{insert: "c", documents: [{_id: 14}]}`)
	got := strings.Split(said(w.next(4)), "\n")
	slices.Sort(got[:2])
	if want := []string{"insert { _id: 12 }", "insert { _id: 2 }", "insert { _id: 13 }", "insert { _id: 14 }"}; !slices.Equal(got, want) {
		t.Errorf("EventuallyDelivered: %q", got)
	}
}

// runs runs f in the background.
func runs(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}
