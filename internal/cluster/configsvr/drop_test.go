package configsvr

import (
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestDropWhilePrimaryMoves: a drop that has asked the primary shard of a database before it was
// another one does not answer as if there were no such collection.
func TestDropWhilePrimaryMoves(t *testing.T) {
	c := start(t)
	defer c.end()
	c.add("s0")
	c.add("s1")
	do := func(text string) {
		t.Helper()
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(text, err)
		}
	}
	do(`{_configsvrAddShard: "s0/s0:27018"}`)
	do(`{_configsvrAddShard: "s1/s1:27018"}`)
	do(`{_configsvrCreateDatabase: "app", primaryShard: "s0"}`)
	c.fill("s0", "app.plain", 0, 10)
	c.mu.Lock()
	c.onList = func() { do(`{_configsvrMovePrimary: "app", to: "s1"}`) }
	c.mu.Unlock()
	_, err := c.run(bson.MustParse(`{_configsvrDrop: "app.plain"}`))
	if !mongoerr.Is(err, mongoerr.ConflictingOperationInProgress) {
		t.Errorf("the drop ends with %v", err)
	}
	if coll := c.sets["s1"].shard.Collections["app.plain"]; coll == nil || len(coll.Docs) != 10 {
		t.Errorf("the new primary shard has %v", coll)
	}
	do(`{_configsvrDrop: "app.plain"}`)
}

// TestDropWhileUntracked: a drop that has found a collection tracked, before
// untrackUnshardedCollection, drops it nevertheless.
func TestDropWhileUntracked(t *testing.T) {
	c := start(t)
	defer c.end()
	c.add("s0")
	c.add("s1")
	do := func(text string) {
		t.Helper()
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(text, err)
		}
	}
	for _, text := range []string{`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`, `{_configsvrCreateDatabase: "app", primaryShard: "s0"}`} {
		do(text)
	}
	c.fill("s0", "app.c", 0, 10)
	for _, to := range []string{"s1", "s0"} {
		do(`{_configsvrMoveCollection: "app.c", toShard: "` + to + `"}`)
	}
	const untrack = int64(-1 << 40)
	c.s.claims.take(claim{alone: []string{"app.c"}}, untrack)
	dropped := make(chan error, 1)
	go func() {
		_, err := c.run(bson.MustParse(`{_configsvrDrop: "app.c"}`))
		dropped <- err
	}()
	now, err := c.s.term()
	if err != nil {
		t.Fatal(err)
	}
	for len(now.places) == 0 { // until it waits for the claim
		time.Sleep(time.Millisecond)
	}
	if err := c.s.change(t.Context(), func() ([]write, error) { return c.s.forgetting("app.c") }); err != nil {
		t.Fatal(err)
	}
	c.s.claims.free(untrack)
	if err := <-dropped; err != nil {
		t.Fatal(err)
	}
	if coll := c.sets["s0"].shard.Collections["app.c"]; coll != nil {
		t.Error("its drop was answered, and it is there")
	}
}
