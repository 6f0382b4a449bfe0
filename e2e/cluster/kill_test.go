package cluster

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var long = flag.Bool("cluster.long", false, "kill every part at every step, instead of one at each")

// hang is how long a server keeps a request that it is to be killed at. One that is not
// killed executes it late, when the operation may have ended: it must then be refused.
const hang = 1500 * time.Millisecond

// breakable is a cluster of two shards whose servers can be made to hang at a request.
func breakable(t *testing.T) *cluster {
	t.Helper()
	const test = "enableTestCommands=1"
	c := &cluster{config: testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate", "--setParameter", test)}
	c.routers = append(c.routers, testkit.StartRouter(t, host("cfg", c.config)))
	for i := range 2 {
		name := fmt.Sprintf("s%d", i)
		s := testkit.Start(t, "--shardsvr", "--replSet", name, "--initiate", "--setParameter", test)
		c.shards = append(c.shards, s)
		c.admin(t, bson.D{{Key: "addShard", Value: host(name, s)}, {Key: "name", Value: name}})
	}
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	return c
}

// hangAt has a server hang at a request, the first or one behind so many.
func hangAt(t *testing.T, s *testkit.Server, request string, behind int) {
	t.Helper()
	mode := bson.D{{Key: "times", Value: 1}}
	if behind > 0 {
		mode = bson.D{{Key: "skip", Value: behind}}
	}
	run(t, s.Direct().Database("admin"), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: mode}, {Key: "data", Value: bson.D{
		{Key: "failCommands", Value: bson.A{request}}, {Key: "blockConnection", Value: true}, {Key: "blockTimeMS", Value: hang.Milliseconds()}}}})
}

// hangs waits until a server hangs at a request, or what was to bring it there has ended.
func hangs(t *testing.T, s *testkit.Server, request string, ended <-chan error) {
	t.Helper()
	admin := s.Direct().Database("admin")
	until(t, s.URI()+" gets "+request, func() error {
		select {
		case err := <-ended:
			t.Fatalf("it ended before %s: %v", request, err)
		default:
		}
		var found []bson.M
		cur, err := admin.Aggregate(t.Context(), mongo.Pipeline{
			{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: true}}}}, // which truncates none
			{{Key: "$match", Value: bson.D{{Key: "command." + request, Value: bson.D{{Key: "$exists", Value: true}}}}}},
		})
		if err == nil {
			err = cur.All(t.Context(), &found)
		}
		if err == nil && len(found) == 0 {
			err = errors.New("not yet")
		}
		return err
	})
}

// restart kills a server as kill -9 does, and starts it again.
func restart(s *testkit.Server) {
	s.Kill()
	s.Run()
}

// restartAt kills a server while one hangs at a request, and starts it again. It returns the time
// until which what hangs is executed, late, if at all: what its receiver had is gone with it.
func restartAt(t *testing.T, victim, gets *testkit.Server) time.Time {
	t.Helper()
	restart(victim)
	if victim == gets {
		return time.Now()
	}
	run(t, gets.Direct().Database("admin"), bson.D{{Key: "configureFailPoint", Value: "failCommand"}, {Key: "mode", Value: "off"}})
	return time.Now().Add(hang)
}

// settles waits until nothing is under way on the config servers.
func (c *cluster) settles(t *testing.T) {
	t.Helper()
	ops := c.routers[0].Client().Database("config").Collection("operations")
	until(t, "the operation ends", func() error {
		var left []bson.D
		cur, err := ops.Find(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: "last"}}}})
		if err == nil {
			err = cur.All(t.Context(), &left)
		}
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v", left)
		}
		return err
	})
}

// moveStep is a request of a move, which the donor or the recipient gets.
type moveStep struct {
	request string
	behind  int  // so many of them
	donor   bool // gets it
}

var moveSteps = []moveStep{
	{"_shardsvrReceive", 0, false}, {"_shardsvrClone", 0, true}, {"_shardsvrReceived", 0, false}, {"_shardsvrBlock", 0, true},
	{"_shardsvrBlock", 1, true}, {"_shardsvrOwn", 0, false}, {"_shardsvrGiven", 0, true},
}

