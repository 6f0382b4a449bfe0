package cluster

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestMembersHoldWhatMoved: what a set of three receives is on each member, with the entries of
// all indexes, also on one that was killed while it came. Batches are large enough that members
// store them as tables.
func TestMembersHoldWhatMoved(t *testing.T) {
	const documents = 6000
	c, sets := startOfThree(t, 2, 1)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.c"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	coll := c.routers[0].Client().Database("app").Collection("c")
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "n", Value: 1}}}); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("text ", 400)
	for from := 0; from < documents; from += 1000 {
		var docs []any
		for i := from; i < from+1000; i++ {
			docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "n", Value: i % 10}, {Key: "text", Value: text}})
		}
		if _, err := coll.InsertMany(t.Context(), docs, unordered); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range []int{1, 0, 1} {
		name := fmt.Sprintf("s%d", to)
		ended := make(chan error, 1)
		go func() {
			var err error
			for _, k := range c.chunksOf(t, "app.c") {
				if k.Shard != name && err == nil {
					err = c.routers[0].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "moveRange", Value: "app.c"}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: name}}).Err()
				}
			}
			ended <- err
		}()
		members := sets[1+to]
		for _, m := range members {
			if m != primary(t, members) {
				restart(m)
				break
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		for i, other := range sets[1:] {
			for _, m := range other {
				want := int64(0)
				if i == to {
					want = documents
				}
				until(t, m.URI()+" holds what it should", func() error { return keepsAll(t, m, want) })
			}
		}
		if n, err := coll.CountDocuments(t.Context(), bson.D{{Key: "n", Value: bson.D{{Key: "$gte", Value: 0}}}}); err != nil || n != documents {
			t.Fatalf("%d documents: %v", n, err)
		}
	}
}

// keepsAll returns an error if a member's part of app.c is not valid, or has another number of
// documents.
func keepsAll(t *testing.T, m *testkit.Server, want int64) error {
	var v struct {
		Valid        bool
		NRecords     int64
		KeysPerIndex map[string]int64
		Errors       []string
	}
	err := m.Direct().Database("app").RunCommand(t.Context(), bson.D{{Key: "validate", Value: "c"}, {Key: "full", Value: true}}).Decode(&v)
	if err == nil && (!v.Valid || v.NRecords != want || v.KeysPerIndex["n_1"] != want) {
		err = fmt.Errorf("%+v", v)
	}
	return err
}
