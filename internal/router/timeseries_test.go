package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// readings inserts measurements {_id, at: n seconds after begin, sensor, v: n} for n of a
// range, of 20 sensors.
func (c *realCluster) readings(coll string, from, to int) {
	c.t.Helper()
	var docs []string
	for n := from; n < to; n++ {
		docs = append(docs, fmt.Sprintf(`{_id: %d, at: {"$date": {"$numberLong": "%d"}}, sensor: {n: %d}, v: %d}`, n, int64(1_700_000_000_000)+int64(n)*1000, n%20, n))
	}
	c.do("app", fmt.Sprintf(`{insert: %q, documents: [%s]}`, coll, strings.Join(docs, ", ")))
}

// count counts what a find returns on the router.
func (c *realCluster) count(coll, filter string) int {
	c.t.Helper()
	return c.do("app", fmt.Sprintf(`{find: %q, filter: %s, batchSize: 100000}`, coll, filter)).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Len()
}

// refused runs a command that fails with a code.
func (c *realCluster) refused(db, text string, code mongoerr.Code) {
	c.t.Helper()
	reply, err := c.try(db, text)
	if mongoerr.Is(err, code) || strings.Contains(reply.Lookup("writeErrors").String(), fmt.Sprintf("code: %d,", code)) {
		return
	}
	c.t.Fatalf("%s: not %d, but %v %s", text, code, err, reply)
}

const series = `timeseries: {timeField: "at", metaField: "sensor"}`

