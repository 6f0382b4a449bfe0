package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// lifeTime is how long a cluster is disturbed, killPause the time between two kills.
const (
	lifeTime  = 25 * time.Second
	killPause = 1500 * time.Millisecond
)

// tally is what the clients of a document have been told: so often it was counted up, and so
// often nobody knows.
type tally struct{ done, unknown atomic.Int64 }

// TestKilledUnderLoad: clients of two routers count in documents and read all of them
// while chunks move all the time, and every part of the cluster is killed, one after the
// other. Each increment that was acknowledged is there once, one that was not at most once,
// and each reader that is answered sees every document once.
func TestKilledUnderLoad(t *testing.T) {
	const documents = 200
	c := start(t, 3, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}})
	}
	if _, err := c.routers[0].Client().Database("app").Collection("c").InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), lifeTime)
	defer stop()
	var counted [documents]tally
	var reads atomic.Int64
	var all sync.WaitGroup
	for _, r := range c.routers {
		coll := r.Client().Database("app").Collection("c")
		for range 2 {
			all.Go(func() { countOn(t, ctx, coll, counted[:]) })
		}
		all.Go(func() { readOn(t, ctx, coll, documents, &reads) })
	}
	moves := 0
	mover := c.routers[0].Client()
	all.Go(func() {
		for ctx.Err() == nil {
			if c.moveAny(t.Context(), mover) {
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
	all.Wait()
	c.settles(t)
	var done, unknown int64
	for i := range counted {
		done, unknown = done+counted[i].done.Load(), unknown+counted[i].unknown.Load()
	}
	t.Logf("%d kills, %d moves, %d increments acknowledged and %d unknown, %d reads", kills, moves, done, unknown, reads.Load())
	if moves < 2 || done < documents || reads.Load() < 5 {
		t.Error("that is too little")
	}
	for _, r := range c.routers {
		cur, err := r.Client().Database("app").Collection("c").Find(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		var found []struct {
			ID int `bson:"_id"`
			N  int64
		}
		if err := cur.All(t.Context(), &found); err != nil || len(found) != documents {
			t.Fatalf("%d documents, %v", len(found), err)
		}
		for _, d := range found {
			if least, more := counted[d.ID].done.Load(), counted[d.ID].unknown.Load(); d.N < least || d.N > least+more {
				t.Errorf("document %d counts %d; %d were acknowledged, %d unknown", d.ID, d.N, least, more)
			}
		}
	}
}

// countOn increments documents until ctx ends, whatever fails.
func countOn(t *testing.T, ctx context.Context, coll *mongo.Collection, counted []tally) {
	for ctx.Err() == nil {
		i := rand.IntN(len(counted))
		result, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
		switch {
		case err != nil:
			counted[i].unknown.Add(1)
		case result.MatchedCount != 1:
			t.Errorf("document %d: %+v", i, result)
			return
		default:
			counted[i].done.Add(1)
		}
	}
}

// readOn reads all documents until ctx ends, and judges what is answered.
func readOn(t *testing.T, ctx context.Context, coll *mongo.Collection, documents int, reads *atomic.Int64) {
	for ctx.Err() == nil {
		var found []bson.M
		cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(50))
		if err == nil {
			err = cur.All(t.Context(), &found)
		}
		if err != nil {
			continue
		}
		reads.Add(1)
		seen := map[string]bool{}
		for _, d := range found {
			seen[fmt.Sprint(d["_id"])] = true
		}
		if len(found) != documents || len(seen) != documents {
			t.Errorf("a reader sees %d documents, %d of them different", len(found), len(seen))
			return
		}
	}
}

// moveAny moves a chunk to another shard, if all it needs is there.
func (c *cluster) moveAny(ctx context.Context, client *mongo.Client) bool {
	var k chunk
	if client.Database("config").Collection("chunks").FindOne(ctx, bson.D{}, options.FindOne().SetSkip(rand.Int64N(6))).Decode(&k) != nil {
		return false
	}
	to := fmt.Sprintf("s%d", rand.IntN(len(c.shards)))
	if to == k.Shard {
		return false
	}
	return client.Database("admin").RunCommand(ctx, bson.D{
		{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: to},
	}).Err() == nil
}
