package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// patience is how long something may take that takes a second.
const patience = 30 * time.Second

// until tries something again and again until it succeeds.
func until(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// code is that of a server's error, 0 for none.
func code(err error) int32 {
	var c mongo.CommandError
	if errors.As(err, &c) {
		return c.Code
	}
	var w mongo.WriteException
	if errors.As(err, &w) && w.WriteConcernError != nil {
		return int32(w.WriteConcernError.Code)
	}
	return 0
}

// as connects to a server as one of its users.
func as(t *testing.T, s *testkit.Server, user string) *mongo.Client {
	t.Helper()
	return testkit.Connect(t, options.Client().ApplyURI(fmt.Sprintf("mongodb://%s:pw@127.0.0.1:%d/?directConnection=true", user, s.Port)))
}

// keyFile writes a file with a key.
func keyFile(t *testing.T, text string) string {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	return path
}

// tells demands that a server's log has something.
func tells(t *testing.T, s *testkit.Server, what string) {
	t.Helper()
	until(t, "a line of the log", func() error {
		if !strings.Contains(s.Output(), what) {
			return errors.New(what)
		}
		return nil
	})
}

// secured is a cluster whose parts share a key, with the users root, and ann who may read
// and write the database app.
func secured(t *testing.T, key string) (*cluster, *mongo.Client) {
	t.Helper()
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate", "--keyFile", key)}
	for range 2 {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config), "--keyFile", key, "--setParameter", "userCacheInvalidationIntervalSecs=1"))
	}
	anybody := c.routers[0].Client().Database("admin")
	first := bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}
	until(t, "the first user", func() error { return anybody.RunCommand(t.Context(), first).Err() })
	again := bson.D{{Key: "createUser", Value: "eve"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}
	if err := anybody.RunCommand(t.Context(), again).Err(); code(err) != 13 {
		t.Errorf("the second user, by anybody: %v", err)
	}
	root := as(t, c.routers[0], "root")
	for i := range 2 {
		name := fmt.Sprintf("s%d", i)
		s := testkit.Start(t, "--shardsvr", "--replSet", name, "--initiate", "--keyFile", key)
		c.shards = append(c.shards, s)
		run(t, root.Database("admin"), bson.D{{Key: "addShard", Value: host(name, s)}, {Key: "name", Value: name}})
	}
	run(t, root.Database("admin"), bson.D{{Key: "createUser", Value: "ann"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{
		bson.D{{Key: "role", Value: "readWrite"}, {Key: "db", Value: "app"}}}}})
	return c, root
}

// TestAccessControl: users and roles lie on the config servers and hold on each router,
// and the parts of the cluster take requests among themselves only from each other.
func TestAccessControl(t *testing.T) {
	c, root := secured(t, keyFile(t, "b3VycyBhbG9uZQ=="))
	admin := root.Database("admin")
	run(t, admin, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	run(t, root.Database("other"), bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}})
	ann := as(t, c.routers[1], "ann")
	coll := ann.Database("app").Collection("c")
	var docs []any
	for i := range 200 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}})
	}
	if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "a", Value: 1}}}}); err != nil {
		t.Error(err)
	}
	err := ann.UseSession(t.Context(), func(ctx context.Context) error { // over both shards
		_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
			for i := range 8 {
				if _, err := coll.UpdateOne(ctx, bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 1}}}}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		return err
	})
	if n, e := coll.CountDocuments(t.Context(), bson.D{{Key: "b", Value: 1}}); err != nil || e != nil || n != 8 {
		t.Errorf("%d documents after a transaction: %v %v", n, err, e)
	}
	refused := func(who string, db *mongo.Database, command bson.D) {
		t.Helper()
		if err := db.RunCommand(t.Context(), command).Err(); code(err) != 13 {
			t.Errorf("%s may %v: %v", who, command, err)
		}
	}
	one := func(name string, v any) bson.D { return bson.D{{Key: name, Value: v}} }
	refused("ann", ann.Database("other"), one("find", "c"))
	refused("ann", ann.Database("admin"), one("shardCollection", "app.d"))
	refused("ann", ann.Database("admin"), one("listShards", 1))
	refused("ann", ann.Database("admin"), one("currentOp", 1))
	refused("ann", ann.Database("app"), bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: bson.A{one("$lookup", bson.D{{Key: "from", Value: bson.D{{Key: "db", Value: "other"}, {Key: "coll", Value: "c"}}},
		{Key: "pipeline", Value: bson.A{}}, {Key: "as", Value: "x"}})}}, {Key: "cursor", Value: bson.D{}}})
	refused("ann", ann.Database("app"), bson.D{{Key: "aggregate", Value: "c"}, {Key: "pipeline", Value: bson.A{one("$out", bson.D{{Key: "db", Value: "other"}, {Key: "coll", Value: "x"}})}}, {Key: "cursor", Value: bson.D{}}})
	refused("ann", ann.Database("admin"), bson.D{{Key: "renameCollection", Value: "app.c"}, {Key: "to", Value: "other.c"}})
	refused("ann", ann.Database("app"), bson.D{{Key: "createUser", Value: "eve"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{}}})
	if names, err := ann.ListDatabaseNames(t.Context(), bson.D{}); err != nil || fmt.Sprint(names) != "[app]" {
		t.Errorf("ann sees %v: %v", names, err)
	}
	anybody := c.routers[0].Client()
	refused("anybody", anybody.Database("app"), one("find", "c"))
	refused("anybody", c.shards[0].Direct().Database("app"), one("find", "c"))
	refused("anybody", c.shards[0].Direct().Database("admin"), one("_shardsvrOwned", 1))
	refused("anybody", c.config.Direct().Database("admin"), one("_configsvrRemoveShard", "s0"))
	refused("root", as(t, c.config, "root").Database("admin"), one("_configsvrRemoveShard", "s0"))
	if info := run(t, admin, one("usersInfo", "ann")); len(info["users"].(bson.A)) != 1 {
		t.Errorf("usersInfo: %v", info)
	}

	run(t, admin, one("balancerStop", 1))
	for _, to := range []string{"s1", "s0"} {
		run(t, admin, bson.D{{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: bson.D{{Key: "_id", Value: bson.MinKey{}}}}, {Key: "max", Value: one("_id", int64(-4611686018427387902))}, {Key: "toShard", Value: to}})
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{}); err != nil || n != 200 {
		t.Errorf("%d documents after moves: %v", n, err)
	}
	blockedWrites(t, c, root, ann)
	run(t, admin, bson.D{{Key: "revokeRolesFromUser", Value: "ann"}, {Key: "roles", Value: bson.A{bson.D{{Key: "role", Value: "readWrite"}, {Key: "db", Value: "app"}}}}})
	until(t, "the other router forgets what ann may do", func() error {
		if err := coll.FindOne(t.Context(), bson.D{}).Err(); code(err) != 13 {
			return fmt.Errorf("%w", errors.Join(errors.New("not refused"), err))
		}
		return nil
	})
}

