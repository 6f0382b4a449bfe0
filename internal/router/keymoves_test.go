package router_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// numbered is a statement of a session, which a client may send again.
func numbered(session bson.UUID, txn int, text string) bson.Doc {
	return new(bson.Builder).Fields(bson.MustParse(text)).OpenDoc("lsid").Binary("id", 4, session[:]).Close().Int64("txnNumber", int64(txn)).Finish()
}

// TestKeyMovesDocumentOutside: a retryable update, replacement, findAndModify or bulkWrite moves
// its document to another shard when it changes the shard key, once, however often and to
// whatever router it is sent, also when the range has moved in between. Others are refused.
func TestKeyMovesDocumentOutside(t *testing.T) {
	c := newCluster(t, 3)
	other := c.connect(servertest.StartRouter(t, "--configdb", "cfg/"+c.config).Address)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {k: 1}}`)
	c.do("admin", `{split: "app.c", middle: {k: 100}}`)
	c.do("admin", `{split: "app.c", middle: {k: 200}}`)
	c.do("admin", `{moveChunk: "app.c", find: {k: 100}, to: "s1"}`)
	for id := range 10 {
		c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, k: %d, a: [1]}]}`, id, id))
	}
	session := bson.NewUUID()
	run := func(conn *client.Conn, db string, body bson.Doc) bson.Doc {
		t.Helper()
		reply, err := conn.Run(t.Context(), db, body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		return reply
	}
	if reply := run(c.router, "app", bson.MustParse(`{update: "c", updates: [{q: {k: 9}, u: {$set: {k: 109}}}]}`)); !strings.Contains(reply.String(), "code: 20,") {
		t.Errorf("without a number: %s", reply)
	}
	statements := []struct {
		db, text, want string
	}{
		{"app", `{update: "c", updates: [{q: {k: 0}, u: {$set: {k: 100}, $push: {a: 2}}}]}`, "n: 1, nModified: 1"},
		{"app", `{update: "c", updates: [{q: {_id: 1}, u: {k: 101, a: [1, 2]}}]}`, "n: 1, nModified: 1"},
		{"app", `{findAndModify: "c", query: {k: 2}, update: {$set: {k: 102}, $push: {a: 2}}}`, "value: { _id: 2, k: 2, a: [ 1 ] }"},
		{"app", `{findAndModify: "c", query: {_id: 3}, update: {$set: {k: 103}, $push: {a: 2}}, new: true, fields: {k: 1}}`, "value: { _id: 3, k: 103 }"},
		{"admin", `{bulkWrite: 1, ops: [{update: 0, filter: {k: 4}, updateMods: {$set: {k: 104}, $push: {a: 2}}}, {update: 0, filter: {_id: 5}, updateMods: {$set: {k: 105}, $push: {a: 2}}}], nsInfo: [{ns: "app.c"}]}`, "nMatched: 2, nModified: 2"},
		{"app", `{update: "c", updates: [{q: {k: 6}, u: {$push: {a: 2}}}, {q: {k: 6}, u: {$set: {k: 106}}}, {q: {k: 7}, u: {$set: {k: 107}, $push: {a: 2}}}]}`, "n: 3, nModified: 3"},
	}
	attempt := func(when string, conn *client.Conn) {
		t.Helper()
		for i, s := range statements {
			if reply := run(conn, s.db, numbered(session, i, s.text)); !strings.Contains(reply.String(), s.want) || reply.Has("writeErrors") {
				t.Errorf("%s: %s: %s", when, s.text, reply)
			}
			// In MongoDB too a session's older operations cannot be sent again.
			if reply := run(other, s.db, numbered(session, i, s.text)); !strings.Contains(reply.String(), s.want) || reply.Has("writeErrors") {
				t.Errorf("%s, again: %s: %s", when, s.text, reply)
			}
		}
	}
	attempt("at first", c.router)
	last := len(statements) - 1
	c.do("admin", `{moveChunk: "app.c", find: {k: 0}, to: "s2"}`)
	if reply := run(other, "app", numbered(session, last, statements[last].text)); !strings.Contains(reply.String(), statements[last].want) {
		t.Errorf("after a move: %s", reply)
	}
	got := batch(c.do("app", `{aggregate: "c", pipeline: [{$match: {_id: {$lt: 8}}}, {$sort: {_id: 1}}, {$group: {_id: null, k: {$push: "$k"}, a: {$addToSet: "$a"}}}], cursor: {}}`))
	if got != `[ { _id: null, k: [ 100, 101, 102, 103, 104, 105, 106, 107 ], a: [ [ 1, 2 ] ] } ]` {
		t.Errorf("the documents are %s: %s", got, batch(c.do("app", `{find: "c", sort: {_id: 1}}`)))
	}
	// The same statement at the same time by two routers.
	for n := range 20 {
		c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, k: %d, a: [1]}]}`, 1000+n, 50))
		session, both := bson.NewUUID(), sync.WaitGroup{}
		for _, conn := range []*client.Conn{c.router, other} {
			both.Go(func() {
				reply, err := conn.Run(t.Context(), "app", numbered(session, 1, fmt.Sprintf(`{update: "c", updates: [{q: {k: 50}, u: {$set: {k: %d}, $push: {a: 2}}}]}`, 110+n)))
				if err != nil || !strings.Contains(reply.String(), "n: 1, nModified: 1") {
					t.Errorf("at the same time: %v %s", err, reply)
				}
			})
		}
		both.Wait()
	}
	if got := batch(c.do("app", `{aggregate: "c", pipeline: [{$match: {_id: {$gte: 1000}}}, {$group: {_id: {k: {$gte: ["$k", 110]}, a: "$a"}, n: {$sum: 1}}}], cursor: {}}`)); got != `[ { _id: { k: true, a: [ 1, 2 ] }, n: 20 } ]` {
		t.Errorf("the documents are %s", got)
	}
}
