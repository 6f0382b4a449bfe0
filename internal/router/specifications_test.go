package router_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

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

// runs runs f in the background.
func runs(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}
