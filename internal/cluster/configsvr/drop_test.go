package configsvr

import (
	"testing"

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
