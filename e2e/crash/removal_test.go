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
)

const (
	// lasting is how far in the future the dates lie that must outlive the test.
	lasting = 24 * time.Hour
	// batch is how many documents a writer inserts at once.
	batch = 50
)

// TestRemovalSurvivesKill kills the server while documents come due all the
// time and go, by windows and one by one, and others are touched: after each
// restart the collection is whole, and no document is gone that was
// acknowledged with a date in the future. At the end all that is due goes.
func TestRemovalSurvivesKill(t *testing.T) {
	s := testkit.Start(t, "--setParameter", "ttlMonitorSleepSecs=1")
	for name, on := range map[string]bool{"windows": true, "single": false} {
		if err := s.Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "expiryWindows", Value: on}}).Err(); err != nil {
			t.Fatal(err)
		}
		prepareRemoval(t, removalOf(s, name))
	}
	var next atomic.Int64
	kept := map[string]*keeper{"windows": {docs: map[int64]bool{}}, "single": {docs: map[int64]bool{}}}
	for range *rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for name, k := range kept {
			for range 2 {
				wg.Go(func() { feed(ctx, removalOf(s, name), k, &next) })
			}
		}
		time.Sleep(time.Duration(1000+rand.IntN(1000)) * time.Millisecond)
		s.Kill()
		cancel()
		wg.Wait()
		s.Run()
		for name, k := range kept {
			k.verify(t, removalOf(s, name))
		}
	}
	for name := range kept {
		awaitRemoval(t, removalOf(s, name))
		whole(t, removalOf(s, name))
	}
}

func removalOf(s *testkit.Server, name string) *mongo.Collection {
	return collection(s, journaled()).Database().Collection(name)
}

func prepareRemoval(t *testing.T, c *mongo.Collection) {
	t.Helper()
	var reply bson.M
	err := c.Database().RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: c.Name()}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"}, {Key: "expireAfterSeconds", Value: 0}},
		bson.D{{Key: "key", Value: bson.D{{Key: "k", Value: 1}}}, {Key: "name", Value: "k"}, {Key: "unique", Value: true}},
	}}}).Decode(&reply)
	if err != nil {
		t.Fatal(err)
	}
}

// keeper knows the documents that must not go.
type keeper struct {
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
func feed(ctx context.Context, c *mongo.Collection, k *keeper, next *atomic.Int64) {
	for {
		first := next.Add(batch) - batch
		docs := make([]any, batch)
		for i := range docs {
			at := time.Now().Add(time.Duration(rand.IntN(2000)) * time.Millisecond)
			docs[i] = bson.D{{Key: "_id", Value: first + int64(i)}, {Key: "k", Value: first + int64(i)}, {Key: "at", Value: at}, {Key: "pad", Value: "some words"}}
		}
		if _, err := c.InsertMany(ctx, docs); err != nil {
			return
		}
		id := first + int64(rand.IntN(batch))
		set := bson.D{{Key: "$set", Value: bson.D{{Key: "at", Value: time.Now().Add(lasting)}}}}
		res, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, set)
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
	cur, err := c.Find(t.Context(), bson.D{{Key: "at", Value: bson.D{{Key: "$gt", Value: time.Now().Add(lasting / 2)}}}})
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
func awaitRemoval(t *testing.T, c *mongo.Collection) {
	t.Helper()
	last := time.Now().Add(2 * time.Second)
	for deadline := last.Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		n, err := c.CountDocuments(t.Context(), bson.D{{Key: "at", Value: bson.D{{Key: "$lte", Value: last}}}})
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
