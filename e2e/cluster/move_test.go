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
)

var unordered = options.InsertMany().SetOrdered(false)

// moveTime is how long documents are counted in while chunks move.
const moveTime = 10 * time.Second

// TestMovesUnderLoad: clients of two routers count in documents and read all of them
// while chunks move all the time. Each increment that was answered is there once, and each
// reader sees every document once.
func TestMovesUnderLoad(t *testing.T) {
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
	ctx, stop := context.WithTimeout(t.Context(), moveTime)
	defer stop()
	var counted [documents]atomic.Int64
	var all sync.WaitGroup
	for _, r := range c.routers {
		coll := r.Client().Database("app").Collection("c")
		for range 2 {
			all.Go(func() { count(t, ctx, coll, counted[:]) })
		}
		all.Go(func() { read(t, ctx, coll, documents) })
	}
	moves := 0
	for ctx.Err() == nil && !t.Failed() {
		if c.moveSome(t) {
			moves++
		}
	}
	all.Wait()
	if moves < 2 {
		t.Errorf("only %d moves", moves)
	}
	t.Logf("%d moves", moves)
	cur, err := c.routers[1].Client().Database("app").Collection("c").Find(t.Context(), bson.D{})
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
		if want := counted[d.ID].Load(); d.N != want {
			t.Errorf("document %d counts %d, and %d were answered", d.ID, d.N, want)
		}
	}
}

// count increments documents until ctx ends. One that was not answered may or may not be
// done: the test ends first.
func count(t *testing.T, ctx context.Context, coll *mongo.Collection, counted []atomic.Int64) {
	for ctx.Err() == nil {
		i := rand.IntN(len(counted))
		result, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
		if err != nil || result.MatchedCount != 1 {
			t.Errorf("document %d: %+v %v", i, result, err)
			return
		}
		counted[i].Add(1)
	}
}

// read reads all documents until ctx ends.
func read(t *testing.T, ctx context.Context, coll *mongo.Collection, documents int) {
	for ctx.Err() == nil {
		cur, err := coll.Find(t.Context(), bson.D{}, options.Find().SetBatchSize(50))
		if err != nil {
			t.Errorf("reading: %v", err)
			return
		}
		var found []bson.M
		if err := cur.All(t.Context(), &found); err != nil {
			t.Errorf("reading: %v", err)
			return
		}
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

// moveSome moves a chunk to another shard, and says whether it did. A move may fail and be
// undone: what the readers and counters see is judged.
func (c *cluster) moveSome(t *testing.T) bool {
	client := c.routers[0].Client()
	chunks := c.chunksOf(t, "app.c")
	if len(chunks) == 0 {
		t.Error("no chunks")
		return false
	}
	k := chunks[rand.IntN(len(chunks))]
	to := fmt.Sprintf("s%d", rand.IntN(len(c.shards)))
	if to == k.Shard {
		return false
	}
	err := client.Database("admin").RunCommand(t.Context(), bson.D{
		{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: to},
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
