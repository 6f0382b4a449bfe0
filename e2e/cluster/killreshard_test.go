package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// reshardSteps are the requests of a resharding, which each shard gets, so many of them
// before the one at which somebody is killed.
var reshardSteps = []struct {
	request string
	behind  int
}{
	{"_shardsvrReshard", 0}, {"_shardsvrReshardReceive", 0}, {"_shardsvrDonate", 1}, {"_shardsvrReshardReceived", 0},
	{"_shardsvrBlock", 0}, {"_shardsvrReshardReceived", 1}, {"_shardsvrBlock", 1}, {"_shardsvrReshardOwn", 0},
}

// TestKillInReshard: the shard that has just got the request of a step, another one, or the
// config primary is killed. The resharding then ends, done or undone, and each document is
// there once, with all that was acknowledged before and after.
func TestKillInReshard(t *testing.T) {
	const documents = 300
	c := breakable(t)
	run(t, c.config.Direct().Database("admin"), bson.D{{Key: "setParameter", Value: 1}, {Key: "reshardingCriticalSectionTimeoutMillis", Value: 60_000}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "k0", Value: "hashed"}}}})
	coll := c.routers[0].Client().Database("app").Collection("c")
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "k0", Value: i}, {Key: "k1", Value: -i}, {Key: "n", Value: 0}})
	}
	if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	all := incrementAll(documents)
	written := 0
	for i, step := range reshardSteps {
		for j, victim := range []string{"its receiver", "another shard", "the config primary"} {
			if !*long && j != i%3 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d, %s dies", step.request, step.behind, victim), func(t *testing.T) {
				gets, victims := c.shards[i%2], map[string]*testkit.Server{"its receiver": c.shards[i%2], "another shard": c.shards[1-i%2], "the config primary": c.config}
				key := "k1"
				if strings.Contains(c.keyOf(t, "app.c"), "k1") {
					key = "k0"
				}
				hangAt(t, gets, step.request, step.behind)
				ended := make(chan error, 1)
				go func() {
					ended <- c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "reshardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: key, Value: "hashed"}}}}).Err()
				}()
				hangs(t, gets, step.request, ended)
				restart(victims[victim])
				if victims[victim] != gets {
					run(t, gets.Direct().Database("admin"), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "off"}})
				}
				t.Logf("the client hears: %v", <-ended)
				c.settles(t)
				time.Sleep(hang) // what hung is executed late, if at all
				t.Logf("it was to have %s, and has %s", key, c.keyOf(t, "app.c"))
				written++
				if result, err := coll.BulkWrite(t.Context(), all); err != nil || result.ModifiedCount != documents {
					t.Errorf("%+v %v", result, err)
				}
				c.whole(t, coll, documents, written)
				for _, s := range c.shards {
					names, err := s.Direct().Database("app").ListCollectionNames(t.Context(), bson.D{})
					if err != nil || len(names) != 1 {
						t.Errorf("a shard has %v: %v", names, err)
					}
				}
			})
		}
	}
}

// keyOf is the shard key of a collection, as text.
func (c *cluster) keyOf(t *testing.T, ns string) string {
	t.Helper()
	var d struct{ Key bson.D }
	if err := c.routers[0].Client().Database("config").Collection("collections").FindOne(t.Context(), bson.D{{Key: "_id", Value: ns}}).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Key)
}
