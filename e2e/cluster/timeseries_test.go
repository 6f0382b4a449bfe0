package cluster

import (
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// shardSeries shards app.readings by the hash of the sensor and the time.
func (c *cluster) shardSeries(t *testing.T) *mongo.Collection {
	t.Helper()
	c.admin(t, bson.D{{Key: "shardCollection", Value: "app.readings"}, {Key: "key", Value: bson.D{{Key: "sensor", Value: "hashed"}, {Key: "at", Value: 1}}},
		{Key: "timeseries", Value: bson.D{{Key: "timeField", Value: "at"}, {Key: "metaField", Value: "sensor"}}}})
	return c.routers[0].Client().Database("app").Collection("readings")
}

// read inserts measurements with the _ids of a range.
func read(t *testing.T, coll *mongo.Collection, from, to int) {
	t.Helper()
	var docs []any
	for i := from; i < to; i++ {
		docs = append(docs, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: time.UnixMilli(1_700_000_000_000 + int64(i)*1000)}, {Key: "sensor", Value: i % 20}, {Key: "n", Value: 1}})
	}
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
}

// TestKillInMoveOfSeries is TestKillInMove for a time series: most measurements are in no
// bucket when a move begins.
func TestKillInMoveOfSeries(t *testing.T) {
	c := breakable(t)
	coll := c.shardSeries(t)
	written := 0
	for i, step := range moveSteps {
		for j, victim := range []string{"donor", "recipient", "config primary", "router"} {
			if !*long && j != (i+2)%4 {
				continue
			}
			t.Run(fmt.Sprintf("%s %d, the %s dies", step.request, step.behind, victim), func(t *testing.T) {
				read(t, coll, written, written+200)
				written += 200
				c.killAt(t, "app.system.buckets.readings", step, victim)
				read(t, coll, written, written+100)
				written += 100
				c.whole(t, coll, written, 1)
			})
		}
	}
	for i, s := range c.shards {
		if r := run(t, s.Direct().Database("app"), bson.D{{Key: "validate", Value: "readings"}, {Key: "full", Value: true}}); r["valid"] != true {
			t.Errorf("s%d: %v", i, r)
		}
	}
}
