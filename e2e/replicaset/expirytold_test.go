package replicaset

import (
	"flag"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var expiring = flag.Int("expiring", 200_000, "how many documents expire as ranges while a stream is open")

// TestExpiryIsToldOnce holds that a stream tells of each document that goes as a range once, with
// its rule, and of none that stays.
func TestExpiryIsToldOnce(t *testing.T) {
	const many, writers = 2000, 4
	s := setOfOne(t, "--oplogSize", "20000", "--setParameter", "ttlMonitorSleepSecs=1", "--setParameter", "ttlMonitorEnabled=false")
	c := s.Direct().Database("app").Collection("due")
	if _, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	due, begun := *expiring/many*many, time.Now()
	begin := begun.Add(-24 * time.Hour)
	var filling sync.WaitGroup
	for w := range writers {
		filling.Go(func() {
			for first := w * many; first < due+many; first += writers * many { // the last ones stay
				docs := make([]any, many)
				for i := range docs {
					at := begin.Add(time.Duration(first+i) * 10 * time.Hour / time.Duration(due))
					if first+i >= due {
						at = begun.Add(24 * time.Hour)
					}
					docs[i] = bson.D{{Key: "_id", Value: first + i}, {Key: "at", Value: at}}
				}
				if _, err := c.InsertMany(t.Context(), docs); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	filling.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d documents after %s", due, time.Since(begun).Round(time.Second))
	stream, err := c.Watch(t.Context(), mongo.Pipeline{{{Key: "$project", Value: bson.D{{Key: "documentKey", Value: 1}, {Key: "expired", Value: 1}, {Key: "operationType", Value: 1}}}}},
		options.ChangeStream().SetBatchSize(50_000))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close(t.Context())
	parameter := bson.D{{Key: "setParameter", Value: 1}, {Key: "ttlMonitorEnabled", Value: true}}
	if err := s.Direct().Database("admin").RunCommand(t.Context(), parameter).Err(); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	times := make([]uint8, due)
	for told := 0; told < due; told++ {
		if !stream.Next(t.Context()) {
			t.Fatalf("the stream ends after %d events: %v", told, stream.Err())
		}
		e := stream.Current
		id := e.Lookup("documentKey", "_id").AsInt64()
		if id >= int64(due) || e.Lookup("operationType").StringValue() != "delete" || e.Lookup("expired", "rule").StringValue() != "at_1" {
			t.Fatalf("event %d: %s", told, e)
		}
		if times[id]++; times[id] > 1 {
			t.Fatalf("document %d is told twice", id)
		}
	}
	t.Logf("told after %s", time.Since(begun).Round(time.Millisecond))
	if stream.TryNext(t.Context()) {
		t.Errorf("there is one more: %s", stream.Current)
	}
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != many {
		t.Errorf("%d documents are left, not %d: %v", n, many, err)
	}
}
