package router_test

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestDefaultConcerns holds that a router knows the cluster's defaults, and that writes
// without a write concern have the default one on the shards.
func TestDefaultConcerns(t *testing.T) {
	c := newCluster(t, 2)
	unmet := func(what string, reply bson.Doc, err error) {
		t.Helper()
		text := ""
		if v := reply.Lookup("writeConcernError"); v.Type == bson.TypeDocument {
			text = v.String()
		}
		if err != nil || !strings.Contains(text, "code: 100,") || !strings.Contains(text, `w: 3`) {
			t.Errorf("%s: %s, %v", what, reply, err)
		}
	}
	met := func(what string, reply bson.Doc, err error) {
		t.Helper()
		if err != nil || reply.Has("writeConcernError") || reply.Has("writeErrors") {
			t.Errorf("%s: %s, %v", what, reply, err)
		}
	}
	got := c.do("admin", `{getDefaultRWConcern: 1}`).String()
	if want := `defaultReadConcern: { level: "local" }, defaultReadConcernSource: "implicit", defaultWriteConcern: { w: "majority", wtimeout: 0 }, defaultWriteConcernSource: "implicit"`; !strings.Contains(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	for text, want := range map[string]string{
		`{setDefaultRWConcern: 1}`:                                              `At least one of`,
		`{setDefaultRWConcern: 1, defaultWriteConcern: {w: 0}}`:                 `Unacknowledged write concern`,
		`{setDefaultRWConcern: 1, defaultReadConcern: {level: "linearizable"}}`: `not suitable`,
		`{setDefaultRWConcern: 1, nope: 1}`:                                     `unknown field`,
	} {
		if _, err := c.try("admin", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{getDefaultRWConcern: 1}`, `{setDefaultRWConcern: 1, defaultWriteConcern: {w: 1}}`} {
		if _, err := c.shards["s0"].Run(t.Context(), "admin", bson.MustParse(text)); err == nil || !strings.Contains(err.Error(), "not supported on shard nodes") {
			t.Errorf("%s on a shard: %v", text, err)
		}
	}
	c.do("admin", `{shardCollection: "d.c", key: {_id: "hashed"}}`)
	c.do("admin", `{setDefaultRWConcern: 1, defaultWriteConcern: {w: 3, wtimeout: 1}, defaultReadConcern: {level: "majority"}}`)
	got = c.do("admin", `{getDefaultRWConcern: 1, inMemory: true}`).String()
	for _, want := range []string{`defaultWriteConcern: { w: 3, wtimeout: 1 }`, `defaultWriteConcernSource: "global"`, `defaultReadConcern: { level: "majority" }`, `inMemory: true`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, text := range []string{
		`{insert: "c", documents: [{_id: 1}]}`,
		`{update: "c", updates: [{q: {_id: 1}, u: {$set: {a: 1}}}]}`,
		`{update: "c", updates: [{q: {a: 1}, u: {$set: {a: 2}}}]}`,
		`{findAndModify: "c", query: {_id: 1}, update: {$set: {a: 3}}}`,
		`{findAndModify: "c", query: {a: 3}, remove: true}`,
		`{delete: "c", deletes: [{q: {_id: 1}, limit: 0}]}`,
		`{insert: "c", documents: [{_id: 5}], writeConcern: {wtimeout: 2}}`, // w is the default's
		`{aggregate: "c", pipeline: [{$match: {_id: 5}}, {$merge: "m"}], cursor: {}}`,
		`{aggregate: "c", pipeline: [{$match: {a: null}}, {$group: {_id: "$_id"}}, {$merge: "m"}], cursor: {}}`,
		`{aggregate: "c", pipeline: [{$match: {_id: 5}}, {$out: "o"}], cursor: {}}`,
		`{aggregate: "c", pipeline: [{$match: {a: null}}, {$group: {_id: "$_id"}}, {$out: "o"}], cursor: {}}`,
	} {
		reply, err := c.try("d", text)
		unmet(text, reply, err)
	}
	reply, err := c.try("admin", `{bulkWrite: 1, ops: [{insert: 0, document: {_id: 6}}], nsInfo: [{ns: "d.c"}]}`)
	unmet("bulkWrite", reply, err)
	reply, err = c.try("d", `{insert: "c", documents: [{_id: 7}], writeConcern: {w: 1}}`)
	met("a write concern of the client's own", reply, err)
	if n := c.do("d", `{count: "c"}`).Lookup("n").Int32(); n != 3 {
		t.Errorf("%d documents, want 3", n)
	}
	c.do("admin", `{setDefaultRWConcern: 1, defaultWriteConcern: {w: 1}}`)
	reply, err = c.try("d", `{insert: "c", documents: [{_id: 8}]}`)
	met("a default that can be met", reply, err)
}
