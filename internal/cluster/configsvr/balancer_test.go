package configsvr

import (
	"context"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestRoundAtOnce: a round begins when a shard is to be drained, a collection is to be balanced
// or config.settings says so, and again after a round that failed; not only after RoundPause,
// which is an hour here.
func TestRoundAtOnce(t *testing.T) {
	c := start(t)
	defer c.end()
	do := func(text string) {
		t.Helper()
		if _, err := c.run(bson.MustParse(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	c.add("s0")
	c.add("s1")
	do(`{_configsvrAddShard: "s0/s0:27018"}`)
	do(`{_configsvrAddShard: "s1/s1:27018"}`)
	do(`{_configsvrEnableSharding: "app", primaryShard: "s0"}`)
	do(`{_configsvrShardCollection: "app.c", key: {x: 1}}`)
	do(`{_configsvrConfigureCollectionBalancing: "app.c", noBalance: true}`)
	c.s.RoundPause, c.s.Throttle = time.Hour, func() time.Duration { return time.Millisecond }
	c.primary.set(0)
	c.primary.set(2)
	c.await(t)
	on := func(id string) {
		t.Helper()
		for range 5000 {
			var at string
			if err := c.s.read(func() error {
				_, m, err := c.s.mapOf("app.c")
				if err == nil && len(m.Owners()) == 1 {
					at = m.Owners()[0]
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if at == id {
				return
			}
			time.Sleep(time.Millisecond)
		}
		t.Fatalf("the chunk does not come to %s", id)
	}
	on("s0")
	do(`{_configsvrStartShardDraining: "s0"}`)
	do(`{_configsvrConfigureCollectionBalancing: "app.c", noBalance: false}`)
	on("s1")
	do(`{_configsvrStopShardDraining: "s0"}`)
	c.mu.Lock()
	c.refusing["_shardsvrReceive"] = 1
	c.mu.Unlock()
	do(`{_configsvrStartShardDraining: "s1"}`)
	on("s0")
	do(`{_configsvrStopShardDraining: "s1"}`)
	do(`{_configsvrBalancerStop: 1}`)
	do(`{_configsvrStartShardDraining: "s0"}`)
	// A shell's write comes by no command of the config servers.
	w := put(settings, bson.MustParse(`{_id: "balancer", mode: "full", stopped: false}`))
	if err := c.s.Catalog.Run(context.Background(), storage.Journaled, func(u *catalog.Unit) error { return c.s.apply(context.Background(), u, &w) }); err != nil {
		t.Fatal(err)
	}
	on("s1")
}
