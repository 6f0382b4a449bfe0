package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// change is a change of the cluster that a test breaks off at a request, and makes again.
type change struct {
	command  bson.D
	requests []request
	// before, where not nil, makes what is changed; after judges what is there once the
	// change was made again.
	before, after func(t *testing.T, c *cluster, db *mongo.Database)
}

// request is what the shard with that number gets.
type request struct {
	name  string
	shard int
}

func filled(coll string) func(t *testing.T, c *cluster, db *mongo.Database) {
	return func(t *testing.T, c *cluster, db *mongo.Database) {
		c.admin(t, bson.D{{Key: "shardCollection", Value: "app." + coll}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
		var docs []any
		for i := range 100 {
			docs = append(docs, bson.D{{Key: "_id", Value: i}})
		}
		if _, err := db.Collection(coll).InsertMany(t.Context(), docs, unordered); err != nil {
			t.Fatal(err)
		}
	}
}

// holds demands that a collection has so many documents, on the shards together, too.
func holds(coll string, documents int64) func(t *testing.T, c *cluster, db *mongo.Database) {
	return func(t *testing.T, c *cluster, db *mongo.Database) {
		t.Helper()
		n, err := db.Collection(coll).CountDocuments(t.Context(), bson.D{})
		if err != nil || n != documents {
			t.Errorf("%s has %d documents, %v", coll, n, err)
		}
		var on int64
		for _, s := range c.shards {
			k, err := s.Direct().Database("app").Collection(coll).CountDocuments(t.Context(), bson.D{})
			if err != nil {
				t.Error(err)
			}
			on += k
		}
		if on != documents {
			t.Errorf("the shards have %d documents of %s", on, coll)
		}
	}
}

// gone demands that no shard has a collection.
func gone(coll string) func(t *testing.T, c *cluster, db *mongo.Database) {
	return func(t *testing.T, c *cluster, db *mongo.Database) {
		t.Helper()
		for i, s := range c.shards {
			names, err := s.Direct().Database("app").ListCollectionNames(t.Context(), bson.D{})
			if err != nil || slices.Contains(names, coll) {
				t.Errorf("shard %d has %v: %v", i, names, err)
			}
		}
	}
}

// plain inserts documents into a collection that is not sharded.
func plain(t *testing.T, c *cluster, db *mongo.Database) {
	if _, err := db.Collection("plain").InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
}

var changes = []change{
	{
		command:  bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}},
		requests: []request{{"_shardsvrShard", 0}, {"_shardsvrCreateSharded", 1}, {"_shardsvrVersion", 1}},
		after: func(t *testing.T, c *cluster, db *mongo.Database) {
			filled("c")(t, c, db)
			holds("c", 100)(t, c, db)
		},
	},
	{
		command: bson.D{{Key: "drop", Value: "c"}}, requests: []request{{"_shardsvrDrop", 0}, {"_shardsvrDrop", 1}},
		before: filled("c"), after: gone("c"),
	},
	{
		command:  bson.D{{Key: "renameCollection", Value: "app.c"}, {Key: "to", Value: "app.d"}},
		requests: []request{{"_shardsvrBlock", 1}, {"_shardsvrRename", 0}, {"_shardsvrRename", 1}}, before: filled("c"),
		after: func(t *testing.T, c *cluster, db *mongo.Database) {
			gone("c")(t, c, db)
			holds("d", 100)(t, c, db)
		},
	},
	{
		command: bson.D{{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "x", Value: 1}}}, {Key: "name", Value: "x_1"}}}}},
		before:  filled("c"), requests: []request{{"_shardsvrIndexes", 0}, {"_shardsvrIndexes", 1}},
		after: func(t *testing.T, c *cluster, db *mongo.Database) {
			for i, s := range c.shards {
				specs, err := s.Direct().Database("app").Collection("c").Indexes().ListSpecifications(t.Context())
				if err != nil || !slices.ContainsFunc(specs, func(ix mongo.IndexSpecification) bool { return ix.Name == "x_1" }) {
					t.Errorf("shard %d has %v: %v", i, specs, err)
				}
			}
		},
	},
	{
		command: bson.D{{Key: "dropDatabase", Value: 1}}, requests: []request{{"_shardsvrDropDatabase", 0}, {"_shardsvrDropDatabase", 1}},
		before: func(t *testing.T, c *cluster, db *mongo.Database) {
			filled("c")(t, c, db)
			plain(t, c, db)
		},
		after: func(t *testing.T, c *cluster, db *mongo.Database) {
			gone("c")(t, c, db)
			gone("plain")(t, c, db)
		},
	},
	{
		command:  bson.D{{Key: "refineCollectionShardKey", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}, {Key: "x", Value: 1}}}},
		requests: []request{{"_shardsvrRefine", 1}, {"_shardsvrBlock", 0}},
		before: func(t *testing.T, c *cluster, db *mongo.Database) {
			filled("c")(t, c, db)
			if _, err := db.Collection("c").Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "_id", Value: "hashed"}, {Key: "x", Value: 1}}}); err != nil {
				t.Fatal(err)
			}
		},
		after: func(t *testing.T, c *cluster, db *mongo.Database) {
			if key := c.keyOf(t, "app.c"); !strings.Contains(key, "x") {
				t.Errorf("the key is %s", key)
			}
			holds("c", 100)(t, c, db)
		},
	},
	{
		command:  bson.D{{Key: "movePrimary", Value: "app"}, {Key: "to", Value: "s1"}},
		requests: []request{{"_shardsvrSetDatabase", 0}, {"_shardsvrCloneDatabase", 1}, {"_shardsvrSetDatabase", 1}, {"_shardsvrDropUnsharded", 0}},
		before:   plain, after: holds("plain", 2),
	},
}