// TestShardedTimeSeries: a time series is sharded by the meta value and the time, as mongod
// shows it in config, and statements go where its measurements are.
func TestShardedTimeSeries(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for key, code := range map[string]mongoerr.Code{
		`{_id: 1}`: 5914001, `{v: 1, at: 1}`: 5914001, `{at: 1, sensor: 1}`: 5914000, `{at: "hashed"}`: mongoerr.BadValue, `{sensor: -1}`: mongoerr.BadValue,
	} {
		c.refused("admin", `{shardCollection: "app.bad", key: `+key+`, `+series+`}`, code)
	}
	c.refused("admin", `{shardCollection: "app.bad", key: {sensor: 1}, unique: true, `+series+`}`, mongoerr.InvalidOptions)
	c.refused("admin", `{shardCollection: "app.bad", key: {sensor: 1}, timeseries: {timeField: "at", wrong: 1}}`, mongoerr.IDLUnknownField)
	c.refused("admin", `{shardCollection: "app.system.buckets.bad", key: {at: 1}}`, 5731501)
	if got := batch(c.do("app", `{listCollections: 1}`)); got != "[  ]" && got != "[]" {
		t.Fatalf("what was refused made %s", got)
	}

	c.do("admin", `{shardCollection: "app.spread", key: {sensor: "hashed", at: 1}, `+series+`}`)
	c.do("admin", `{shardCollection: "app.spread", key: {sensor: "hashed", at: 1}}`) // as it is
	c.refused("admin", `{shardCollection: "app.spread", key: {sensor: 1}}`, mongoerr.AlreadyInitialized)
	c.readings("spread", 0, 400)
	stored := c.do("config", `{find: "collections", filter: {_id: "app.system.buckets.spread"}}`).Lookup("cursor").Doc().Lookup("firstBatch").String()
	for _, part := range []string{`key: { meta: "hashed", "control.min.at": 1 }`, `timeseriesFields: { timeField: "at", metaField: "sensor", granularity: "seconds", bucketMaxSpanSeconds: 3600 }`} {
		if !strings.Contains(strings.ReplaceAll(stored, `control.min.at: 1`, `"control.min.at": 1`), part) {
			t.Errorf("config.collections has %s, not %s", stored, part)
		}
	}
	parts := 0
	for _, s := range []string{"s0", "s1"} {
		n := c.on(s, "app", `{find: "spread", batchSize: 1000}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Len()
		if n == 0 || n == 400 {
			t.Errorf("%s has %d of 400 measurements", s, n)
		}
		parts += n
	}
	if n := c.count("spread", `{}`); n != 400 || parts != 400 {
		t.Fatalf("the router finds %d measurements, the shards have %d", n, parts)
	}
	if n := c.count("spread", `{sensor: {n: 7}}`); n != 20 {
		t.Errorf("%d measurements of a sensor", n)
	}
	stage := func(coll, filter string) string {
		return c.do("app", fmt.Sprintf(`{explain: {find: %q, filter: %s}}`, coll, filter)).Lookup("queryPlanner").Doc().Lookup("winningPlan").Doc().Lookup("stage").Str()
	}
	for filter, want := range map[string]string{`{sensor: {n: 7}}`: "SINGLE_SHARD", `{"sensor.n": 7}`: "SHARD_MERGE", `{v: 7}`: "SHARD_MERGE"} {
		if got := stage("spread", filter); got != want {
			t.Errorf("%s: %s, not %s", filter, got, want)
		}
	}
	if got := batch(c.do("app", `{aggregate: "spread", pipeline: [{$group: {_id: null, n: {$sum: 1}, v: {$sum: "$v"}}}], cursor: {}}`)); !strings.Contains(got, "n: 400, v: 79800") {
		t.Errorf("sums over the shards: %s", got)
	}
	if n := c.do("app", `{count: "spread", query: {v: {$lt: 100}}}`).Lookup("n").Int32(); n != 100 {
		t.Errorf("count: %d", n)
	}

	// One that lies on the primary shard already, by time.
	c.do("app", `{create: "late", `+series+`}`)
	c.readings("late", 0, 100)
	c.refused("admin", `{shardCollection: "app.late", key: {at: 1}, timeseries: {timeField: "at"}}`, mongoerr.InvalidOptions)
	c.refused("admin", `{shardCollection: "app.late", key: {at: 1}}`, mongoerr.InvalidOptions) // no index
	c.do("app", `{createIndexes: "late", indexes: [{key: {at: 1}, name: "at"}]}`)
	c.do("admin", `{shardCollection: "app.late", key: {at: 1}}`)
	c.readings("late", 100, 200)
	if n := c.count("late", `{}`); n != 200 {
		t.Errorf("%d measurements of 200", n)
	}
	c.testSeriesWrites()
	for _, text := range []string{`{renameCollection: "app.late", to: "app.later"}`, `{refineCollectionShardKey: "app.late", key: {at: 1, sensor: 1}}`, `{unshardCollection: "app.late"}`} {
		c.refused("admin", text, mongoerr.IllegalOperation)
	}
	c.refused("app", `{collMod: "late", timeseries: {granularity: "hours"}}`, mongoerr.InvalidOptions)
	c.do("app", `{collMod: "late", expireAfterSeconds: 1000000000}`)
	if !c.do("app", `{validate: "spread", full: true}`).Lookup("valid").Bool() {
		t.Error("not valid")
	}
	c.do("app", `{drop: "spread"}`)
	c.do("app", `{drop: "late"}`)
	for _, where := range []bson.Doc{c.do("config", `{find: "collections", filter: {_id: /spread|late/}}`), c.on("s1", "app", `{listCollections: 1}`), c.do("app", `{listCollections: 1, filter: {name: {$ne: "system.views"}}}`)} {
		if n := where.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Len(); n != 0 {
			t.Errorf("something is left: %s", where)
		}
	}
}

// testSeriesWrites updates and deletes measurements of app.spread.
func (c *realCluster) testSeriesWrites() {
	t := c.t
	c.refused("app", `{update: "spread", updates: [{q: {sensor: {n: 1}}, u: {$set: {v: 1}}}]}`, mongoerr.InvalidOptions)
	c.refused("app", `{update: "spread", updates: [{q: {sensor: {n: 1}}, u: {$set: {"sensor.x": 1}}, multi: true, upsert: true}]}`, mongoerr.InvalidOptions)
	c.refused("app", `{update: "spread", updates: [{q: {"sensor.n": 1}, u: {$set: {"sensor.x": 1}}, multi: true}]}`, mongoerr.InvalidOptions) // its shard key
	c.refused("app", `{findAndModify: "spread", query: {v: 1}, update: {$set: {v: 2}}}`, mongoerr.InvalidOptions)
	if n := c.do("app", `{delete: "spread", deletes: [{q: {v: {$lt: 50}}, limit: 0}]}`).Lookup("n").Int32(); n != 50 {
		t.Errorf("deleted %d of 50", n)
	}
	if n := c.do("app", `{delete: "spread", deletes: [{q: {sensor: {n: 3}, v: {$lt: 100}}, limit: 0}]}`).Lookup("n").Int32(); n != 2 {
		t.Errorf("deleted %d of 2", n)
	}
	c.do("app", `{insert: "spread", documents: [{_id: 1000, at: {"$date": "2026-01-01T00:00:00Z"}, sensor: {n: 1}}, {_id: 1000, at: {"$date": "2026-01-01T00:00:00Z"}, sensor: {n: 2}}, {_id: 1000, at: {"$date": "2026-01-01T00:00:00Z"}, sensor: {n: 4}}]}`)
	if n := c.do("app", `{delete: "spread", deletes: [{q: {_id: 1000}, limit: 1}]}`).Lookup("n").Int32(); n != 1 || c.count("spread", `{_id: 1000}`) != 2 {
		t.Errorf("a deleteOne by an _id that several shards have removed %d", n)
	}
	if v := c.do("app", `{findAndModify: "spread", query: {_id: 1000}, remove: true}`).Lookup("value"); v.Type != bson.TypeDocument || c.count("spread", `{_id: 1000}`) != 1 {
		t.Errorf("findAndModify removed %s", v)
	}
	if n := c.count("spread", `{}`); n != 349 {
		t.Errorf("%d measurements are left of 349", n)
	}
	if n := c.do("app", `{update: "late", updates: [{q: {"sensor.n": 3}, u: {$set: {"sensor.x": 1}}, multi: true}]}`).Lookup("nModified").Int32(); n != 10 || c.count("late", `{"sensor.x": 1}`) != 10 {
		t.Errorf("updated %d of 10", n)
	}
}
