package cluster

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
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

// TestKilledUnderLoad: clients of two routers, of Go's driver and of Mongoose, count in documents, insert others that stay,
// are deleted or expire, and read all of them, while chunks move all the time, and every part
// of the cluster is killed, one after the other. Each write that was acknowledged is there
// once, one that was not at most once, and each reader that is answered sees every document
// once that it must see, and none that is gone.
func TestKilledUnderLoad(t *testing.T) {
	c := start(t, 3, 2)
	ctx, stop := context.WithTimeout(t.Context(), killTime)
	defer stop()
	n, l, moves := c.load(t, ctx)
	node := c.mongoose(t)
	victims := append(append([]*testkit.Server{c.config}, c.shards...), c.routers...)
	kills := 0
	for ; ctx.Err() == nil; kills++ {
		time.Sleep(killPause)
		restart(victims[kills%len(victims)])
	}
	c.judge(t, n, l, kills, moves)
	node.check(t)
}

// load has clients write and read, and chunks move, until ctx ends. Writes may fail.
func (c *cluster) load(t *testing.T, ctx context.Context) (n *counters, l *lives, moves *atomic.Int64) {
	t.Helper()
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	n, l = c.insertCounters(t), c.shardLives(t)
	n.mayFail, l.mayFail = true, true
	n.start(t, ctx, 1)
	l.start(t, ctx, 1)
	return n, l, c.moveAll(t, ctx, n)
}

// moveAll moves chunks of app.c, app.l and app.m all the time, until ctx ends, beside the clients of
// n, and returns how many.
func (c *cluster) moveAll(t *testing.T, ctx context.Context, n *counters) *atomic.Int64 {
	moves := new(atomic.Int64)
	mover := c.routers[0].Client()
	n.clients.Go(func() {
		for ctx.Err() == nil {
			if c.moveAny(t, mover) {
				moves.Add(1)
			}
		}
	})
	return moves
}

// judge waits for all clients and holds what there is to what they were told.
func (c *cluster) judge(t *testing.T, n *counters, l *lives, kills int, moves *atomic.Int64) {
	t.Helper()
	n.clients.Wait()
	l.clients.Wait()
	c.settles(t)
	acknowledged, unknown := n.check(t)
	stay, went, left := l.check(t)
	t.Logf("%d kills, %d moves, %d increments acknowledged and %d unknown, %d documents stay, %d were deleted, %d expired, %d and %d reads",
		kills, moves.Load(), acknowledged, unknown, stay, went, left, n.reads.Load(), l.reads.Load())
	if moves.Load() < 2 || acknowledged < countedDocuments || min(stay, went, left) < 10 || min(n.reads.Load(), l.reads.Load()) < 5 {
		t.Error("that is too little")
	}
}

// moveAny moves a chunk to another shard, if the parts that it takes are there.
func (c *cluster) moveAny(t *testing.T, client *mongo.Client) bool {
	ns := []string{"app.c", "app.l", "app.m"}[rand.IntN(3)]
	var of struct{ UUID bson.Binary }
	var k chunk
	config := client.Database("config")
	err := config.Collection("collections").FindOne(t.Context(), bson.D{{Key: "_id", Value: ns}}).Decode(&of)
	if err == nil {
		err = config.Collection("chunks").FindOne(t.Context(), bson.D{{Key: "uuid", Value: of.UUID}}, options.FindOne().SetSkip(rand.Int64N(int64(2*len(c.shards))))).Decode(&k)
	}
	return err == nil && c.move(t, client, ns, k)
}
