package configsvr

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestSettingIsAnsweredWhenUndone: who sets what one shard refuses is told so, although another
// shard, which has to take it back, does not answer. The list of shards is claimed until it does.
func TestSettingIsAnsweredWhenUndone(t *testing.T) {
	c := start(t)
	defer c.end()
	c.add("s0")
	c.add("s1")
	for _, text := range []string{`{_configsvrAddShard: "s0/s0:27018"}`, `{_configsvrAddShard: "s1/s1:27018"}`} {
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatal(err)
		}
	}
	away := true
	c.mu.Lock()
	c.refusing["_shardsvrSettings"] = 1
	c.onAsk = func(body bson.Doc, _ bool) bool {
		name, _ := body.First()
		return name == "_shardsvrSettings" && away && body.Lookup("operation").Doc().Lookup("phase").Int32() == 3
	}
	c.mu.Unlock()
	_, err := c.run(bson.MustParse(`{_configsvrSetClusterParameter: {changeStreamOptions: {preAndPostImages: {expireAfterSeconds: 100}}}}`))
	if !mongoerr.Is(err, mongoerr.OperationFailed) {
		t.Errorf("it ends with %v", err)
	}
	docs, err := c.s.all(operations)
	if err != nil || len(docs) != 2 {
		t.Errorf("%v %v: it is to go on until the shard answers", docs, err)
	}
	c.s.claims.mu.Lock()
	if c.s.claims.alone[shardList] == 0 {
		t.Error("the list of shards is free")
	}
	c.s.claims.mu.Unlock()
	c.mu.Lock()
	away = false
	c.mu.Unlock()
	c.settle(t)
}
