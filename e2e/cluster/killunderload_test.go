package cluster

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// killTime is how long parts of a cluster are killed, killPause the time between two kills.
const (
	killTime  = 25 * time.Second
	killPause = 1500 * time.Millisecond
)

// TestKilledUnderLoad: clients of two routers count in documents and read all of them
// while chunks move all the time, and every part of the cluster is killed, one after the
// other. Each increment that was acknowledged is there once, one that was not at most once,
// and each reader that is answered sees every document once.
func TestKilledUnderLoad(t *testing.T) {
	c := start(t, 3, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	n := c.insertCounters(t)
	n.mayFail = true
	ctx, stop := context.WithTimeout(t.Context(), killTime)
	defer stop()
	n.start(t, ctx, 2)
	moves := 0
	mover := c.routers[0].Client()
	n.clients.Go(func() {
		for ctx.Err() == nil {
			if c.moveAny(t, mover) {
				moves++
			}
		}
	})
	victims := append(append([]*testkit.Server{c.config}, c.shards...), c.routers...)
	kills := 0
	for ; ctx.Err() == nil; kills++ {
		time.Sleep(killPause)
		restart(victims[kills%len(victims)])
	}
	n.clients.Wait()
	c.settles(t)
	acknowledged, unknown := n.check(t)
	t.Logf("%d kills, %d moves, %d increments acknowledged and %d unknown, %d reads", kills, moves, acknowledged, unknown, n.reads.Load())
	if moves < 2 || acknowledged < countedDocuments || n.reads.Load() < 5 {
		t.Error("that is too little")
	}
}

// moveAny moves a chunk to another shard, if the parts that it takes are there.
func (c *cluster) moveAny(t *testing.T, client *mongo.Client) bool {
	var k chunk
	err := client.Database("config").Collection("chunks").FindOne(t.Context(), bson.D{}, options.FindOne().SetSkip(rand.Int64N(6))).Decode(&k)
	return err == nil && c.move(t, client, k)
}
