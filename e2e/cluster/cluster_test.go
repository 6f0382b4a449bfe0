package cluster

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// cluster is one as processes: config servers and shards of one member each.
type cluster struct {
	config  *testkit.Server
	shards  []*testkit.Server
	routers []*testkit.Server
}

// start runs a cluster with so many shards, s0 and on, and routers.
func start(t *testing.T, shards, routers int) *cluster {
	t.Helper()
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")}
	for range routers {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	}
	for i := range shards {
		c.addShard(t, i)
	}
	return c
}

var unordered = options.InsertMany().SetOrdered(false)

// host is the connection string of a set.
func host(set string, members ...*testkit.Server) string {
	var hosts []string
	for _, m := range members {
		hosts = append(hosts, m.Host())
	}
	return set + "/" + strings.Join(hosts, ",")
}

// expiresSoon has the monitor of a shard look every second.
const expiresSoon = "ttlMonitorSleepSecs=1"

func (c *cluster) addShard(t *testing.T, i int, args ...string) {
	name := fmt.Sprintf("s%d", i)
	s := testkit.Start(t, append([]string{"--shardsvr", "--replSet", name, "--initiate", "--setParameter", expiresSoon}, args...)...)
	c.shards = append(c.shards, s)
	c.admin(t, bson.D{{Key: "addShard", Value: host(name, s)}, {Key: "name", Value: name}})
}

// admin runs a command on the database admin of the first router, and wants it to succeed.
func (c *cluster) admin(t *testing.T, command bson.D) bson.M {
	t.Helper()
	return run(t, c.routers[0].Client().Database("admin"), command)
}

func run(t *testing.T, db *mongo.Database, command bson.D) bson.M {
	t.Helper()
	var reply bson.M
	if err := db.RunCommand(t.Context(), command).Decode(&reply); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
	return reply
}

// TestHashedSharding: the published distribution of user ids 0 to 19,999 over two shards,
// and what a driver does with such a collection.
func TestHashedSharding(t *testing.T) {
	c := start(t, 2, 2)
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.events"}, {Key: "key", Value: bson.D{{Key: "userId", Value: "hashed"}}}})
	db := c.routers[0].Client().Database("app")
	coll := db.Collection("events")
	var docs []any
	for i := range 20_000 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "userId", Value: i}, {Key: "n", Value: 0}})
	}
	if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	var on []int64
	for _, s := range c.shards {
		n, err := s.Direct().Database("app").Collection("events").CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Fatal(err)
		}
		on = append(on, n)
	}
	if on[0]+on[1] != 20_000 || on[0] != 10_140 && on[0] != 9_860 {
		t.Errorf("the shards have %v documents", on)
	}
	var doc bson.M
	if err := coll.FindOne(t.Context(), bson.D{{Key: "userId", Value: 777}}).Decode(&doc); err != nil || doc["_id"] != int32(777) {
		t.Errorf("%v %v", doc, err)
	}
	plan := run(t, db, bson.D{{Key: "explain", Value: bson.D{{Key: "find", Value: "events"}, {Key: "filter", Value: bson.D{{Key: "userId", Value: 777}}}}}})
	if stage := plan["queryPlanner"].(bson.D)[1].Value.(bson.D)[0].Value; stage != "SINGLE_SHARD" {
		t.Errorf("one user is found by %v", stage)
	}
	other := c.routers[1].Client().Database("app").Collection("events")
	updated, err := other.UpdateMany(t.Context(), bson.D{{Key: "userId", Value: bson.D{{Key: "$lt", Value: 100}}}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	if err != nil || updated.ModifiedCount != 100 {
		t.Errorf("%+v %v", updated, err)
	}
	one, err := other.UpdateOne(t.Context(), bson.D{{Key: "n", Value: 1}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	if err != nil || one.ModifiedCount != 1 {
		t.Errorf("one without the shard key: %+v %v", one, err)
	}
	cur, err := coll.Aggregate(t.Context(), mongo.Pipeline{{{Key: "$group", Value: bson.D{{Key: "_id", Value: "$n"}, {Key: "c", Value: bson.D{{Key: "$sum", Value: 1}}}}}}, {{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}}})
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		ID int `bson:"_id"`
		C  int
	}
	if err := cur.All(t.Context(), &groups); err != nil || fmt.Sprint(groups) != "[{0 19900} {1 99} {2 1}]" {
		t.Errorf("%v %v", groups, err)
	}
	deleted, err := coll.DeleteMany(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 10_000}}}})
	if err != nil || deleted.DeletedCount != 10_000 {
		t.Errorf("%+v %v", deleted, err)
	}
	if n, err := other.CountDocuments(t.Context(), bson.D{}); err != nil || n != 10_000 {
		t.Errorf("%d documents are left: %v", n, err)
	}
}
