package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// moveTime is how long documents are counted in while chunks move.
const moveTime = 10 * time.Second

// TestMovesUnderLoad: clients of two routers count in documents and read all of them
// while chunks move all the time. Each increment that was answered is there once, and each
// reader sees every document once.
func TestMovesUnderLoad(t *testing.T) {
	c := start(t, 3, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	n := c.insertCounters(t)
	ctx, stop := context.WithTimeout(t.Context(), moveTime)
	defer stop()
	n.start(t, ctx, 2)
	moves := 0
	for ctx.Err() == nil && !t.Failed() {
		if c.moveSome(t) {
			moves++
		}
	}
	n.check(t)
	if moves < 2 {
		t.Errorf("only %d moves", moves)
	}
	t.Logf("%d moves", moves)
}

// moveSome moves a chunk to another shard, and reports whether it did. A move may fail and
// be undone: what readers and counters see is checked.
func (c *cluster) moveSome(t *testing.T) bool {
	chunks := c.chunksOf(t, "app.c")
	if len(chunks) == 0 {
		t.Error("no chunks")
		return false
	}
	return c.move(t, c.routers[0].Client(), "app.c", chunks[rand.IntN(len(chunks))])
}

// move moves a chunk of app.c to a shard chosen at random, and reports whether it did.
func (c *cluster) move(t *testing.T, client *mongo.Client, ns string, k chunk) bool {
	to := fmt.Sprintf("s%d", rand.IntN(len(c.shards)))
	if to == k.Shard {
		return false
	}
	err := client.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "moveRange", Value: ns}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: to},
	}).Err()
	if err != nil {
		t.Logf("moving %v to %s: %v", k, to, err)
	}
	return err == nil
}

// chunk is a document of config.chunks.
type chunk struct {
	Min, Max bson.D
	Shard    string
}

// chunksOf are the chunks of a collection, in order; none where the config servers do not
// say.
func (c *cluster) chunksOf(t *testing.T, ns string) (all []chunk) {
	t.Helper()
	config := c.routers[0].Client().Database("config")
	var of struct{ UUID bson.Binary }
	err := config.Collection("collections").FindOne(t.Context(), bson.D{{Key: "_id", Value: ns}}).Decode(&of)
	if err == nil {
		var cur *mongo.Cursor
		if cur, err = config.Collection("chunks").Find(t.Context(), bson.D{{Key: "uuid", Value: of.UUID}}, options.Find().SetSort(bson.D{{Key: "min", Value: 1}})); err == nil {
			err = cur.All(t.Context(), &all)
		}
	}
	if err != nil {
		t.Errorf("the chunks of %s: %v", ns, err)
	}
	return all
}
