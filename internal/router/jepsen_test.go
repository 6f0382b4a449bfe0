package router_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// What Jepsen found of transactions in MongoDB 4.2.6, each as a test
// (https://jepsen.io/analyses/mongodb-4.2.6).

// pair makes a collection with a document on each of two shards.
func pair(t *testing.T) *realCluster {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	c.do("admin", `{split: "app.c", middle: {_id: 10}}`)
	c.do("admin", `{moveChunk: "app.c", find: {_id: 10}, to: "s1"}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, n: 0, v: []}, {_id: 10, n: 0, v: []}]}`)
	return c
}

// in is a statement of a session's transaction: the first one starts it, with a read concern.
func in(session bson.UUID, txn int, first bool, text, level string) bson.Doc {
	b := new(bson.Builder).Fields(numbered(session, txn, text)).Bool("autocommit", false)
	if first {
		b.Bool("startTransaction", true).OpenDoc("readConcern").String("level", level).Close()
	}
	return b.Finish()
}

const commitAll = `{commitTransaction: 1, writeConcern: {w: "majority"}}`

// TestJepsenReadSkew: a transaction that reads two documents, on two shards, one after the other,
// sees both as they were before another transaction, or after it.
func TestJepsenReadSkew(t *testing.T) {
	c := pair(t)
	stop, writes := make(chan struct{}), sync.WaitGroup{}
	defer writes.Wait()
	defer close(stop)
	writer := c.connect(c.address)
	writes.Go(func() {
		session := bson.NewUUID()
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i, id := range []int{1, 10} {
				text := fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$set: {n: %d}}}]}`, id, n)
				if _, err := writer.Run(t.Context(), "app", in(session, n, i == 0, text, "snapshot")); err != nil {
					t.Error(err)
					return
				}
			}
			if _, err := writer.Run(t.Context(), "admin", in(session, n, false, commitAll, "")); err != nil {
				t.Error(err)
				return
			}
		}
	})
	session := bson.NewUUID()
	last := ""
	for n := 1; n <= 50; n++ {
		var seen []string
		for i, id := range []int{1, 10} {
			reply, err := c.router.Run(t.Context(), "app", in(session, n, i == 0, fmt.Sprintf(`{find: "c", filter: {_id: %d}, projection: {_id: 0, n: 1}}`, id), "snapshot"))
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, batch(reply))
		}
		if seen[0] != seen[1] {
			t.Fatalf("a transaction sees %s and %s", seen[0], seen[1])
		}
		last = seen[0]
		if _, err := c.router.Run(t.Context(), "admin", in(session, n, false, commitAll, "")); err != nil {
			t.Fatal(err)
		}
	}
	if last == "[ { n: 0 } ]" {
		t.Error("nothing was written meanwhile")
	}
}

// TestJepsenRetriedTransactionOnce: a transaction that is committed again, by the same router or
// by another one that has its recoveryToken, has its effect once; and one that was begun anew
// after an abort does not see what the aborted one has written.
func TestJepsenRetriedTransactionOnce(t *testing.T) {
	c := pair(t)
	other := c.connect(servertest.StartRouter(t, "--configdb", "cfg/"+c.config).Address)
	session := bson.NewUUID()
	push := func(n, i int) bson.Doc {
		return in(session, n, i == 0, fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$push: {v: %d}}}]}`, []int{1, 10}[i], n), "snapshot")
	}
	run := func(conn *client.Conn, db string, body bson.Doc) bson.Doc {
		t.Helper()
		reply, err := conn.Run(t.Context(), db, body)
		if err != nil || reply.Has("writeErrors") {
			t.Fatalf("%s: %v %s", body, err, reply)
		}
		return reply
	}
	for n := 1; n <= 10; n++ {
		run(c.router, "app", push(n, 0))
		token := run(c.router, "app", push(n, 1)).Lookup("recoveryToken").Doc()
		if n%2 == 0 { // aborted, and begun anew with the next number
			run(c.router, "admin", in(session, n, false, `{abortTransaction: 1}`, ""))
			continue
		}
		commit := new(bson.Builder).Fields(in(session, n, false, commitAll, "")).Doc("recoveryToken", token).Finish()
		for _, conn := range []*client.Conn{c.router, c.router, other, other} {
			run(conn, "admin", commit)
		}
	}
	if got := batch(c.do("app", `{find: "c", sort: {_id: 1}, projection: {v: 1}}`)); got != "[ { _id: 1, v: [ 1, 3, 5, 7, 9 ] }, { _id: 10, v: [ 1, 3, 5, 7, 9 ] } ]" {
		t.Errorf("%s", got)
	}
}

