package crash

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	measurementWriters = 4
	measurementBatch   = 100
	// measurementStep is the time from one measurement to the next: buckets of an
	// hour are over every other batch.
	measurementStep = 20 * time.Second
)

// TestAcknowledgedMeasurementsSurviveKill keeps writers inserting into a
// time-series collection, ordered and unordered, while its buckets fill and
// their spans end, kills the server under them, restarts it, and demands each
// acknowledged measurement once and a clean validate.
func TestAcknowledgedMeasurementsSurviveKill(t *testing.T) {
	s := testkit.Start(t)
	err := s.Client().Database("crash").CreateCollection(t.Context(), "readings", options.CreateCollection().SetTimeSeriesOptions(
		options.TimeSeries().SetTimeField("t").SetMetaField("sensor").SetGranularity("seconds")))
	if err != nil {
		t.Fatal(err)
	}
	var writers [measurementWriters]measuring
	for range max(2, *rounds/2) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for w := range measurementWriters {
			wg.Go(func() {
				c := s.Client().Database("crash").Collection("readings")
				writers[w].insert(ctx, c, int32(w))
			})
		}
		time.Sleep(time.Duration(300+rand.IntN(500)) * time.Millisecond)
		s.Kill()
		cancel()
		wg.Wait()
		s.Run()
		verifyMeasurements(t, s.Client().Database("crash").Collection("readings"), writers[:])
	}
	if writers[0].next == 0 {
		t.Fatal("nothing was ever acknowledged")
	}
}

// measuring is one writer: the number of its next measurement, and those from
// which on a batch was under way at a kill, so that any of it may be there.
type measuring struct {
	next int32
	torn map[int32]bool
}

// insert inserts batches until one fails.
func (m *measuring) insert(ctx context.Context, c *mongo.Collection, writer int32) {
	for {
		var docs []any
		begun := m.next
		for range measurementBatch {
			n := m.next
			at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * measurementStep)
			docs = append(docs, bson.D{{Key: "_id", Value: bson.D{{Key: "w", Value: writer}, {Key: "n", Value: n}}},
				{Key: "t", Value: at}, {Key: "sensor", Value: n % 3}, {Key: "v", Value: float64(n) / 10}})
			m.next++
		}
		if _, err := c.InsertMany(ctx, docs, options.InsertMany().SetOrdered(m.next%200 == 0)); err != nil {
			if m.torn == nil {
				m.torn = map[int32]bool{}
			}
			m.torn[begun] = true
			return
		}
	}
}

// verifyMeasurements demands what is acknowledged, and nothing twice.
func verifyMeasurements(t *testing.T, c *mongo.Collection, writers []measuring) {
	t.Helper()
	cur, err := c.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int32]bool{}
	for cur.Next(t.Context()) {
		var d struct {
			ID struct{ W, N int32 } `bson:"_id"`
			V  float64
		}
		if err := cur.Decode(&d); err != nil {
			t.Fatal(err)
		}
		key := [2]int32{d.ID.W, d.ID.N}
		if seen[key] || d.V != float64(d.ID.N)/10 {
			t.Fatalf("measurement %v of writer %d is there twice, or wrong: %v", d.ID.N, d.ID.W, d.V)
		}
		seen[key] = true
	}
	if err := cur.Err(); err != nil {
		t.Fatal(err)
	}
	for w, m := range writers {
		for n := range m.next {
			if !seen[[2]int32{int32(w), n}] && !m.torn[n-n%measurementBatch] {
				t.Fatalf("acknowledged measurement %d of writer %d is gone", n, w)
			}
		}
	}
	var v struct{ Valid bool }
	if err := c.Database().RunCommand(t.Context(), bson.D{{Key: "validate", Value: c.Name()}}).Decode(&v); err != nil || !v.Valid {
		t.Fatalf("not valid: %v", err)
	}
	count, err := c.EstimatedDocumentCount(t.Context())
	if err != nil || int(count) != len(seen) {
		t.Fatalf("the count is %d, but there are %d measurements, %v", count, len(seen), err)
	}
}