// TestKillInMove: donor, recipient, the config primary or the router is killed while a shard has just
// got the request of a step. The move then ends, done or undone, and each document is there
// once, with all that was acknowledged.
func TestKillInMove(t *testing.T) {
	const documents = 300
	text := strings.Repeat("text ", 4000) // a chunk is so large that it is stored as a table
	c := breakable(t)
	for _, kind := range []struct {
		name    string
		key     bson.D
		expires bool
		short   []int // steps in the short form; nil for all
	}{
		{"c", bson.D{{Key: "_id", Value: "hashed"}}, false, nil}, // it lies by its shard key
		{"s", bson.D{{Key: "_id", Value: "hashed"}}, true, nil},  // or in slots
		{"r", bson.D{{Key: "_id", Value: 1}, {Key: "at", Value: 1}}, false, []int{1, 4}},
	} {
		ns := "app." + kind.name
		coll := c.routers[0].Client().Database("app").Collection(kind.name)
		c.admin(t, bson.D{{Key: "shardCollection", Value: ns}, {Key: "key", Value: kind.key}})
		if kind.expires {
			index := mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}
			if _, err := coll.Indexes().CreateOne(t.Context(), index); err != nil {
				t.Fatal(err)
			}
		}
		var docs []any
		for i := range documents {
			docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: 0}, {Key: "at", Value: time.Now().Add(time.Duration(i) * time.Hour).Add(time.Hour)}, {Key: "text", Value: text}})
		}
		if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
			t.Fatal(err)
		}
		all := incrementAll(documents)
		written := 0
		for i, step := range moveSteps {
			for j, victim := range []string{"donor", "recipient", "config primary", "router"} {
				if !*long && (j != i%4 || kind.short != nil && !slices.Contains(kind.short, i)) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s %d, the %s dies", ns, step.request, step.behind, victim), func(t *testing.T) {
					c.killAt(t, ns, step, victim)
					written++
					if result, err := coll.BulkWrite(t.Context(), all); err != nil || result.ModifiedCount != documents {
						t.Errorf("%+v %v", result, err)
					}
					c.whole(t, coll, documents, written)
				})
			}
		}
	}
}

// killAt moves the first chunk of a namespace to the other shard, and kills one part once a
// shard has got the request of a step. It returns when the move has ended.
func (c *cluster) killAt(t *testing.T, ns string, step moveStep, victim string) {
	k := c.chunksOf(t, ns)[0]
	to := map[string]string{"s0": "s1", "s1": "s0"}[k.Shard]
	parts := map[string]*testkit.Server{"donor": c.shard(k.Shard), "recipient": c.shard(to), "config primary": c.config, "router": c.routers[0]}
	gets := parts["recipient"]
	if step.donor {
		gets = parts["donor"]
	}
	hangAt(t, gets, step.request, step.behind)
	ended := make(chan error, 1)
	go func() {
		ended <- c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "moveRange", Value: ns}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: to}}).Err()
	}()
	hangs(t, gets, step.request, ended)
	late := restartAt(t, parts[victim], gets)
	t.Logf("the client hears: %v", <-ended)
	c.settles(t)
	time.Sleep(time.Until(late))
	t.Logf("%s had the range, and %s has it", k.Shard, c.chunksOf(t, ns)[0].Shard)
}

// whole demands that there are so many documents, each once, through the router and on the
// shards together, and that each counts so far.
func (c *cluster) whole(t *testing.T, coll *mongo.Collection, documents, n int) {
	t.Helper()
	cur, err := coll.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var found []struct {
		ID int `bson:"_id"`
		N  int
	}
	if err := cur.All(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, d := range found {
		seen[d.ID] = true
		if d.N != n {
			t.Errorf("document %d counts %d, want %d", d.ID, d.N, n)
		}
	}
	if len(found) != documents || len(seen) != documents {
		t.Errorf("%d documents, %d of them different", len(found), len(seen))
	}
	var on int64
	for _, s := range c.shards {
		k, err := s.Direct().Database(coll.Database().Name()).Collection(coll.Name()).CountDocuments(t.Context(), bson.D{})
		if err != nil {
			t.Error(err)
		}
		on += k
	}
	if on != int64(documents) {
		t.Errorf("the shards show %d documents together", on)
	}
}

// shard is the shard with a name.
func (c *cluster) shard(name string) *testkit.Server {
	var i int
	_, _ = fmt.Sscanf(name, "s%d", &i)
	return c.shards[i]
}

// incrementAll increments n of so many documents, each by a write of its own: drivers and
// routers try those again.
func incrementAll(documents int) (all []mongo.WriteModel) {
	for i := range documents {
		all = append(all, mongo.NewUpdateOneModel().SetFilter(bson.D{{Key: "_id", Value: i}}).SetUpdate(bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}))
	}
	return all
}