// TestJepsenOwnWritesSeen: a transaction sees what it has written itself, on each shard and by
// each way of reading, while others write to the same shards.
func TestJepsenOwnWritesSeen(t *testing.T) {
	c := pair(t)
	c.do("app", `{createIndexes: "c", indexes: [{key: {n: 1}, name: "n_1"}]}`)
	stop, writes := make(chan struct{}), sync.WaitGroup{}
	defer writes.Wait()
	defer close(stop)
	writer := c.connect(c.address)
	writes.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			text := fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {x: 1}}, upsert: true}]}`, []int{2, 11}[n%2])
			if _, err := writer.Run(t.Context(), "app", bson.MustParse(text)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, level := range []string{"snapshot", "local", "majority"} {
		session := bson.NewUUID()
		for n := 1; n <= 10; n++ {
			for i, text := range []string{
				fmt.Sprintf(`{update: "c", updates: [{q: {_id: 1}, u: {$set: {n: %d}}}]}`, 1000+n),
				fmt.Sprintf(`{findAndModify: "c", query: {_id: 10}, update: {$set: {n: %d}}}`, 1000+n),
				fmt.Sprintf(`{insert: "c", documents: [{_id: %d, n: %d}]}`, 5, 1000+n),
			} {
				if reply, err := c.router.Run(t.Context(), "app", in(session, n, i == 0, text, level)); err != nil || reply.Has("writeErrors") {
					t.Fatalf("%s %s: %v %s", level, text, err, reply)
				}
			}
			for _, text := range []string{
				`{find: "c", filter: {n: %d}, sort: {_id: 1}, projection: {_id: 1}}`,
				`{aggregate: "c", pipeline: [{$match: {n: %d}}, {$sort: {_id: 1}}, {$project: {_id: 1}}], cursor: {}}`,
				`{find: "c", filter: {_id: {$in: [1, 5, 10]}, n: %d}, sort: {_id: 1}, projection: {_id: 1}, hint: {_id: 1}}`,
			} {
				reply, err := c.router.Run(t.Context(), "app", in(session, n, false, fmt.Sprintf(text, 1000+n), level))
				if err != nil || !strings.Contains(batch(reply), "[ { _id: 1 }, { _id: 5 }, { _id: 10 } ]") {
					t.Fatalf("%s %s: %v %s", level, text, err, reply)
				}
			}
			if _, err := c.router.Run(t.Context(), "app", in(session, n, false, `{delete: "c", deletes: [{q: {_id: 5}, limit: 1}]}`, level)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.router.Run(t.Context(), "admin", in(session, n, false, commitAll, "")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestJepsenConcernsOfTransaction: where the cluster's defaults are weak, a transaction has its
// own concerns all the same, from its first statement to its commit; and a statement within it
// does not bring others.
func TestJepsenConcernsOfTransaction(t *testing.T) {
	c := pair(t)
	c.do("admin", `{setDefaultRWConcern: 1, defaultReadConcern: {level: "local"}, defaultWriteConcern: {w: 1}}`)
	writer := c.connect(c.address)
	session, n := bson.NewUUID(), 0
	read := func(first bool, id int) string {
		t.Helper()
		reply, err := c.router.Run(t.Context(), "app", in(session, n, first, fmt.Sprintf(`{find: "c", filter: {_id: %d}, projection: {_id: 0, n: 1}}`, id), "snapshot"))
		if err != nil {
			t.Fatal(err)
		}
		return batch(reply)
	}
	for n = 1; n <= 5; n++ {
		before := read(true, 1)
		other := bson.NewUUID()
		for i, id := range []int{1, 10} {
			if reply, err := writer.Run(t.Context(), "app", in(other, 1, i == 0, fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$set: {n: %d}}}]}`, id, n), "snapshot")); err != nil || reply.Has("writeErrors") {
				t.Fatalf("%v %s", err, reply)
			}
		}
		if _, err := writer.Run(t.Context(), "admin", in(other, 1, false, commitAll, "")); err != nil {
			t.Fatal(err)
		}
		if after := read(false, 10); after != before {
			t.Errorf("a transaction of a snapshot sees %s and %s", before, after)
		}
		// What a statement brings is refused, and nothing is lost with it.
		for _, text := range []string{
			`{find: "c", filter: {_id: 10}, readConcern: {level: "local"}}`,
			`{update: "c", updates: [{q: {_id: 10}, u: {$set: {n: 99}}}], writeConcern: {w: 1}}`,
		} {
			if reply, err := c.router.Run(t.Context(), "app", in(session, n, false, text, "")); !mongoerr.Is(err, mongoerr.InvalidOptions) {
				t.Errorf("%s: %v %s", text, err, reply)
			}
		}
		if _, err := c.router.Run(t.Context(), "admin", in(session, n, false, commitAll, "")); err != nil && !mongoerr.Is(err, mongoerr.NoSuchTransaction) {
			t.Fatal(err)
		}
	}
	// A commit waits for what it asks for, not for the default: three members there are not.
	n = 100
	for i, id := range []int{1, 10} {
		if _, err := c.router.Run(t.Context(), "app", in(session, n, i == 0, fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {n: 1}}}]}`, id), "snapshot")); err != nil {
			t.Fatal(err)
		}
	}
	reply, err := c.router.Run(t.Context(), "admin", in(session, n, false, `{commitTransaction: 1, writeConcern: {w: 3, wtimeout: 1000}}`, ""))
	if err == nil && !reply.Has("writeConcernError") {
		t.Errorf("a commit for three members is answered %s by shards of one", reply)
	}
}
