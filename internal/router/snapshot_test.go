package router_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestSnapshots: reads with the level snapshot see one state of all shards, while a client
// moves an amount from a document of one shard to one of the other: each read sees the amount
// before or after, at the time that the reply tells, and again at that time.
func TestSnapshots(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	c.do("admin", `{split: "app.c", middle: {_id: 10}}`)
	c.do("admin", `{moveChunk: "app.c", find: {_id: 10}, to: "s1"}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, n: 0}, {_id: 10, n: 0}]}`)
	writer := c.connect(c.address)
	stop, writes := make(chan struct{}), sync.WaitGroup{}
	defer writes.Wait()
	defer close(stop)
	writes.Go(func() {
		for n := 1; ; n++ { // first the one, then the other: no state has more in the second
			select {
			case <-stop:
				return
			default:
			}
			for _, id := range []int{1, 10} {
				text := fmt.Sprintf(`{update: "c", updates: [{q: {_id: %d}, u: {$set: {n: %d}}}]}`, id, n)
				if _, err := writer.Run(t.Context(), "app", bson.MustParse(text)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	// read reads the two numbers at a time, 0 for the router's choice, and returns the time.
	read := func(at uint64) (one, ten int64, then uint64) {
		t.Helper()
		concern := `{level: "snapshot"}`
		if at != 0 {
			concern = fmt.Sprintf(`{level: "snapshot", atClusterTime: Timestamp(%d, %d)}`, at>>32, uint32(at))
		}
		cursor := c.do("app", `{find: "c", sort: {_id: 1}, readConcern: `+concern+`}`).Lookup("cursor").Doc()
		docs := cursor.Lookup("firstBatch").Doc()
		number := func(i string) int64 { return bson.ClampToInt64(docs.Lookup(i).Doc().Lookup("n")) }
		return number("0"), number("1"), cursor.Lookup("atClusterTime").Timestamp()
	}
	moved := int64(0)
	// A getMore may have the read concern of its cursor, which some drivers send with each.
	first := c.do("app", `{find: "c", sort: {_id: 1}, batchSize: 1, readConcern: {level: "snapshot"}}`).Lookup("cursor").Doc()
	more := fmt.Sprintf(`{getMore: {$numberLong: "%s"}, collection: "c", readConcern: {level: "snapshot", atClusterTime: Timestamp(%d, %d)}}`,
		first.Lookup("id"), first.Lookup("atClusterTime").Timestamp()>>32, uint32(first.Lookup("atClusterTime").Timestamp()))
	if next := c.do("app", more).Lookup("cursor").Doc(); next.Lookup("nextBatch").Doc().Len() != 1 {
		t.Errorf("the next batch is %s", next)
	}
	for range 30 {
		one, ten, at := read(0)
		if at == 0 || one != ten && one != ten+1 {
			t.Fatalf("a state of time %d has %d and %d", at, one, ten)
		}
		if again, also, then := read(at); again != one || also != ten || then != at {
			t.Fatalf("at the same time, %d and %d, then %d and %d", one, ten, again, also)
		}
		moved = one
	}
	if moved == 0 {
		t.Error("nothing was written meanwhile")
	}
	reply := c.do("app", `{distinct: "c", key: "_id", readConcern: {level: "snapshot"}}`)
	if reply.Lookup("atClusterTime").Type != bson.TypeTimestamp {
		t.Errorf("distinct does not say at which time: %s", reply)
	}
	if cursor := c.do("app", `{aggregate: "c", pipeline: [{$group: {_id: null}}], cursor: {}, readConcern: {level: "snapshot"}}`).Lookup("cursor").Doc(); !cursor.Has("atClusterTime") {
		t.Errorf("an aggregate does not say at which time: %s", cursor)
	}
}
