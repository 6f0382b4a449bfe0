package cluster

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// drainSteps are the requests while s1 is drained to s0, leaves, and is added again.
var drainSteps = []struct {
	request string
	shard   int // that gets it
}{
	{"_shardsvrReceive", 0}, {"_shardsvrClone", 1}, {"_shardsvrReceived", 0}, {"_shardsvrBlock", 1}, {"_shardsvrOwn", 0}, {"_shardsvrGiven", 1},
	{"_shardsvrLeave", 1}, {"_shardsvrIdentify", 1},
}

// TestKillInDrain: while a shard is drained by the balancer, leaves and comes back, the shard
// that has just got the request of a step, the other one, the config primary or the router is
// killed. It leaves all the same, it comes back, and each document is there once.
func TestKillInDrain(t *testing.T) {
	const documents = 300
	c := breakable(t)
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	coll := c.routers[0].Client().Database("app").Collection("c")
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}})
	}
	if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	all := incrementAll(documents)
	written := 0
	for i, step := range drainSteps {
		gets := c.shards[step.shard]
		for j, victim := range []*testkit.Server{gets, c.shards[1-step.shard], c.config, c.routers[0]} {
			if !*long && j != i%4 {
				continue
			}
			who := []string{"its receiver", "the other shard", "the config primary", "the router"}[j]
			t.Run(fmt.Sprintf("%s, %s dies", step.request, who), func(t *testing.T) {
				if k := c.chunksOf(t, "app.c")[0]; k.Shard != "s1" {
					c.admin(t, bson.D{{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: "s1"}})
				}
				hangAt(t, gets, step.request, 0)
				c.admin(t, bson.D{{Key: "balancerStart", Value: 1}})
				ended := make(chan error, 1)
				go func() { ended <- c.leaveAndReturn(t) }()
				hangs(t, gets, step.request, ended)
				late := restartAt(t, victim, gets)
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
				c.settles(t)
				c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
				time.Sleep(time.Until(late))
				written++
				if result, err := coll.BulkWrite(t.Context(), all); err != nil || result.ModifiedCount != documents {
					t.Errorf("%+v %v", result, err)
				}
				c.whole(t, coll, documents, written)
			})
		}
	}
}

// drainTime bounds how long a drain takes.
const drainTime = time.Minute

// leaveAndReturn drains s1, takes it out, and adds it again. What fails is asked again.
func (c *cluster) leaveAndReturn(t *testing.T) error {
	client := c.routers[0].Client()
	admin, shards := client.Database("admin"), client.Database("config").Collection("shards")
	var last error
	ask := func(command bson.D) { last = admin.RunCommand(t.Context(), command).Err() }
	there := func() int64 {
		n, err := shards.CountDocuments(t.Context(), bson.D{{Key: "_id", Value: "s1"}})
		if err != nil {
			return -1
		}
		return n
	}
	for _, way := range []struct {
		until   int64
		command bson.D
	}{
		{0, bson.D{{Key: "removeShard", Value: "s1"}}},
		{1, bson.D{{Key: "addShard", Value: host("s1", c.shards[1])}, {Key: "name", Value: "s1"}}},
	} {
		for end := time.Now().Add(drainTime); there() != way.until; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				return fmt.Errorf("%v does not end: %w", way.command, last)
			}
			ask(way.command)
		}
	}
	return nil
}
