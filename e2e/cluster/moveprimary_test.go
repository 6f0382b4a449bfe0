package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// TestMovePrimaryUnderLoad: what is not sharded goes from shard to shard while clients of
// two routers write it, and a recipient is killed meanwhile. What was answered is there
// once; what is refused says that the database moves.
func TestMovePrimaryUnderLoad(t *testing.T) {
	c := start(t, 2, 2)
	c.admin(t, bson.D{{Key: "enableSharding", Value: "app"}, {Key: "primaryShard", Value: "s0"}})
	payload := make([]byte, 2000)
	db := c.routers[0].Client().Database("app")
	for _, name := range []string{"a", "b", "c"} {
		var docs []any
		for i := range 3000 {
			docs = append(docs, bson.D{{Key: "_id", Value: -1 - i}, {Key: "p", Value: payload}})
		}
		if _, err := db.Collection(name).InsertMany(t.Context(), docs); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var inserted [2]atomic.Int64
	var refused atomic.Int64
	var all sync.WaitGroup
	for w, r := range c.routers {
		all.Go(func() { insert(t, ctx, r.Client().Database("app").Collection("a"), w, &inserted[w], &refused) })
	}
	for i, to := range []string{"s1", "s0", "s1"} {
		done := make(chan error, 1)
		go func() {
			done <- c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "movePrimary", Value: "app"}, {Key: "to", Value: to}}).Err()
		}()
		if i == 1 {
			c.shards[0].Kill()
			c.shards[0].Run()
		}
		if err := <-done; err != nil {
			t.Fatalf("to %s: %v", to, err)
		}
		time.Sleep(200 * time.Millisecond) // some writes at the new place
	}
	stop()
	all.Wait()
	var want int64 = 3000
	for w := range inserted {
		want += inserted[w].Load()
	}
	n, err := db.Collection("a").CountDocuments(t.Context(), bson.D{})
	if err != nil || n != want {
		t.Errorf("%d documents, %d were answered: %v", n, want, err)
	}
	t.Logf("%d inserted, %d refused", want-3000, refused.Load())
}

// insert inserts documents until ctx ends.
func insert(t *testing.T, ctx context.Context, coll *mongo.Collection, w int, inserted, refused *atomic.Int64) {
	for i := 0; ctx.Err() == nil; i++ {
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: fmt.Sprintf("%d/%d", w, i)}})
		var failed mongo.ServerError
		switch {
		case err == nil:
			inserted.Add(1)
		case errors.As(err, &failed) && failed.HasErrorCode(319):
			refused.Add(1)
			time.Sleep(time.Millisecond)
		default:
			t.Errorf("inserting: %v", err)
			return
		}
	}
}

// TestMovePrimaryKeepsLastWrites: documents that movePrimary copies keep the time of their last
// write, from which a rule counts.
func TestMovePrimaryKeepsLastWrites(t *testing.T) {
	c := start(t, 2, 1)
	client := c.routers[0].Client()
	db := client.Database("app")
	rule := bson.D{{Key: "mayfly", Value: bson.D{{Key: "expiry", Value: bson.D{{Key: "by", Value: "lastWrite"}}}}}}
	index := bson.D{{Key: "key", Value: bson.D{{Key: "_ts", Value: 1}}}, {Key: "name", Value: "t"}, {Key: "expireAfterSeconds", Value: 3600}, {Key: "storageEngine", Value: rule}}
	run(t, db, bson.D{{Key: "createIndexes", Value: "kept"}, {Key: "indexes", Value: bson.A{index}}})
	coll := db.Collection("kept")
	if _, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	written := func() int64 {
		t.Helper()
		var d struct {
			TS int64 `bson:"_ts"`
		}
		if err := coll.FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Decode(&d); err != nil {
			t.Fatal(err)
		}
		return d.TS
	}
	before := written()
	until(t, "another second", func() error { // the time is in seconds
		if time.Now().Unix() <= before+1 {
			return errors.New("not yet")
		}
		return nil
	})
	var of struct{ Primary string }
	if err := client.Database("config").Collection("databases").FindOne(t.Context(), bson.D{{Key: "_id", Value: "app"}}).Decode(&of); err != nil {
		t.Fatal(err)
	}
	c.admin(t, bson.D{{Key: "movePrimary", Value: "app"}, {Key: "to", Value: map[string]string{"s0": "s1", "s1": "s0"}[of.Primary]}})
	if after := written(); before == 0 || after != before {
		t.Errorf("written at %d, %d after the move", before, after)
	}
}
