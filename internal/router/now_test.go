package router_test

import (
	"strings"
	"testing"
)

// TestNowIsOne: $$NOW is one time in a whole statement, on all shards and in the router's part.
func TestNowIsOne(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("app", `{create: "view", viewOn: "c", pipeline: [{$set: {at: "$$NOW"}}]}`)
	c.fill("c", 0, 200)
	for range 20 {
		for _, text := range []string{
			`{aggregate: "c", pipeline: [{$group: {_id: "$$NOW"}}, {$count: "n"}], cursor: {}}`,
			`{aggregate: "view", pipeline: [{$group: {_id: "$at"}}, {$count: "n"}], cursor: {}}`,
			`{aggregate: "c", pipeline: [{$set: {at: "$$NOW"}}, {$unionWith: {coll: "c", pipeline: [{$set: {at: "$$NOW"}}]}}, {$group: {_id: "$at"}}, {$count: "n"}], cursor: {}}`,
			`{aggregate: "c", pipeline: [{$group: {_id: null, at: {$max: "$$NOW"}}}, {$match: {$expr: {$eq: ["$at", "$$NOW"]}}}, {$count: "n"}], cursor: {}}`,
		} {
			if got := batch(c.do("app", text)); got != "[ { n: 1 } ]" {
				t.Errorf("%s: %s", text, got)
			}
		}
		c.do("app", `{update: "c", updates: [{q: {_id: {$lt: 100}}, u: [{$set: {at: "$$NOW"}}], multi: true}, {q: {_id: {$gte: 100}}, u: [{$set: {at: "$$NOW"}}], multi: true}]}`)
		if got := batch(c.do("app", `{aggregate: "c", pipeline: [{$group: {_id: "$at"}}], cursor: {}}`)); strings.Count(got, "_id") != 1 {
			t.Errorf("an update of many: %s", got)
		}
	}
}
