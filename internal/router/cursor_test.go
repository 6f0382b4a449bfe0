package router_test

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestEndOfCursor: a batch that is full says nothing of the end, as from one server, to whose
// cursors drivers and their tests are used. A limit that is reached does.
func TestEndOfCursor(t *testing.T) {
	c := newCluster(t, 2)
	c.fill("c", 0, 3)
	c.do("admin", `{shardCollection: "app.spread", key: {_id: "hashed"}}`)
	c.fill("spread", 0, 3)
	for _, x := range []struct {
		find string
		want int // batches
	}{
		{`find: "c", batchSize: 1`, 4},
		{`find: "spread", batchSize: 1`, 4},
		{`aggregate: "c", pipeline: [], cursor: {batchSize: 1}`, 4},
		{`aggregate: "spread", pipeline: [{$sort: {_id: 1}}], cursor: {batchSize: 1}`, 4},
		{`find: "c", batchSize: 3`, 2},
		{`find: "spread", batchSize: 3`, 2},
		{`find: "c", batchSize: 2, limit: 2`, 1},
		{`find: "spread", batchSize: 1, limit: 2`, 2},
		{`find: "c", batchSize: 2`, 3},
	} {
		reply, n := c.do("app", `{`+x.find+`}`), 1
		for {
			cursor := reply.Lookup("cursor").Doc()
			id, ns := bson.ClampToInt64(cursor.Lookup("id")), cursor.Lookup("ns").Str()
			if id == 0 {
				break
			}
			reply = c.do("app", fmt.Sprintf(`{getMore: {"$numberLong": "%d"}, collection: %q, batchSize: 1}`, id, ns[len("app."):]))
			n++
		}
		if n != x.want {
			t.Errorf("%s: %d batches, want %d", x.find, n, x.want)
		}
	}
}
