package router_test

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/wire"
)

// TestFullMessage: a client's batch may fill a message. What the router adds for a shard does not
// make that too large, and statements keep their order.
func TestFullMessage(t *testing.T) {
	c := newCluster(t, 1)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	text := strings.Repeat("s", 15_900_000)
	for _, ordered := range []bool{true, false} {
		body := new(bson.Builder).String("insert", "c").Bool("ordered", ordered).Finish()
		var docs []bson.Doc
		size := wire.HeaderLen + len(body) + len("$db...app.documents..") + 16
		for size < wire.MaxMessageSize-100 {
			rest := min(len(text), wire.MaxMessageSize-100-size)
			d := new(bson.Builder).Int("_id", int64(len(docs))).String("s", text[:rest]).Finish()
			docs, size = append(docs, d), size+len(d)
		}
		last := docs[len(docs)-1]
		docs = append(docs[:len(docs)-1:len(docs)-1], docs[0], last) // the last but one fails
		docs[0], docs[3] = docs[3].Clone(), new(bson.Builder).Int("_id", 0).Finish()
		reply, err := c.router.Run(t.Context(), "app", body, wire.NewSequence("documents", docs...))
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]int32{true: 3, false: 4}[ordered]
		errs := reply.Lookup("writeErrors").Doc()
		if n := reply.Lookup("n").Int32(); n != want || errs.Len() != 1 || errs.Lookup("0").Doc().Lookup("index").Int32() != 3 {
			t.Errorf("ordered %v: %s", ordered, reply)
		}
		if n := c.do("app", `{delete: "c", deletes: [{q: {}, limit: 0}]}`).Lookup("n").Int32(); n != want {
			t.Errorf("ordered %v: %d documents", ordered, n)
		}
	}
}
