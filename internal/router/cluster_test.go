package router_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/shard"
)

// startSet runs a replica set of one member, and returns its connection string.
func startSet(t *testing.T, name string) string {
	address := servertest.Start(t, "--replSet", name, "--initiate", "--setParameter", "enableTestCommands=1").Address
	return name + "/" + address
}

// fakeCluster is a router before shards that are plain replica sets: nobody checks
// versions there, and config.* is written by hand.
type fakeCluster struct {
	t      *testing.T
	router *client.Conn
	sets   map[string]*client.Set // "config", and the shards by name
	hosts  map[string]string
}

func newFakeCluster(t *testing.T, shards ...string) *fakeCluster {
	c := &fakeCluster{t: t, sets: map[string]*client.Set{}, hosts: map[string]string{}}
	for _, name := range append([]string{"config"}, shards...) {
		c.hosts[name] = startSet(t, name)
		at, err := client.ParseSetString(c.hosts[name])
		if err != nil {
			t.Fatal(err)
		}
		s := client.OpenSet(at, client.Options{}, new(client.Clock))
		t.Cleanup(s.Close)
		c.sets[name] = s
	}
	for _, name := range shards {
		c.on("config", "config", new(bson.Builder).String("insert", "shards").OpenArray("documents").OpenDoc("0").
			String("_id", name).String("host", c.hosts[name]).Int32("state", 1).Close().Close().Finish())
	}
	address := servertest.StartRouter(t, "--configdb", c.hosts["config"]).Address
	var err error
	if c.router, err = client.Connect(t.Context(), client.Options{Address: address}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.router.Close() })
	return c
}

// on runs a command on a set itself.
func (c *fakeCluster) on(set, db string, body bson.Doc) bson.Doc {
	c.t.Helper()
	a, err := c.sets[set].Run(c.t.Context(), client.Call{DB: db, Body: body})
	if err != nil {
		c.t.Fatalf("%s: %v", body, err)
	}
	return a.Reply
}

// database writes a database's entry.
func (c *fakeCluster) database(name, primary string) {
	c.on("config", "config", new(bson.Builder).String("insert", "databases").OpenArray("documents").OpenDoc("0").
		String("_id", name).String("primary", primary).OpenDoc("version").Binary("uuid", 4, make([]byte, 16)).Timestamp("timestamp", 1<<32).Int32("lastMod", 1).
		Close().Close().Close().Finish())
}

// shard writes the entries of a sharded collection: its chunks begin at the bounds and lie
// on the shards in turn.
func (c *fakeCluster) shard(ns string, key bson.Doc, bounds []bson.Doc, shards []string) {
	k, err := shard.ParseKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	uuid := bson.UUID(bson.NewUUID())
	g := shard.Generation{Epoch: bson.NewObjectID(), Timestamp: 7 << 32}
	at := k.Min()
	for i := 0; i <= len(bounds); i++ {
		end := k.Max()
		if i < len(bounds) {
			var ok bool
			if end, ok = k.ParseBound(bounds[i]); !ok {
				c.t.Fatalf("%s is no bound of %s", bounds[i], key)
			}
		}
		chunk := shard.Chunk{ID: bson.NewObjectID(), Range: shard.Range{Min: at, Max: end}, Shard: shards[i%len(shards)], Version: shard.Version{ShardGeneration: g, Major: 1, Minor: uint32(i)}}
		c.on("config", "config", new(bson.Builder).String("insert", "chunks").OpenArray("documents").Doc("0", k.ChunkDoc(uuid, &chunk)).Close().Finish())
		at = end
	}
	c.on("config", "config", new(bson.Builder).String("insert", "collections").OpenArray("documents").OpenDoc("0").
		String("_id", ns).ObjectID("lastmodEpoch", g.Epoch).Timestamp("timestamp", g.Timestamp).Binary("uuid", 4, uuid[:]).Doc("key", key).Bool("unique", false).
		Close().Close().Finish())
}

