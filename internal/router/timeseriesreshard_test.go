package router_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestSeriesResharded: a time series gets one shard key after the other while clients insert,
// delete and read: what was acknowledged is seen once, by readers and at the end.
func TestSeriesResharded(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {sensor: "hashed", at: 1}, `+series+`}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {v: 1}, name: "v_1"}]}`)
	m := &seriesModel{c: c, has: map[int]bool{}}
	for range 20 {
		if err := m.write(c.router); err != nil {
			t.Fatal(err)
		}
	}
	for key, code := range map[string]mongoerr.Code{`{v: 1}`: 5914001, `{at: 1, sensor: 1}`: 5914000, `{at: "hashed"}`: mongoerr.BadValue} {
		c.refused("admin", `{reshardCollection: "app.c", key: `+key+`}`, code)
	}
	c.do("admin", `{addShardToZone: "s1", zone: "z"}`)
	c.refused("admin", `{reshardCollection: "app.c", key: {at: 1}, zones: [{zone: "z", min: {"control.min.at": {"$date": "2024-01-01T00:00:00Z"}}, max: {"control.min.at": {"$maxKey": 1}}}]}`, mongoerr.InvalidOptions)

	stop := make(chan struct{})
	var work sync.WaitGroup
	for i := range 3 {
		conn := c.connect(c.address)
		do := m.write
		if i == 2 {
			do = m.check
		}
		work.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(conn); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i, command := range []string{
		`{reshardCollection: "app.c", key: {at: 1}, numInitialChunks: 5}`,
		`{reshardCollection: "app.c", key: {"sensor.n": 1, at: 1}}`,
		`{reshardCollection: "app.system.buckets.c", key: {sensor: "hashed"}}`,
		`{reshardCollection: "app.c", key: {sensor: "hashed"}, forceRedistribution: true, shardDistribution: [{shard: "s2"}, {shard: "s1"}]}`,
		`{reshardCollection: "app.c", key: {"sensor.n": 1}, zones: [{zone: "z", min: {"meta.n": 2}, max: {"meta.n": 5}}]}`,
	} {
		if i == 1 { // copying takes long: logs are read meanwhile
			c.hold("s0", "_shardsvrDonate", 2)
			c.hold("s1", "_shardsvrDonate", 2)
		}
		t.Logf("%s: %s", command, c.do("admin", command))
	}
	close(stop)
	work.Wait()
	if err := m.check(c.router); err != nil || t.Failed() {
		t.Fatal(err)
	}
	if n := c.count("c", `{}`); n != len(m.has) {
		t.Errorf("%d measurements, not %d", n, len(m.has))
	}
	stored := c.do("config", `{find: "collections", filter: {_id: "app.system.buckets.c"}}`).String()
	if !strings.Contains(stored, "meta.n: 1") && !strings.Contains(stored, `"meta.n": 1`) || !strings.Contains(stored, "timeseriesFields") {
		t.Errorf("config.collections has %s", stored)
	}
	if tags := c.do("config", `{find: "tags"}`).String(); !strings.Contains(tags, "app.system.buckets.c") {
		t.Errorf("config.tags has %s", tags)
	}
	if got := c.do("app", `{listIndexes: "c"}`).String(); !strings.Contains(got, "v_1") {
		t.Errorf("indexes: %s", got)
	}
	for _, s := range []string{"s0", "s1", "s2"} {
		if got := c.on(s, "app", `{listCollections: 1}`).String(); strings.Contains(got, "resharding") {
			t.Errorf("%s still has %s", s, got)
		}
		if strings.Contains(c.on(s, "app", `{listCollections: 1}`).String(), `name: "c"`) {
			if r := c.on(s, "app", `{validate: "c", full: true}`); !r.Lookup("valid").Bool() {
				t.Errorf("%s: %s", s, r)
			}
		}
	}
	t.Logf("%d measurements", len(m.has))
}
