package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// TestChunksAreOfOneTime: what a router reads of a collection's chunks, batch by batch, is of one
// time, though chunks move meanwhile. Else it would have a chunk where it was before, under a
// version that says otherwise, and its statements would miss what is in it.
//
// Of the shard from which the first chunks move the last batch has the only other chunk, which gets
// a new version with each move: a router that reads both as they are at two times takes what it
// knows of that shard for new. Between them are more chunks than the config server reads ahead.
func TestChunksAreOfOneTime(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	const between, moved = 900, 8
	split := func(at int) { c.do("admin", fmt.Sprintf(`{split: "app.c", middle: {x: %d}}`, at)) }
	for _, at := range []int{0, moved, moved + between} {
		split(at)
	}
	for _, at := range []int{-1, moved} {
		c.do("admin", fmt.Sprintf(`{moveChunk: "app.c", find: {x: %d}, to: "s1"}`, at))
	}
	for at := moved + between - 1; at > moved; at-- {
		split(at)
	}
	for at := range moved - 1 {
		split(at + 1)
	}
	c.fill("c", 0, moved)
	config := c.connect(c.config)
	fail := func(mode string) {
		t.Helper()
		body := `{configureFailPoint: "failCommand", mode: ` + mode + `, data: {failCommands: ["getMore"], blockConnection: true, blockTimeMS: 3000}}`
		if _, err := config.Run(t.Context(), "admin", bson.MustParse(body)); err != nil {
			t.Fatal(err)
		}
	}
	other := c.connect(servertest.StartRouter(t, "--configdb", "cfg/"+c.config).Address)
	fail(`{times: 1}`)
	type found struct {
		reply bson.Doc
		err   error
	}
	first := make(chan found, 1)
	go func() {
		reply, err := other.Run(t.Context(), "app", bson.MustParse(`{find: "c", filter: {x: 0}}`))
		first <- found{reply, err}
	}()
	for deadline, waits := time.Now().Add(30*time.Second), false; !waits; time.Sleep(5 * time.Millisecond) {
		reply, err := config.Run(t.Context(), "admin", bson.MustParse(`{currentOp: 1}`))
		if err != nil || time.Now().After(deadline) {
			t.Fatal(err, "no router reads chunks")
		}
		waits = strings.Contains(reply.String(), `collection: "chunks"`)
	}
	for i := range moved {
		c.do("admin", fmt.Sprintf(`{moveChunk: "app.c", find: {x: %d}, to: "s1"}`, i))
	}
	if len(first) > 0 {
		t.Fatal("the router has read all before the chunks have moved")
	}
	fail(`"off"`)
	if f := <-first; f.err != nil || strings.Count(batch(f.reply), "_id") != 1 {
		t.Errorf("%v %s", f.err, f.reply)
	}
	for i := range moved {
		reply, err := other.Run(t.Context(), "app", bson.MustParse(fmt.Sprintf(`{find: "c", filter: {x: %d}}`, i)))
		if err != nil || strings.Count(batch(reply), "_id") != 1 {
			t.Errorf("x: %d: %v %s", i, err, reply)
		}
	}
}

// TestListIndexesByOldRoute: a router that knows a collection where it was before asks where it is
// now, and does not say that there is none.
func TestListIndexesByOldRoute(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: 1}}`)
	other := c.secondRouter()
	list := func() string {
		t.Helper()
		reply, err := other.Run(t.Context(), "app", bson.MustParse(`{listIndexes: "c"}`))
		if err != nil {
			t.Fatal(err)
		}
		return batch(reply)
	}
	before := list()
	c.do("admin", `{unshardCollection: "app.c", toShard: "s1"}`)
	if after := list(); after != before {
		t.Errorf("%s, and then %s", before, after)
	}
}
