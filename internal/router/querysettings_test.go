package router_test

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestQuerySettings: what is set through a router holds for the cluster: shards read by the
// index that it names, and a shape that is to be rejected is.
func TestQuerySettings(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1"}, {key: {y: 1, z: 1}, name: "y_z"}]}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, x: 1, y: 1}, {_id: 2, x: 2, y: 1}, {_id: 3, x: 3, y: 1}, {_id: 4, x: 4, y: 1}]}`)
	plan := func(explain string) string {
		return c.do("app", `{explain: `+explain+`, verbosity: "queryPlanner"}`).Lookup("queryPlanner").String()
	}
	for _, query := range []string{`{find: "c", filter: {y: 1}`, `{aggregate: "c", pipeline: [{$match: {y: 1}}, {$sort: {x: 1}}]`, `{distinct: "c", key: "x", query: {y: 1}`} {
		for _, index := range []string{"y_1", "y_z"} {
			set := `{setQuerySettings: ` + query + `, $db: "app"}, settings: {indexHints: {ns: {db: "app", coll: "c"}, allowedIndexes: ["` + index + `"]}}}`
			hash := c.do("admin", set).Lookup("queryShapeHash").Str()
			explained := query + `}`
			if strings.Contains(query, "aggregate") {
				explained = query + `, cursor: {}}`
			}
			got := c.do("app", `{explain: `+explained+`, verbosity: "queryPlanner"}`).String()
			if n := strings.Count(got, `indexName: "`+index+`"`); n != 2 || strings.Contains(got, `indexName: "`+map[string]string{"y_1": "y_z", "y_z": "y_1"}[index]+`"`) {
				t.Errorf("%s with %s: %s", query, index, got)
			}
			if !strings.Contains(got, "querySettings: {") {
				t.Errorf("the plans do not show the settings: %s", got)
			}
			reply := c.do("app", explained) // with the field that shards get
			if n := reply.Lookup("cursor"); n.IsMissing() && !reply.Has("values") {
				t.Errorf("%s: %s", explained, reply)
			}
			c.do("admin", `{setQuerySettings: "`+hash+`", settings: {reject: true}}`)
			c.refused("app", explained, mongoerr.QueryRejectedBySettings)
			if got := c.do("app", `{explain: `+explained+`, verbosity: "queryPlanner"}`).String(); !strings.Contains(got, "reject: true") {
				t.Errorf("an explain of what is rejected: %s", got)
			}
			if got := c.do("admin", `{aggregate: 1, pipeline: [{$querySettings: {}}], cursor: {}}`).String(); !strings.Contains(got, hash) {
				t.Errorf("$querySettings has %s", got)
			}
			c.do("admin", `{removeQuerySettings: "`+hash+`"}`)
			c.do("app", explained)
			if got := c.do("admin", `{aggregate: 1, pipeline: [{$querySettings: {}}], cursor: {}}`).String(); strings.Contains(got, hash) {
				t.Errorf("$querySettings still has %s", got)
			}
		}
	}
	if got := plan(`{find: "c", filter: {x: 1}}`); strings.Contains(got, "querySettings") {
		t.Errorf("of another shape: %s", got)
	}
	c.refused("app", `{find: "c", querySettings: {reject: true}}`, mongoerr.IDLUnknownField)
	c.refused("app", `{explain: {find: "c", querySettings: {reject: true}}}`, mongoerr.IDLUnknownField)
	c.refused("admin", `{setQuerySettings: {find: "c", filter: {_id: 1}, $db: "app"}, settings: {reject: true}}`, 7746606)
}
