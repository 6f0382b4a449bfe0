package driver

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

type reading struct {
	ID     int       `bson:"_id"`
	At     time.Time `bson:"t"`
	Sensor int       `bson:"sensor"`
	Value  float64   `bson:"v"`
}

const (
	ingestWriters  = 4
	ingestReadings = 5000 // of each writer
	ingestSensors  = 7    // that all writers share
)

// ingested is the reading with an _id: those of a writer go on by half a
// minute, for nearly two days, across the bounds of many buckets.
func ingested(id int) reading {
	at := time.Date(2025, 12, 30, 0, 0, 0, 0, time.UTC).Add(time.Duration(id%ingestReadings) * 30 * time.Second)
	return reading{id, at, id % ingestSensors, float64(id) / 8}
}

// TestTimeSeriesIngest has several writers insert many readings at once,
// ordered and not, in the order of time and in none, and reads all of them back.
func TestTimeSeriesIngest(t *testing.T) {
	s := testkit.Start(t)
	db := s.Client().Database("app")
	err := db.CreateCollection(t.Context(), "readings", options.CreateCollection().SetTimeSeriesOptions(
		options.TimeSeries().SetTimeField("t").SetMetaField("sensor").SetGranularity("seconds")))
	if err != nil {
		t.Fatal(err)
	}
	c := db.Collection("readings")
	var writers sync.WaitGroup
	for w := range ingestWriters {
		writers.Go(func() { ingest(t, c, w) })
	}
	writers.Wait()
	readBack(t, c)
	sums(t, c)
	if n, err := db.Collection("system.buckets.readings").CountDocuments(t.Context(), bson.D{}); err != nil || n < 2*ingestSensors {
		t.Errorf("%d buckets, %v", n, err)
	}
	readBack(t, c) // once more, as all is packed now
}

// ingest inserts a writer's readings: odd ones shuffle them, and the last two
// of four insert unordered.
func ingest(t *testing.T, c *mongo.Collection, w int) {
	docs := make([]any, ingestReadings)
	for i := range docs {
		docs[i] = ingested(w*ingestReadings + i)
	}
	if w%2 == 1 {
		rand.New(rand.NewPCG(1, uint64(w))).Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	}
	o := options.InsertMany().SetOrdered(w < 2)
	for n := 1; len(docs) > 0; n = min(2*n, 1500) {
		n = min(n, len(docs))
		res, err := c.InsertMany(t.Context(), docs[:n], o)
		if err != nil || len(res.InsertedIDs) != n {
			t.Errorf("writer %d: %v, %v", w, res, err)
			return
		}
		docs = docs[n:]
	}
}

// readBack finds each reading once, as it was.
func readBack(t *testing.T, c *mongo.Collection) {
	t.Helper()
	const all = ingestWriters * ingestReadings
	if n, err := c.CountDocuments(t.Context(), bson.D{}); err != nil || n != all {
		t.Errorf("%d readings are counted, %v", n, err)
	}
	if n, err := c.EstimatedDocumentCount(t.Context()); err != nil || n != all {
		t.Errorf("%d readings are estimated, %v", n, err)
	}
	cur, err := c.Find(t.Context(), bson.D{}, options.Find().SetSort(eq("t", 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer cur.Close(t.Context())
	seen := map[int]bool{}
	var last time.Time
	for cur.Next(t.Context()) {
		var r reading
		if err := cur.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if want := ingested(r.ID); !r.At.Equal(want.At) || r.Sensor != want.Sensor || r.Value != want.Value || seen[r.ID] || r.At.Before(last) {
			t.Fatalf("%+v after %s, want %+v, seen: %t", r, last, want, seen[r.ID])
		}
		seen[r.ID], last = true, r.At
	}
	if err := cur.Err(); err != nil || len(seen) != all {
		t.Errorf("%d readings are found, %v", len(seen), err)
	}
}

// sums compares what each sensor has in an hour in the middle.
func sums(t *testing.T, c *mongo.Collection) {
	t.Helper()
	from := ingested(2000).At
	type group struct {
		Sensor int     `bson:"_id"`
		N      int     `bson:"n"`
		Sum    float64 `bson:"sum"`
	}
	want := map[int]group{}
	for id := range ingestWriters * ingestReadings {
		if r := ingested(id); !r.At.Before(from) && r.At.Before(from.Add(time.Hour)) {
			g := want[r.Sensor]
			want[r.Sensor] = group{r.Sensor, g.N + 1, g.Sum + r.Value}
		}
	}
	var got []group
	cur, err := c.Aggregate(t.Context(), mongo.Pipeline{
		eq("$match", eq("t", bson.D{{Key: "$gte", Value: from}, {Key: "$lt", Value: from.Add(time.Hour)}})),
		eq("$group", bson.D{{Key: "_id", Value: "$sensor"}, {Key: "n", Value: eq("$sum", 1)}, {Key: "sum", Value: eq("$sum", "$v")}}),
	})
	if err == nil {
		err = cur.All(t.Context(), &got)
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %v", got, err)
	}
	for _, g := range got {
		if g != want[g.Sensor] {
			t.Errorf("%+v, want %+v", g, want[g.Sensor])
		}
	}
}

// TestTimeSeriesRefusal inserts a reading without a time among others: what is
// before it stays, and what is after it where the insert is unordered.
func TestTimeSeriesRefusal(t *testing.T) {
	s := testkit.Start(t)
	db := s.Client().Database("app")
	for _, ordered := range []bool{true, false} {
		name := map[bool]string{true: "ordered", false: "unordered"}[ordered]
		err := db.CreateCollection(t.Context(), name, options.CreateCollection().SetTimeSeriesOptions(options.TimeSeries().SetTimeField("t").SetMetaField("sensor")))
		if err != nil {
			t.Fatal(err)
		}
		docs := make([]any, 300)
		for i := range docs {
			docs[i] = ingested(i * 100)
		}
		docs[200] = eq("sensor", 1)
		_, err = db.Collection(name).InsertMany(t.Context(), docs, options.InsertMany().SetOrdered(ordered))
		var failed mongo.BulkWriteException
		if !errors.As(err, &failed) || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != 200 || failed.WriteErrors[0].Code != 2 {
			t.Errorf("%s: %v", name, err)
		}
		want := map[bool]int64{true: 200, false: 299}[ordered]
		if n, err := db.Collection(name).CountDocuments(t.Context(), bson.D{}); err != nil || n != want {
			t.Errorf("%s: %d readings, %v", name, n, err)
		}
	}
}
