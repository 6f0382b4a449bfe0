package cluster

import (
	"context"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestMoveCollectionUnderLoad: clients of two routers count in documents and read all of
// them while their collection goes from shard to shard as one that is not sharded, is
// sharded, and is unsharded.
func TestMoveCollectionUnderLoad(t *testing.T) {
	c := start(t, 3, 2)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	n := c.insertCounters(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	n.start(t, ctx, 1)
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
	increments, _ := n.check(t)
	on, err := c.shards[1].Direct().Database("app").Collection("c").CountDocuments(t.Context(), bson.D{})
	if err != nil || on != countedDocuments {
		t.Errorf("%d documents on s1: %v", on, err)
	}
	t.Logf("%d increments", increments)
}
