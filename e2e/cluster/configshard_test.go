package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestConfigShard: the smallest cluster is one set and a router. Clients count in its
// documents while the set is killed, while it grows by a shard, while the config servers are
// drained until they are no shard any more, and while they become one again.
func TestConfigShard(t *testing.T) {
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")}
	c.routers = []*testkit.Server{testkit.StartRouter(t, host("cfg", c.config))}
	c.admin(t, bson.D{{Key: "transitionFromDedicatedConfigServer", Value: 1}})
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	app := c.routers[0].Client().Database("app")
	if _, err := app.Collection("plain").InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
	n := c.insertCounters(t)
	n.mayFail = true
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n.start(t, ctx, 2)

	restart(c.config)
	c.addShard(t, 0)
	n.goesOn(t, 200)
	status := c.toDedicated(t)
	if status["state"] != "started" || fmt.Sprint(status["dbsToMove"]) != "[app]" {
		t.Errorf("draining begins with %v", status)
	}
	c.admin(t, bson.D{{Key: "balancerStart", Value: 1}})
	restart(c.config)
	c.admin(t, bson.D{{Key: "movePrimary", Value: "app"}, {Key: "to", Value: "s0"}})
	c.until(t, "the config servers are dedicated", func() bool {
		err := c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "transitionToDedicatedConfigServer", Value: 1}}).Decode(&status)
		if err != nil && !strings.Contains(err.Error(), "or moves them") { // what was given away goes first
			t.Fatal(err)
		}
		return err == nil && status["state"] == "completed"
	})
	if count, err := c.config.Direct().Database("app").Collection("c").CountDocuments(t.Context(), bson.D{}); err != nil || count != 0 {
		t.Errorf("%d documents are left on the config servers: %v", count, err)
	}
	restart(c.config)
	n.goesOn(t, 200)

	c.admin(t, bson.D{{Key: "transitionFromDedicatedConfigServer", Value: 1}})
	all := c.chunksOf(t, "app.c")
	if len(all) != 2 {
		t.Fatalf("chunks: %+v", all)
	}
	c.admin(t, bson.D{{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: all[0].Min}, {Key: "toShard", Value: "config"}})
	n.goesOn(t, 200)
	stop()
	acknowledged, unknown := n.check(t)
	t.Logf("%d increments acknowledged, %d unknown, %d reads", acknowledged, unknown, n.reads.Load())
	if count, err := app.Collection("plain").CountDocuments(t.Context(), bson.D{}); err != nil || count != 2 {
		t.Errorf("what is not sharded has %d documents: %v", count, err)
	}
	if count, err := c.config.Direct().Database("app").Collection("c").CountDocuments(t.Context(), bson.D{}); err != nil || count < 50 || count > 150 {
		t.Errorf("%d documents came back to the config servers: %v", count, err)
	}
}

func (c *cluster) toDedicated(t *testing.T) bson.M {
	t.Helper()
	return c.admin(t, bson.D{{Key: "transitionToDedicatedConfigServer", Value: 1}})
}

// until waits until something is so.
func (c *cluster) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// goesOn waits until clients have counted on.
func (n *counters) goesOn(t *testing.T, more int64) {
	t.Helper()
	from := n.sum()
	n.cluster.until(t, "clients go on", func() bool { return n.sum() >= from+more })
}

// sum is how many increments have been acknowledged.
func (n *counters) sum() (sum int64) {
	for i := range n.tallies {
		sum += n.tallies[i].acknowledged.Load()
	}
	return sum
}