// times are what differs from run to run.
var times = regexp.MustCompile(`, "?\$clusterTime"?: \{.*$|, operationTime: Timestamp\([^)]*\)|, (electionId|opTime): [^,]*`)

// ids are what is made anew in each run.
var ids = regexp.MustCompile(`ObjectId\('[0-9a-f]*'\)|new Date\([0-9]*\)|connectionId: [0-9]*|UUID\('[^']*'\)|executionTimeMillis(Estimate)?: [0-9]*|totalChildMillis: [0-9]*|optimizationTimeMillis: [0-9]*|\bmillis: [0-9]*`)

// hosts are addresses, which differ, too.
var hosts = regexp.MustCompile(`(127\.0\.0\.1|localhost):[0-9]+|port: [0-9]+|host: "[^"]*"`)

// shown is a reply without what differs from run to run.
func shown(text string) string {
	text = hosts.ReplaceAllString(text, "host")
	return ids.ReplaceAllStringFunc(times.ReplaceAllString(text, " }"), func(id string) string {
		name, _, called := strings.Cut(id, "(")
		if !called { // a number, which is 0 more often than not
			name, _, _ = strings.Cut(name, ": ")
			name += ": 0"
		}
		return name + "(...)"
	})
}

// run sends a command and prints the reply, or the documents of its cursor, one a line.
func (c *fakeCluster) run(db, text string) string {
	d, err := bson.ParseJSON(text)
	if err != nil {
		c.t.Fatalf("%s: %v", text, err)
	}
	reply, err := c.router.Run(c.t.Context(), db, d)
	if err != nil {
		return "error: " + shown(reply.String()) + "\n"
	}
	v := reply.Lookup("cursor")
	if v.Type != bson.TypeDocument {
		return shown(reply.String()) + "\n"
	}
	var lines []string
	batches := 0
	for name := "firstBatch"; ; name = "nextBatch" {
		cursor := reply.Lookup("cursor").Doc()
		for doc := range cursor.Lookup(name).Doc().Values() {
			lines = append(lines, doc.String())
		}
		batches++
		id := cursor.Lookup("id").Int64()
		if id == 0 {
			break
		}
		_, coll, _ := strings.Cut(cursor.Lookup("ns").Str(), ".")
		if reply, err = c.router.Run(c.t.Context(), db, new(bson.Builder).Int64("getMore", id).String("collection", coll).Finish()); err != nil {
			return "error: " + err.Error() + "\n"
		}
	}
	if !d.Has("sort") && !strings.Contains(text, "$sort") {
		slices.Sort(lines)
	}
	return fmt.Sprintf("%s\n%d batches\n", shown(strings.Join(lines, "\n")), batches)
}

// TestScripts runs testdata/cluster: a line is a command of the database d, sent to the
// router ("run"), or to a shard itself ("on").
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/cluster", func(t *testing.T, path string) {
		c := newFakeCluster(t, "s0", "s1", "s2")
		c.database("d", "s0")
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				switch d.Cmd {
				case "shard":
					parts := strings.Fields(line)
					var bounds []bson.Doc
					key, err := bson.ParseJSON(parts[1])
					if err != nil {
						t.Fatal(err)
					}
					for _, b := range parts[2:] {
						bound, err := bson.ParseJSON(b)
						if err != nil {
							t.Fatal(err)
						}
						bounds = append(bounds, bound)
					}
					c.shard(parts[0], key, bounds, []string{"s0", "s1", "s2"})
				case "run":
					db := "d"
					if d.HasArg("db") {
						d.ScanArgs(t, "db", &db)
					}
					out.WriteString(c.run(db, line))
				case "on":
					var name string
					d.ScanArgs(t, "shard", &name)
					body, err := bson.ParseJSON(line)
					if err != nil {
						t.Fatal(err)
					}
					out.WriteString(shown(c.on(name, "d", body).String()) + "\n")
				}
			}
			return out.String()
		})
	})
}
