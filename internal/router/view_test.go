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