// ofAdmin are the changes that are commands on the database admin.
var ofAdmin = []string{"shardCollection", "renameCollection", "refineCollectionShardKey", "movePrimary"}

// TestKillInDDL: a shard that has just got the request of a change, the config primary, or the
// router is killed. The change then ends by itself, done or undone: made again it is as if it had
// been made once.
func TestKillInDDL(t *testing.T) {
	c := breakable(t)
	n := 0
	for _, d := range changes {
		for _, r := range d.requests {
			for j, victim := range []*testkit.Server{c.shards[r.shard], c.config, c.routers[0]} {
				n++
				name, who := d.command[0].Key, []string{"that shard", "the config primary", "the router"}[j]
				if !*long && j != n/3%3 {
					continue
				}
				t.Run(fmt.Sprintf("%s: %s on shard %d, %s dies", name, r.name, r.shard, who), func(t *testing.T) {
					c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
					client := c.routers[0].Client()
					db := client.Database("app")
					defer func() {
						if err := db.Drop(t.Context()); err != nil {
							t.Error(err)
						}
					}()
					if d.before != nil {
						d.before(t, c, db)
					}
					on := db
					if slices.Contains(ofAdmin, name) {
						on = client.Database("admin")
					}
					gets := c.shards[r.shard]
					hangAt(t, gets, r.name, 0)
					ended := make(chan error, 1)
					go func() { ended <- on.RunCommand(t.Context(), d.command).Err() }()
					hangs(t, gets, r.name, ended)
					restart(victim)
					t.Logf("the client hears: %v", <-ended)
					c.settles(t)
					// Made again: a rename that was done finds nothing to rename (26), and its
					// target (48).
					if err := again(t, on, d.command); err != nil && code(err) != 26 && code(err) != 48 {
						t.Errorf("made again: %v", err)
					}
					d.after(t, c, db)
				})
			}
		}
	}
}

// again runs a command, and once more where the connection to a router that was killed is
// found to be broken.
func again(t *testing.T, db *mongo.Database, command bson.D) error {
	err := db.RunCommand(t.Context(), command).Err()
	if mongo.IsNetworkError(err) {
		err = db.RunCommand(t.Context(), command).Err()
	}
	return err
}
