package crash

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// lasting is how far in the future the dates lie that must outlive the test.
	lasting = 24 * time.Hour
	// batch is how many documents a writer inserts at once.
	batch = 50
)

// expiring is a kind of expiring collection: how its documents come due soon,
// how one is touched so that it lasts, and which those are.
type expiring struct {
	name    string
	windows bool
	index   bson.D // but its name
	soon    func() bson.D
	last    func() bson.D
	lasts   func() bson.D
	due     func(by time.Time) bson.D
}

func fields(kv ...any) (d bson.D) {
	for i := 0; i < len(kv); i += 2 {
		d = append(d, bson.E{Key: kv[i].(string), Value: kv[i+1]})
	}
	return d
}

func soonDate() time.Time { return time.Now().Add(time.Duration(rand.IntN(2000)) * time.Millisecond) }

// expirings are the kinds: by date, in windows and one by one, by date with a
// filter, and by the last write.
func expirings() []expiring {
	byDate := expiring{
		name: "single", index: fields("key", fields("at", 1), "expireAfterSeconds", 0),
		soon:  func() bson.D { return fields("at", soonDate()) },
		last:  func() bson.D { return fields("at", time.Now().Add(lasting)) },
		lasts: func() bson.D { return fields("at", fields("$gt", time.Now().Add(lasting/2))) },
		due:   func(by time.Time) bson.D { return fields("at", fields("$lte", by)) },
	}
	windows := byDate
	windows.name, windows.windows = "windows", true
	return []expiring{byDate, windows, {
		name: "partial", windows: true,
		index: fields("key", fields("at", 1), "expireAfterSeconds", 0, "partialFilterExpression", fields("kept", false)),
		soon:  func() bson.D { return fields("at", soonDate(), "kept", false) },
		last:  func() bson.D { return fields("kept", true) },
		lasts: func() bson.D { return fields("kept", true) },
		due:   func(by time.Time) bson.D { return fields("at", fields("$lte", by), "kept", false) },
	}, {
		name: "lastWrite", windows: true,
		index: fields("key", fields("_ts", 1), "expireAfterSeconds", 1,
			"storageEngine", fields("mayfly", fields("expiry", fields("by", "lastWrite")))),
		soon:  func() bson.D { return fields("ttl", []any{nil, 1, 2}[rand.IntN(3)]) },
		last:  func() bson.D { return fields("ttl", int(lasting/time.Second)) },
		lasts: func() bson.D { return fields("ttl", fields("$gt", 2)) },
		due:   func(time.Time) bson.D { return fields("ttl", fields("$not", fields("$gt", 2))) },
	}}
}

// TestRemovalSurvivesKill kills the server while documents come due all the
// time and go, by windows and one by one, and others are touched: after each
// restart the collections are whole, and no document is gone that was
// acknowledged with an instant in the future. At the end all that is due goes.
func TestRemovalSurvivesKill(t *testing.T) {
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	var kept []*keeper
	for _, e := range expirings() {
		if err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "expiryWindows", Value: e.windows}}).Err(); err != nil {
			t.Fatal(err)
		}
		if !e.windows { // it is to stay so
			off := fields("mayfly", fields("expiry", fields("relayout", "off")))
			if err := removalOf(s, e.name).Database().CreateCollection(t.Context(), e.name, options.CreateCollection().SetStorageEngine(off)); err != nil {
				t.Fatal(err)
			}
		}
		prepareRemoval(t, removalOf(s, e.name), e.index)
		kept = append(kept, &keeper{expiring: e, docs: map[int64]bool{}})
	}
	var next atomic.Int64
	for range *rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, k := range kept {
			for range 2 {
				wg.Go(func() { k.feed(ctx, removalOf(s, k.name), &next) })
			}
		}
		time.Sleep(time.Duration(1000+rand.IntN(1000)) * time.Millisecond)
		s.Kill()
		cancel()
		wg.Wait()
		s.Run()
		for _, k := range kept {
			k.verify(t, removalOf(s, k.name))
		}
	}
	for _, k := range kept {
		k.awaitRemoval(t, removalOf(s, k.name))
		whole(t, removalOf(s, k.name))
	}
}

func removalOf(s *testkit.Server, name string) *mongo.Collection {
	return collection(s, journaled()).Database().Collection(name)
}

func prepareRemoval(t *testing.T, c *mongo.Collection, index bson.D) {
	t.Helper()
	var reply bson.M
	err := c.Database().RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: c.Name()}, {Key: "indexes", Value: bson.A{
		append(index, bson.E{Key: "name", Value: "rule"}),
		bson.D{{Key: "key", Value: bson.D{{Key: "k", Value: 1}}}, {Key: "name", Value: "k"}, {Key: "unique", Value: true}},
	}}}).Decode(&reply)
	if err != nil {
		t.Fatal(err)
	}
}

// keeper knows the documents of a collection that must not go.
type keeper struct {
	expiring
	mu   sync.Mutex
	docs map[int64]bool
}

func (k *keeper) keep(id int64) {
	k.mu.Lock()
	k.docs[id] = true
	k.mu.Unlock()
}

// feed inserts documents that are due soon, and touches one of each batch so
// that it lasts, until an operation fails.
func (k *keeper) feed(ctx context.Context, c *mongo.Collection, next *atomic.Int64) {
	for {
		first := next.Add(batch) - batch
		docs := make([]any, batch)
		for i := range docs {
			docs[i] = append(fields("_id", first+int64(i), "k", first+int64(i), "pad", "some words"), k.soon()...)
		}
		if _, err := c.InsertMany(ctx, docs); err != nil {
			return
		}
		id := first + int64(rand.IntN(batch))
		res, err := c.UpdateOne(ctx, fields("_id", id), fields("$set", k.last()))
		if err != nil {
			return
		}
		if res.MatchedCount == 1 {
			k.keep(id)
		}
	}
}

func (k *keeper) verify(t *testing.T, c *mongo.Collection) {
	t.Helper()
	whole(t, c)
	found := map[int64]bool{}
	cur, err := c.Find(t.Context(), k.lasts())
	if err != nil {
		t.Fatal(err)
	}
	for cur.Next(t.Context()) {
		found[cur.Current.Lookup("_id").Int64()] = true
	}
	if err := cur.Err(); err != nil {
		t.Fatal(err)
	}
	for id := range k.docs {
		if !found[id] {
			t.Errorf("%s: document %d is gone, which was not due", c.Name(), id)
		}
	}
}

// whole validates a collection.
func whole(t *testing.T, c *mongo.Collection) {
	t.Helper()
	var res bson.M
	if err := c.Database().RunCommand(t.Context(), bson.D{{Key: "validate", Value: c.Name()}, {Key: "full", Value: true}}).Decode(&res); err != nil {
		t.Fatal(err)
	}
	if res["valid"] != true {
		t.Fatalf("validate: %v", res)
	}
}

// awaitRemoval waits until nothing due is left.
func (k *keeper) awaitRemoval(t *testing.T, c *mongo.Collection) {
	t.Helper()
	last := time.Now().Add(2 * time.Second)
	for deadline := last.Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		n, err := c.CountDocuments(t.Context(), k.due(last))
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d documents are due and still there", c.Name(), n)
		}
	}
}
