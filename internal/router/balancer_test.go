package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestBalancerInProgress: a move of the balancer keeps to the bound in config.settings, which
// holds at once when it changes, and is told with how far it is: by balancerCollectionStatus,
// and by currentOp, where it can be killed. Then it is undone, and what the balancer does next
// goes on.
func TestBalancerInProgress(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	c.do("admin", `{configureCollectionBalancing: "app.c", chunkSize: 10}`)
	const documents = 400
	text := strings.Repeat("x", 100_000)
	for from := 0; from < documents; from += 50 {
		var docs []string
		for i := from; i < from+50; i++ {
			docs = append(docs, fmt.Sprintf(`{_id: %d, x: %d, text: %q}`, i, i, text))
		}
		c.do("app", fmt.Sprintf(`{insert: "c", documents: [%s]}`, strings.Join(docs, ", ")))
	}
	slow := func(mb int) {
		c.do("config", fmt.Sprintf(`{update: "settings", updates: [{q: {_id: "balancer"}, u: {$set: {maxMBPerSecond: %d}}, upsert: true}]}`, mb))
	}
	slow(1)
	c.do("admin", `{balancerStart: 1}`)
	status := func() bson.Doc { return c.do("admin", `{balancerCollectionStatus: "app.c"}`) }
	var move bson.Doc
	c.until(func() bool { // some is copied, and it is not done
		v := status().Lookup("details").Doc().Lookup("progress").Doc().Lookup("moves")
		if v.Type != bson.TypeArray {
			return false
		}
		move = v.Doc().Lookup("0").Doc()
		return move.Lookup("bytesCopied").Int64() > 0
	})
	copied := move.Lookup("bytesCopied").Int64()
	if move.Lookup("from").Str() != "s0" || move.Lookup("to").Str() != "s1" || move.Lookup("bytes").Int64() < copied {
		t.Errorf("the move in progress is %s", move)
	}
	progress := status().Lookup("details").Doc().Lookup("progress").Doc()
	if progress.Lookup("maxBytesPerSecondOfMove").Int64() != 1<<20 || !progress.Lookup("secondsLeft").IsNumber() {
		t.Errorf("progress is %s", progress)
	}
	find := `{aggregate: 1, pipeline: [{$currentOp: {allUsers: true}}, {$match: {desc: "MoveRangeCoordinator"}}], cursor: {}}`
	list := c.do("admin", find).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	if list.Len() != 1 {
		t.Fatalf("currentOp shows %s", list)
	}
	op := list.Lookup("0").Doc()
	if op.Lookup("ns").Str() != "app.c" || op.Lookup("shard").Str() != "config" || !op.Lookup("progress").Doc().Lookup("done").IsNumber() || op.Lookup("command").Doc().Lookup("to").Str() != "s1" {
		t.Errorf("currentOp shows %s", op)
	}
	if all := c.do("admin", `{currentOp: 1, desc: "MoveRangeCoordinator"}`).Lookup("inprog").Doc(); all.Len() != 1 {
		t.Errorf("currentOp shows %s", all)
	}
	c.do("admin", `{killOp: 1, op: "`+op.Lookup("opid").Str()+`"}`)
	ended := `{find: "changelog", filter: {what: "moveChunk.from"}, sort: {time: 1}}`
	var first bson.Doc
	c.until(func() bool {
		first = c.do("config", ended).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
		return first.Len() > 0
	})
	if d := first.Lookup("0").Doc().Lookup("details").Doc(); d.Lookup("note").Str() != "aborted" || !strings.Contains(d.Lookup("errmsg").Str(), "interrupted") {
		t.Errorf("the killed move is %s", d)
	}
	c.until(func() bool { return status().Lookup("details").Doc().Lookup("progress").Doc().Has("moves") }) // the next one
	slow(0)
	c.until(func() bool { return status().Lookup("balancerCompliant").Bool() })
	if n := c.do("app", `{count: "c", query: {x: {$gte: 0}}}`).Lookup("n"); bson.ClampToInt64(n) != documents {
		t.Errorf("%s documents are left", n)
	}
}

// until waits until something is so.
func (c *realCluster) until(ready func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); !ready(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("it does not come")
		}
	}
}
