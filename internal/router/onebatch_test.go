package router_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestLoopsInNextBatch: an expression of the router's part that loops ends with the operation that
// reads, not with the one that opened the cursor, which is over.
func TestLoopsInNextBatch(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("admin", `{shardCollection: "app.other", key: {_id: "hashed"}}`)
	c.fill("c", 0, 20)
	c.fill("other", 0, 20)
	loop := `{$set: {n: {$size: {$map: {input: {$range: [0, 20000]}, in: {$add: ["$$this", "$_id"]}}}}}}`
	for _, stages := range []string{
		`{$group: {_id: "$_id"}}, ` + loop,
		`{$sort: {y: 1}}, {$limit: 20}, {$lookup: {from: "other", pipeline: [{$limit: 1}, ` + loop + `], as: "o"}}`,
		`{$sort: {y: 1}}, {$limit: 20}, {$unionWith: {coll: "other", pipeline: [{$limit: 5}, ` + loop + `]}}`,
	} {
		reply := c.do("app", `{aggregate: "c", pipeline: [`+stages+`], cursor: {batchSize: 1}}`)
		n := 1
		for {
			cursor := reply.Lookup("cursor").Doc()
			id := bson.ClampToInt64(cursor.Lookup("id"))
			if id == 0 {
				break
			}
			reply = c.do("app", fmt.Sprintf(`{getMore: {"$numberLong": "%d"}, collection: "c", batchSize: 3}`, id))
			n += len(reply.Lookup("cursor").Doc().Lookup("nextBatch").Doc().Slice())
		}
		if n < 20 {
			t.Errorf("%s: %d documents", stages, n)
		}
	}
}

// TestSortOfArrays: a merge of the shards' documents has arrays that a path with a number names
// where one server has them: behind all documents.
func TestSortOfArrays(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, a: [[5]]}, {_id: 2, a: [{x: 1}]}, {_id: 3, a: [[]]}, {_id: 4, a: [{"": [6]}]}, {_id: 5, a: [{z: [[1]]}]}, {_id: 6, a: [[1, 2]]}, {_id: 7, a: []}, {_id: 8, a: [null]}, {_id: 9, a: [true]}]}`)
	for _, x := range []struct{ sort, want string }{
		{`{"a.0": 1, _id: 1}`, "[ { _id: 3 }, { _id: 7 }, { _id: 8 }, { _id: 2 }, { _id: 4 }, { _id: 5 }, { _id: 6 }, { _id: 1 }, { _id: 9 } ]"},
		{`{"a.0": -1, _id: 1}`, "[ { _id: 9 }, { _id: 1 }, { _id: 6 }, { _id: 5 }, { _id: 4 }, { _id: 2 }, { _id: 7 }, { _id: 8 }, { _id: 3 } ]"},
	} {
		if got := batch(c.do("app", `{find: "c", sort: `+x.sort+`, projection: {_id: 1}}`)); got != x.want {
			t.Errorf("%s: %s", x.sort, got)
		}
	}
}

// TestGroupReadsAhead: a $group over shards whose groups take many batches has each group once,
// whole, and leaves no cursor open, also where it ends with an error.
func TestGroupReadsAhead(t *testing.T) {
	const groups = 9000
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	for from := 0; from < 2*groups; from += groups {
		c.fill("c", from, from+groups)
	}
	byHalf := `{$group: {_id: {$mod: ["$_id", 9000]}, n: {$sum: 1}, sum: {$sum: "$_id"}}}`
	got := batch(c.do("app", `{aggregate: "c", pipeline: [`+byHalf+`,
		{$group: {_id: "$n", groups: {$sum: 1}, sum: {$sum: "$sum"}}}], cursor: {}}`))
	if want := fmt.Sprintf("[ { _id: 2, groups: %d, sum: %d } ]", groups, groups*(2*groups-1)); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	// Its part on each shard has room in memory, and the whole has not: it ends while it reads.
	_, err := c.try("app", `{aggregate: "c", allowDiskUse: false, cursor: {}, pipeline: [{$group: {_id: {$mod: ["$_id", 9000]}, list: {$push: {$range: [0, 700]}}}}]}`)
	if !mongoerr.Is(err, mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed) {
		t.Error(err)
	}
	for name := range c.shards { // a getMore that is under way ends behind the killCursors
		open := bson.Value{}
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			open = c.on(name, "admin", `{serverStatus: 1}`).Lookup("metrics").Doc().Lookup("cursor").Doc().Lookup("open").Doc().Lookup("total")
			if bson.ClampToInt64(open) == 0 {
				break
			}
		}
		if bson.ClampToInt64(open) != 0 {
			t.Errorf("cursors open on %s: %s", name, open)
		}
	}
}