// blockedWrites: a block of user writes holds for who has no privilege to write all the same, on
// each shard, though shards know only the router; it holds for a transaction from before, too.
func blockedWrites(t *testing.T, c *cluster, root, ann *mongo.Client) {
	t.Helper()
	block := func(on bool) {
		run(t, root.Database("admin"), bson.D{{Key: "setUserWriteBlockMode", Value: 1}, {Key: "global", Value: on}})
	}
	coll := ann.Database("app").Collection("c")
	session, err := ann.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	until(t, "a transaction", func() error { // ranges have just moved
		if err := session.StartTransaction(); err != nil {
			return err
		}
		within := mongo.NewSessionContext(t.Context(), session)
		for i := range 8 { // over both shards
			if _, err := coll.UpdateOne(within, bson.D{{Key: "_id", Value: i}}, bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 2}}}}); err != nil {
				_ = session.AbortTransaction(t.Context())
				return err
			}
		}
		return nil
	})
	block(true)
	for _, command := range []bson.D{
		{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 3}}}}}, {Key: "multi", Value: true}}}}},
		{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 3}}}}}}}}, {Key: "mayBypassWriteBlocking", Value: true}},
	} {
		var refused mongo.WriteException
		if err := ann.Database("app").RunCommand(t.Context(), command).Err(); !errors.As(err, &refused) || len(refused.WriteErrors) == 0 || refused.WriteErrors[0].Code != 371 {
			t.Errorf("ann writes: %v", err)
		}
	}
	for _, command := range []bson.D{{{Key: "drop", Value: "c"}}, {{Key: "create", Value: "d"}}, {{Key: "createIndexes", Value: "c"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "b", Value: 1}}}, {Key: "name", Value: "b"}}}}}} {
		if err := ann.Database("app").RunCommand(t.Context(), command).Err(); code(err) != 371 {
			t.Errorf("ann %v: %v", command, err)
		}
	}
	if err := session.CommitTransaction(t.Context()); err == nil {
		t.Error("ann commits what she began before")
	}
	if n, err := coll.CountDocuments(t.Context(), bson.D{{Key: "b", Value: bson.D{{Key: "$gt", Value: 1}}}}); err != nil || n != 0 {
		t.Errorf("%d documents were written: %v", n, err)
	}
	if res, err := root.Database("app").Collection("c").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 4}}}}); err != nil || res.ModifiedCount != 200 {
		t.Errorf("root, who may: %v %v", res, err)
	}
	block(false)
	if _, err := coll.UpdateOne(t.Context(), bson.D{{Key: "_id", Value: 7}}, bson.D{{Key: "$set", Value: bson.D{{Key: "b", Value: 5}}}}); err != nil {
		t.Error(err)
	}
}

// TestAnotherKey: who has another key, or none, is no part of the cluster, and both sides
// say so in their logs.
func TestAnotherKey(t *testing.T) {
	c, root := secured(t, keyFile(t, "b3VycyBhbG9uZQ=="))
	other := keyFile(t, "YW5vdGhlciBvbmU=")
	const refused, failed = "A server refuses the login of this process", `"isClusterMember":true,"mechanism":"SCRAM-SHA-256","user":"__system","db":"local"`

	shard := testkit.Start(t, "--shardsvr", "--replSet", "s9", "--initiate", "--keyFile", other)
	err := root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "addShard", Value: host("s9", shard)}, {Key: "name", Value: "s9"}}).Err()
	if err == nil || !strings.Contains(err.Error(), "Authentication failed") {
		t.Errorf("a shard with another key: %v", err)
	}
	tells(t, c.config, refused)
	tells(t, shard, failed)

	router := testkit.StartRouter(t, host("cfg", c.config), "--keyFile", other)
	tells(t, router, refused)
	tells(t, c.config, failed)
	if err := router.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "eve"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err(); err == nil {
		t.Error("a router with another key makes users")
	}

	keyless := testkit.StartRouter(t, host("cfg", c.config))
	if err := keyless.Client().Database("app").RunCommand(t.Context(), bson.D{{Key: "find", Value: "c"}}).Err(); code(err) != 13 {
		t.Errorf("a router without a key: %v", err)
	}
}
