package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// reshardSteps are the requests of a resharding, which each shard gets, so many of them
// before the one at which somebody is killed.
var reshardSteps = []struct {
	request string
	behind  int
}{
	{"_shardsvrReshard", 0}, {"_shardsvrReshardReceive", 0}, {"_shardsvrDonate", 1}, {"_shardsvrReshardReceived", 0},
	{"_shardsvrBlock", 0}, {"_shardsvrReshardReceived", 1}, {"_shardsvrBlock", 1}, {"_shardsvrReshardOwn", 0},
}

// TestKillInReshard: the shard that has just got the request of a step, another one, the
// config primary or the router is killed. The resharding then ends, done or undone, and each document is
// there once, with all that was acknowledged before and after.
func TestKillInReshard(t *testing.T) {
	const documents = 300
	c := breakable(t)
	run(t, c.config.Direct().Database("admin"), bson.D{{Key: "setParameter", Value: 1}, {Key: "reshardingCriticalSectionTimeoutMillis", Value: 60_000}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "k0", Value: "hashed"}}}})
	coll := c.routers[0].Client().Database("app").Collection("c")
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "k0", Value: i}, {Key: "k1", Value: -i}, {Key: "n", Value: 0}})
	}
	if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
		t.Fatal(err)
	}
	all := incrementAll(documents)
	written := 0
	for i, step := range reshardSteps {
		for j, victim := range []string{"its receiver", "another shard", "the config primary", "the router"} {
			if !*long && j != i%4 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d, %s dies", step.request, step.behind, victim), func(t *testing.T) {
				key := "k1"
				if strings.Contains(c.keyOf(t, "app.c"), "k1") {
					key = "k0"
				}
				c.killInReshardAt(t, "app.c", bson.D{{Key: key, Value: "hashed"}}, i, victim)
				t.Logf("it was to have %s, and has %s", key, c.keyOf(t, "app.c"))
				written++
				if result, err := coll.BulkWrite(t.Context(), all); err != nil || result.ModifiedCount != documents {
					t.Errorf("%+v %v", result, err)
				}
				c.whole(t, coll, documents, written)
				c.haveCollections(t, 1)
			})
		}
	}
}

// killInReshardAt gives a collection another shard key, and kills a part once a shard has got
// the request of the i-th step. It returns when the resharding has ended.
func (c *cluster) killInReshardAt(t *testing.T, ns string, key bson.D, i int, victim string) {
	t.Helper()
	step := reshardSteps[i]
	gets, victims := c.shards[i%2], map[string]*testkit.Server{"its receiver": c.shards[i%2], "another shard": c.shards[1-i%2], "the config primary": c.config, "the router": c.routers[0]}
	hangAt(t, gets, step.request, step.behind)
	ended := make(chan error, 1)
	go func() {
		ended <- c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "reshardCollection", Value: ns}, {Key: "key", Value: key}}).Err()
	}()
	hangs(t, gets, step.request, ended)
	late := restartAt(t, victims[victim], gets)
	t.Logf("the client hears: %v", <-ended)
	c.settles(t)
	time.Sleep(time.Until(late))
}

// haveCollections demands that each shard has so many collections in app.
func (c *cluster) haveCollections(t *testing.T, want int) {
	t.Helper()
	for _, s := range c.shards {
		names, err := s.Direct().Database("app").ListCollectionNames(t.Context(), bson.D{})
		if err != nil || len(names) != want {
			t.Errorf("a shard has %v: %v", names, err)
		}
	}
}

// TestKillInReshardOfSeries is TestKillInReshard for a time series, beside clients that insert:
// most measurements are in no bucket when a resharding begins.
func TestKillInReshardOfSeries(t *testing.T) {
	c := breakable(t)
	run(t, c.config.Direct().Database("admin"), bson.D{{Key: "setParameter", Value: 1}, {Key: "reshardingCriticalSectionTimeoutMillis", Value: 60_000}})
	coll := c.shardSeries(t)
	const entry = "app.system.buckets.readings"
	keys := []bson.D{{{Key: "at", Value: 1}}, {{Key: "sensor", Value: "hashed"}, {Key: "at", Value: 1}}}
	m := &measuring{acknowledged: map[int]bool{}}
	m.start(t, coll, 2)
	for i, step := range reshardSteps {
		for j, victim := range []string{"its receiver", "another shard", "the config primary", "the router"} {
			if !*long && j != i%4 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d, %s dies", step.request, step.behind, victim), func(t *testing.T) {
				key := keys[0]
				if !strings.Contains(c.keyOf(t, entry), "hashed") {
					key = keys[1]
				}
				c.killInReshardAt(t, "app.readings", key, i, victim)
				t.Logf("it was to have %v, and has %s", key, c.keyOf(t, entry))
				m.check(t, coll)
			})
		}
	}
	m.stop()
	m.check(t, coll)
	c.haveCollections(t, 2)
	for i, s := range c.shards {
		if r := run(t, s.Direct().Database("app"), bson.D{{Key: "validate", Value: "readings"}, {Key: "full", Value: true}}); r["valid"] != true {
			t.Errorf("s%d: %v", i, r)
		}
	}
	t.Logf("%d measurements acknowledged, of %d", len(m.acknowledged), m.next)
}

// measuring are clients that insert measurements, of which they know which were acknowledged.
// What failed may be there or not.
type measuring struct {
	mu           sync.Mutex
	next         int
	acknowledged map[int]bool
	over         atomic.Bool
	clients      sync.WaitGroup
}

func (m *measuring) start(t *testing.T, coll *mongo.Collection, clients int) {
	for range clients {
		m.clients.Go(func() {
			for !m.over.Load() {
				m.insert(t, coll)
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	t.Cleanup(m.stop)
}

func (m *measuring) stop() {
	m.over.Store(true)
	m.clients.Wait()
}

// insert inserts some measurements, of which one in ten is late.
func (m *measuring) insert(t *testing.T, coll *mongo.Collection) {
	m.mu.Lock()
	from := m.next
	m.next += 20
	m.mu.Unlock()
	var docs []any
	for i := from; i < from+20; i++ {
		at := 1_700_000_000_000 + int64(i)*1000
		if i%10 == 0 {
			at -= 86_400_000
		}
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: time.UnixMilli(at)}, {Key: "sensor", Value: i % 20}, {Key: "n", Value: 1}})
	}
	if _, err := coll.InsertMany(context.WithoutCancel(t.Context()), docs, unordered); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := from; i < from+20; i++ {
		m.acknowledged[i] = true
	}
}

// check demands that what was acknowledged is there, and nothing twice.
func (m *measuring) check(t *testing.T, coll *mongo.Collection) {
	t.Helper()
	m.mu.Lock()
	missing := maps.Clone(m.acknowledged)
	m.mu.Unlock()
	var found []struct {
		ID int `bson:"_id"`
	}
	cur, err := coll.Find(t.Context(), bson.D{})
	if err == nil {
		err = cur.All(t.Context(), &found)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, d := range found {
		if seen[d.ID] {
			t.Errorf("measurement %d is there twice", d.ID)
		}
		seen[d.ID] = true
		delete(missing, d.ID)
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d measurements that were acknowledged are not there", len(missing), len(found))
	}
}

// keyOf is the shard key of a collection, as text.
func (c *cluster) keyOf(t *testing.T, ns string) string {
	t.Helper()
	var d struct{ Key bson.D }
	if err := c.routers[0].Client().Database("config").Collection("collections").FindOne(t.Context(), bson.D{{Key: "_id", Value: ns}}).Decode(&d); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(d.Key)
}
