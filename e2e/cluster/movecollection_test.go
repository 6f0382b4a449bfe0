package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestMoveCollectionUnderLoad: clients of two routers count in documents and read all of
// them while their collection goes from shard to shard as one that is not sharded, is
// sharded, and is unsharded.
func TestMoveCollectionUnderLoad(t *testing.T) {
	const documents = 200
	c := start(t, 3, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}})
	}
	if _, err := c.routers[0].Client().Database("app").Collection("c").InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var counted [documents]atomic.Int64
	var all sync.WaitGroup
	for _, r := range c.routers {
		coll := r.Client().Database("app").Collection("c")
		all.Go(func() { count(t, ctx, coll, counted[:]) })
		all.Go(func() { read(t, ctx, coll, documents) })
	}
	move := func(to string) bson.D {
		return bson.D{{Key: "moveCollection", Value: "app.c"}, {Key: "toShard", Value: to}}
	}
	for _, command := range []bson.D{
		move("s1"), move("s2"), move("s0"), {{Key: "untrackUnshardedCollection", Value: "app.c"}},
		{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}},
		{{Key: "split", Value: "app.c"}, {Key: "middle", Value: bson.D{{Key: "_id", Value: 100}}}},
		{{Key: "moveChunk", Value: "app.c"}, {Key: "find", Value: bson.D{{Key: "_id", Value: 150}}}, {Key: "to", Value: "s1"}},
		{{Key: "unshardCollection", Value: "app.c"}, {Key: "toShard", Value: "s2"}},
		move("s1"),
	} {
		c.admin(t, command)
	}
	stop()
	all.Wait()
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
	increments := int64(0)
	for _, d := range found {
		want := counted[d.ID].Load()
		if increments += want; d.N != want {
			t.Errorf("document %d counts %d, and %d were answered", d.ID, d.N, want)
		}
	}
	on, err := c.shards[1].Direct().Database("app").Collection("c").CountDocuments(t.Context(), bson.D{})
	if err != nil || on != documents {
		t.Errorf("%d documents on s1: %v", on, err)
	}
	t.Logf("%d increments", increments)
}
