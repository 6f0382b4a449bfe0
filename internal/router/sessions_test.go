package router_test

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestSessionsOfRouter: $listLocalSessions shows the sessions of the router's clients, and
// $listSessions each session of the cluster once.
func TestSessionsOfRouter(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	id := `{id: {$binary: {base64: "AQIDBAUGBwgJCgsMDQ4PEA==", subType: "04"}}}`
	direct := `{id: {$binary: {base64: "EAIDBAUGBwgJCgsMDQ4PEA==", subType: "04"}}}`
	c.do("app", `{find: "c", lsid: `+id+`}`)
	c.on("s1", "admin", `{ping: 1, lsid: `+direct+`}`)
	listed := func(db, text, id string) (n int) {
		for v := range c.do(db, text).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
			if bson.Equal(v.Doc().Lookup("_id").Doc().Lookup("id"), bson.MustParse(id).Lookup("id")) {
				n++
			}
		}
		return n
	}
	local, all := `{aggregate: 1, pipeline: [{$listLocalSessions: {}}], cursor: {}}`, `{aggregate: "system.sessions", pipeline: [{$listSessions: {}}], cursor: {}}`
	for _, x := range []struct {
		db, text, id string
		want         int
	}{{"admin", local, id, 1}, {"admin", local, direct, 0}, {"config", all, id, 1}, {"config", all, direct, 1}} {
		if n := listed(x.db, x.text, x.id); n != x.want {
			t.Errorf("%s has %s %d times, want %d", x.text, x.id, n, x.want)
		}
	}
}
