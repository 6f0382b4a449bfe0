package router_test

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestViews: a view is read through a router as on a server, whether its collection is
// sharded or not: with its own collation and no other, and it refuses writes.
func TestViews(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.sharded", key: {_id: "hashed"}}`)
	c.do("app", `{create: "plain", collation: {locale: "en", strength: 2}}`)
	for _, on := range []string{"sharded", "plain"} {
		c.do("app", `{insert: "`+on+`", documents: [{_id: 1, s: "a", l: [1, 2]}, {_id: 2, s: "A", l: [2, {m: 3}]}, {_id: 3, s: "b", l: 4, h: true}]}`)
		c.do("app", `{create: "v", viewOn: "`+on+`", pipeline: [{$match: {h: null}}]}`)
		for command, want := range map[string]string{
			`{find: "v", filter: {s: "a"}}`:                                         `[ { _id: 1, s: "a", l: [ 1, 2 ] } ]`,
			`{find: "v", sort: {_id: -1}, limit: 1, projection: {s: 1}}`:            `[ { _id: 2, s: "A" } ]`,
			`{aggregate: "v", pipeline: [{$match: {s: "A"}}], cursor: {}}`:          `[ { _id: 2, s: "A", l: [ 2, { m: 3 } ] } ]`,
			`{find: "v", filter: {s: "a"}, collation: {locale: "simple"}}`:          `[ { _id: 1, s: "a", l: [ 1, 2 ] } ]`,
			`{aggregate: "v", pipeline: [{$count: "n"}], cursor: {}, hint: "_id_"}`: `[ { n: 2 } ]`,
		} {
			if got := batch(c.do("app", command)); got != want {
				t.Errorf("%s on %s: %s", command, on, got)
			}
		}
		if got := c.do("app", `{distinct: "v", key: "l"}`).Lookup("values").String(); got != `[ 1, 2, { m: 3 } ]` {
			t.Errorf("distinct on %s: %s", on, got)
		}
		if got := c.do("app", `{count: "v", query: {s: "A"}}`).Lookup("n").String(); got != "1" {
			t.Errorf("count on %s: %s", on, got)
		}
		if plan := c.do("app", `{explain: {find: "v", filter: {s: "A"}}}`); !plan.Has("ok") || plan.Lookup("ok").String() != "1.0" {
			t.Errorf("explain on %s: %s", on, plan)
		}
		for command, code := range map[string]mongoerr.Code{
			`{find: "v", collation: {locale: "en"}}`:                                mongoerr.OptionNotSupportedOnView,
			`{aggregate: "v", pipeline: [], cursor: {}, collation: {locale: "en"}}`: mongoerr.OptionNotSupportedOnView,
			`{count: "v", hint: "nope"}`:                                            mongoerr.BadValue,
			`{find: "v", tailable: true}`:                                           mongoerr.InvalidPipelineOperator,
			`{findAndModify: "v", query: {}, update: {$set: {a: 1}}}`:               mongoerr.CommandNotSupportedOnView,
		} {
			if reply, err := c.try("app", command); !mongoerr.Is(err, code) {
				t.Errorf("%s on %s: %v %s, want code %d", command, on, err, reply, code)
			}
		}
		for _, command := range []string{`{insert: "v", documents: [{_id: 9}]}`, `{update: "v", updates: [{q: {}, u: {$set: {a: 1}}}]}`, `{delete: "v", deletes: [{q: {}, limit: 0}]}`} {
			reply, err := c.try("app", command)
			if d := bson.ClampToInt64(reply.Lookup("writeErrors").Doc().Lookup("0").Doc().Lookup("code")); d != int64(mongoerr.CommandNotSupportedOnView) && !mongoerr.Is(err, mongoerr.CommandNotSupportedOnView) {
				t.Errorf("%s on %s: %v %s", command, on, err, reply)
			}
		}
		c.do("app", `{drop: "v"}`)
	}
}

// TestLookupBelowAView: a pipeline on one shard that looks something up in a view of a collection
// that lies on several shards sees all of it.
func TestLookupBelowAView(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.spread", key: {x: 1}}`)
	c.do("admin", `{split: "app.spread", middle: {x: 5}}`)
	c.do("admin", `{moveChunk: "app.spread", find: {x: 5}, to: "s1"}`)
	c.fill("spread", 0, 10)
	c.do("app", `{create: "seen", viewOn: "spread", pipeline: [{$match: {x: {$gte: 3}}}]}`)
	c.do("app", `{insert: "alone", documents: [{_id: 1, x: 7}]}`)
	for text, want := range map[string]string{
		`{aggregate: "alone", pipeline: [{$lookup: {from: "seen", localField: "x", foreignField: "x", as: "of"}}, {$project: {n: {$size: "$of"}}}], cursor: {}}`:                               `[ { _id: 1, n: 1 } ]`,
		`{aggregate: "alone", pipeline: [{$unionWith: "seen"}, {$count: "n"}], cursor: {}}`:                                                                                                    `[ { n: 8 } ]`,
		`{aggregate: "alone", pipeline: [{$graphLookup: {from: "seen", startWith: "$x", connectFromField: "y", connectToField: "x", as: "of"}}, {$project: {n: {$size: "$of"}}}], cursor: {}}`: `[ { _id: 1, n: 2 } ]`,
	} {
		if got := batch(c.do("app", text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
