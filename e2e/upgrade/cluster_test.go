package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// parts are those of the cluster of a release, with what they are started as.
var parts = []struct{ shard, set, role string }{{"config", "cfg", "--configsvr"}, {"s0", "s0", "--shardsvr"}, {"s1", "s1", "--shardsvr"}}

// startParts starts a cluster on the directories of its parts, at ports, and returns a router.
func startParts(t *testing.T, dir string, ports []int) *testkit.Server {
	t.Helper()
	for i, p := range parts {
		testkit.StartOn(t, ports[i], filepath.Join(dir, p.shard), p.role, "--replSet", p.set, "--initiate", "--advertise", host(ports[i])).Direct()
	}
	return testkit.StartRouter(t, "cfg/"+host(ports[0]))
}

func host(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func freePorts(t *testing.T) (ports []int) {
	t.Helper()
	for range parts {
		ports = append(ports, testkit.FreePort(t))
	}
	return ports
}

// TestReleasedCluster holds that the backups of clusters of all releases, which have the data of each
// part, are restored by this build, at other addresses, and are a cluster that has everything.
func TestReleasedCluster(t *testing.T) {
	if *write != "" {
		writeCluster(t, filepath.Join("testdata", *write))
	}
	all, err := filepath.Glob("testdata/*/cluster/backup.tar.gz")
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, path := range all {
		t.Run(path, func(t *testing.T) {
			repository, dir, ports := t.TempDir(), filepath.Join(t.TempDir(), "new"), freePorts(t)
			unpack(t, path, repository)
			want, err := os.ReadFile(filepath.Join(filepath.Dir(path), "content.json"))
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"restore", "--from", repository, "--to", dir}
			for i, p := range parts {
				args = append(args, "--host", fmt.Sprintf("%s=%s/%s", p.shard, p.set, host(ports[i])))
			}
			if code, out := testkit.Exec(t, nil, args...); code != 0 {
				t.Fatalf("the restore: %d\n%s", code, out)
			}
			c := startParts(t, dir, ports).Client()
			if got := dump(t, c); got != string(want) {
				t.Errorf("it has\n%s\nwant\n%s", firstDifference(got, string(want)), path)
			}
			checkCluster(t, c)
			if _, err := c.Database("shop").Collection("events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: "new"}}); err != nil {
				t.Error(err)
			}
		})
	}
}

// checkCluster holds that the metadata of a cluster and what its shards have agree.
func checkCluster(t *testing.T, c *mongo.Client) {
	t.Helper()
	cur, err := c.Database("admin").RunCommandCursor(t.Context(), bson.D{{Key: "checkMetadataConsistency", Value: 1}, {Key: "checkIndexes", Value: true}})
	var found []bson.Raw
	if err == nil {
		err = cur.All(t.Context(), &found)
	}
	if err != nil || len(found) > 0 {
		t.Errorf("the metadata do not agree: %s, %v", found, err)
	}
}

// writeCluster makes the files of a cluster: its backup, and what a client read.
func writeCluster(t *testing.T, to string) {
	t.Helper()
	dir, ports := t.TempDir(), freePorts(t)
	for _, p := range parts {
		if err := os.Mkdir(filepath.Join(dir, p.shard), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	router := startParts(t, dir, ports)
	c := router.Client()
	admin := func(command bson.D) {
		t.Helper()
		if err := c.Database("admin").RunCommand(t.Context(), command).Err(); err != nil {
			t.Fatalf("%v: %v", command, err)
		}
	}
	for i, p := range parts[1:] {
		admin(bson.D{{Key: "addShard", Value: p.set + "/" + host(ports[i+1])}, {Key: "name", Value: p.shard}})
	}
	admin(bson.D{{Key: "enableSharding", Value: "shop"}, {Key: "primaryShard", Value: "s1"}})
	fill(t, c)
	admin(bson.D{{Key: "shardCollection", Value: "shop.events"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	admin(bson.D{{Key: "shardCollection", Value: "shop.clustered"}, {Key: "key", Value: bson.D{{Key: "_id", Value: 1}}}})
	admin(bson.D{{Key: "moveRange", Value: "shop.clustered"}, {Key: "toShard", Value: "s0"}, {Key: "min", Value: bson.D{{Key: "_id", Value: bson.MinKey{}}}}})
	var docs []any
	for i := range 200 {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: far}})
	}
	if _, err := c.Database("shop").Collection("events").InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	transact(t, c)
	checkCluster(t, c)
	text, repository := dump(t, c), t.TempDir()
	if code, out := testkit.Exec(t, nil, "backup", "--uri", router.URI(), "--to", repository); code != 0 {
		t.Fatalf("the backup: %d\n%s", code, out)
	}
	to = filepath.Join(to, "cluster")
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to, "content.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	pack(t, repository, filepath.Join(to, "backup.tar.gz"))
}
