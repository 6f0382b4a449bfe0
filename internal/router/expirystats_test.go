package router_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// expiryOf is the only document of $expiryStats of app.c.
func (c *realCluster) expiryOf() bson.Doc {
	c.t.Helper()
	docs := c.do("app", `{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	if docs.Len() != 1 {
		c.t.Fatalf("$expiryStats: %s", docs)
	}
	return docs.Lookup("0").Doc()
}

// TestExpiryOfCluster: a rule is one over all shards: what would go, what is due and what will be
// are told as one, and a pause that was acknowledged holds on each shard, after it has failed
// over, and on one that gets a part of the collection later.
func TestExpiryOfCluster(t *testing.T) {
	c := newCluster(t, 3)
	for shard := range c.shards {
		c.on(shard, "admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`)
	}
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: 1}}`)
	c.do("admin", `{split: "app.c", middle: {_id: 100}}`)
	c.do("admin", `{split: "app.c", middle: {_id: 200}}`)
	c.do("admin", `{moveChunk: "app.c", find: {_id: 100}, to: "s1"}`)
	date := func(in time.Duration) string { return fmt.Sprintf(`{$date: %d}`, time.Now().Add(in).UnixMilli()) }
	for i := range 30 { // on s0 and s1: due, in an hour and a half, in ten days
		at := []string{date(-time.Hour), date(90 * time.Minute), date(240 * time.Hour)}[i%3]
		for _, base := range []int{0, 100} {
			c.do("app", fmt.Sprintf(`{insert: "c", documents: [{_id: %d, at: %s}]}`, base+i, at))
		}
	}
	index := `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 0, storageEngine: {mayfly: {expiry: {%s: true}}}}]}`
	forecast := func(d bson.Doc) string {
		h := d.Lookup("histogram").Doc()
		count := func(bars bson.Value) (all []string) {
			for v := range bars.Doc().Values() {
				all = append(all, fmt.Sprint(bson.ClampToInt64(v.Doc().Lookup("documents"))))
			}
			return all
		}
		return fmt.Sprintf("%d due, hours %s, days %s, later %d", bson.ClampToInt64(d.Lookup("dueNow").Doc().Lookup("documents")),
			count(h.Lookup("hours")), count(h.Lookup("days")), bson.ClampToInt64(h.Lookup("later").Doc().Lookup("documents")))
	}
	const want = "20 due, hours [20], days [20 20], later 0"
	dry := c.do("app", fmt.Sprintf(index, "dryRun"))
	rules := dry.Lookup("expiry")
	if rules.Type != bson.TypeArray || rules.Doc().Len() != 1 || forecast(rules.Doc().Lookup("0").Doc()) != want {
		t.Fatalf("the dry run says %s", dry)
	}
	if list := batch(c.do("app", `{listIndexes: "c"}`)); strings.Contains(list, "at_1") {
		t.Fatalf("a dry run has made %s", list)
	}
	c.do("app", fmt.Sprintf(index, "paused"))
	passes := func(shard string) int64 {
		return bson.ClampToInt64(c.on(shard, "admin", `{serverStatus: 1}`).Lookup("metrics").Doc().Lookup("ttl").Doc().Lookup("passes"))
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	rests := func(when string) {
		t.Helper()
		for _, shard := range []string{"s0", "s1", "s2"} {
			before := passes(shard)
			until("no pass of "+shard, func() bool { return passes(shard) > before+1 })
		}
		stats := c.expiryOf()
		if got := forecast(stats); got != want || !stats.Lookup("paused").Bool() || !strings.Contains(stats.Lookup("skipped").String(), `"paused"`) {
			t.Errorf("%s: %s: %s", when, got, stats)
		}
	}
	rests("paused")
	if d := c.expiryOf(); d.Lookup("shards").Doc().Len() != 2 || bson.ClampToInt64(d.Lookup("shards").Doc().Lookup("s1").Doc().Lookup("dueNow").Doc().Lookup("documents")) != 10 {
		t.Errorf("by shards: %s", d)
	}
	c.on("s1", "admin", `{replSetStepDown: 1, secondaryCatchUpPeriodSecs: 0, force: true}`)
	until("s1 has no primary", func() bool {
		_, err := c.try("app", `{update: "c", updates: [{q: {_id: 100}, u: {$set: {x: 1}}}]}`)
		return err == nil
	})
	rests("after a failover")
	c.do("admin", `{moveChunk: "app.c", find: {_id: 100}, to: "s2"}`)
	rests("on a shard that has it now")
	c.do("app", `{collMod: "c", index: {name: "at_1", storageEngine: {mayfly: {expiry: {paused: false}}}}}`)
	until("the rule goes on", func() bool { return bson.ClampToInt64(c.expiryOf().Lookup("dueNow").Doc().Lookup("documents")) == 0 })
	if removed := bson.ClampToInt64(c.expiryOf().Lookup("removed").Doc().Lookup("documents")); removed != 20 {
		t.Errorf("%d were removed", removed)
	}
}

// TestExpiryOfShardedSeries: what $expiryStats says of a time series that lies on several shards
// is the sum of what each says, in measurements and in buckets: what is due, what will be, and what
// was removed.
func TestExpiryOfShardedSeries(t *testing.T) {
	c := newCluster(t, 2)
	for shard := range c.shards {
		c.on(shard, "admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`)
	}
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {sensor: "hashed"}, `+series+`}`)
	c.do("app", `{collMod: "c", expireAfterSeconds: 36000, storageEngine: {mayfly: {expiry: {paused: true}}}}`)
	c.readings("c", 0, 400) // of 2023
	now := time.Now().UnixMilli()
	var docs []string
	for n := range 40 { // due in ten hours
		docs = append(docs, fmt.Sprintf(`{_id: %d, at: {"$date": {"$numberLong": "%d"}}, sensor: {n: %d}}`, 1000+n, now, n%20))
	}
	c.do("app", `{insert: "c", documents: [`+strings.Join(docs, ", ")+`]}`)
	numbers := func(d bson.Doc, name string) string {
		v := d.Lookup(name).Doc()
		return fmt.Sprintf("%d in %d", bson.ClampToInt64(v.Lookup("documents")), bson.ClampToInt64(v.Lookup("buckets")))
	}
	d := c.expiryOf()
	sums := func(d bson.Doc, name string) string {
		var documents, buckets int64
		for _, v := range d.Lookup("shards").Doc().All() {
			of := v.Doc().Lookup(name).Doc()
			documents, buckets = documents+bson.ClampToInt64(of.Lookup("documents")), buckets+bson.ClampToInt64(of.Lookup("buckets"))
		}
		return fmt.Sprintf("%d in %d", documents, buckets)
	}
	if got := numbers(d, "dueNow"); !strings.HasPrefix(got, "400 in ") || got != sums(d, "dueNow") {
		t.Errorf("due: %s, on shards %s: %s", got, sums(d, "dueNow"), d)
	}
	later := int64(0)
	for v := range d.Lookup("histogram").Doc().Lookup("hours").Doc().Values() {
		later += bson.ClampToInt64(v.Doc().Lookup("documents"))
	}
	if later != 40 {
		t.Errorf("%d measurements will be due: %s", later, d)
	}
	if d.Lookup("shards").Doc().Len() != 2 {
		t.Fatalf("by shards: %s", d)
	}
	c.do("app", `{collMod: "c", storageEngine: {mayfly: {expiry: {paused: false}}}}`)
	for deadline := time.Now().Add(time.Minute); numbers(c.expiryOf(), "dueNow") != "0 in 0"; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("they stay: %s", c.expiryOf())
		}
	}
	d = c.expiryOf()
	if got := numbers(d, "removed"); got != "400 in 20" || got != sums(d, "removed") || c.count("c", `{}`) != 40 {
		t.Errorf("removed: %s, %d measurements are left: %s", got, c.count("c", `{}`), d)
	}
	for name, v := range d.Lookup("shards").Doc().All() {
		if n := bson.ClampToInt64(v.Doc().Lookup("removed").Doc().Lookup("documents")); n == 0 || n == 400 {
			t.Errorf("%s has removed %d of 400 measurements", name, n)
		}
	}
}

// TestExpiryOfSeriesAsOne: a time series that lies on three shards by {meta, time} is to who asks
// the router what it is on one server: forecasts, dry runs, statistics, pause and budget.
func TestExpiryOfSeriesAsOne(t *testing.T) {
	c := newCluster(t, 3)
	alone := c.connect(c.startSet("alone"))
	one := func(db, text string) (bson.Doc, error) { return alone.Run(t.Context(), db, bson.MustParse(text)) }
	c.until(func() bool {
		reply, err := one("admin", `{hello: 1}`)
		return err == nil && reply.Lookup("isWritablePrimary").Bool()
	})
	both := func(text string) (routers, ones bson.Doc) {
		t.Helper()
		return c.do("app", text), c.done(text)(one("app", text))
	}
	for shard := range c.shards {
		c.on(shard, "admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`)
	}
	c.done("")(one("admin", `{setParameter: 1, ttlMonitorSleepSecs: 1}`))
	now := time.Now().UnixMilli()
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {sensor: 1, at: 1}, `+series+`}`)
	c.done("")(one("app", `{create: "c", `+series+`}`))
	for i, at := range []string{`{meta: 4, "control.min.at": {$minKey: 1}}`, fmt.Sprintf(`{meta: 12, "control.min.at": {$date: %d}}`, now-30*3600*1000)} {
		c.do("admin", `{split: "app.c", middle: `+at+`}`)
		c.do("admin", fmt.Sprintf(`{moveRange: "app.c", min: %s, toShard: "s%d"}`, at, i+1))
	}
	both(`{collMod: "c", expireAfterSeconds: 360000000}`)
	var docs []string
	for n := range 400 { // 20 sensors, every quarter of an hour of four days
		docs = append(docs, fmt.Sprintf(`{_id: %d, at: {$date: %d}, sensor: %d}`, n, now-int64(n)*15*60*1000, n%20))
	}
	both(`{insert: "c", documents: [` + strings.Join(docs, ", ") + `]}`)
	numbers := func(bars bson.Value) (all []string) {
		for v := range bars.Doc().Values() {
			all = append(all, fmt.Sprint(bson.ClampToInt64(v.Doc().Lookup("documents"))))
		}
		return all
	}
	// A bar begins when the statement does, which is a second later on one of them at the most.
	told := func(d bson.Doc) string {
		h := d.Lookup("histogram").Doc()
		due := d.Lookup("oldestDue")
		if due.Type != bson.TypeDate {
			t.Fatalf("nothing is due: %s", d)
		}
		return fmt.Sprintf("rule %s expire %s paused %s due %d since %d, hours %s, days %s, later %d", d.Lookup("rule"), d.Lookup("expireAfterSeconds"), d.Lookup("paused"),
			bson.ClampToInt64(d.Lookup("dueNow").Doc().Lookup("documents")), due.Date(), numbers(h.Lookup("hours")), numbers(h.Lookup("days")), bson.ClampToInt64(h.Lookup("later").Doc().Lookup("documents")))
	}
	stats := func() (routers, ones bson.Doc) {
		t.Helper()
		text := `{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`
		routers, ones = both(text)
		return routers.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc(), ones.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc()
	}
	same := func(when string, a, b bson.Doc) {
		t.Helper()
		if told(a) != told(b) {
			t.Errorf("%s:\n   router %s\n one server %s", when, told(a), told(b))
		}
	}
	const rule = `expireAfterSeconds: 180000` // 50 hours
	first := func(reply bson.Doc) bson.Doc { return reply.Lookup("expiry").Doc().Lookup("0").Doc() }
	a, b := both(`{collMod: "c", ` + rule + `, storageEngine: {mayfly: {expiry: {dryRun: true}}}}`)
	same("dry run", first(a), first(b))
	if strings.Contains(batch(c.do("app", `{listCollections: 1}`)), "180000") {
		t.Error("a dry run has changed the rule")
	}
	both(`{collMod: "c", ` + rule + `, storageEngine: {mayfly: {expiry: {paused: true}}}}`)
	a, b = stats()
	same("paused", a, b)
	if a.Lookup("shards").Doc().Len() != 3 || !strings.Contains(a.Lookup("skipped").String(), `"paused"`) {
		t.Errorf("by shards: %s", a)
	}
	// A budget is one for all shards. It counts buckets, of which a batch of ten goes at once, and is
	// waited for afterwards.
	const perSecond, atOnce = 4, 10
	removed := func(d bson.Doc) int64 { return bson.ClampToInt64(d.Lookup("removed").Doc().Lookup("buckets")) }
	begun := time.Now()
	both(fmt.Sprintf(`{collMod: "c", storageEngine: {mayfly: {expiry: {paused: false, budget: {documentsPerSecond: %d}}}}}`, perSecond))
	c.until(func() bool {
		a, b = stats()
		for name, d := range map[string]bson.Doc{"router": a, "one server": b} {
			if most := atOnce + perSecond*(time.Since(begun).Seconds()+1); float64(removed(d)) > most {
				t.Errorf("%s has removed %d buckets within %s", name, removed(d), time.Since(begun))
			}
		}
		return removed(a) >= perSecond && removed(b) >= perSecond
	})
	// A pause that is acknowledged is in effect on each shard.
	both(`{collMod: "c", storageEngine: {mayfly: {expiry: {paused: true, budget: null}}}}`)
	a, _ = stats()
	passes := func(shard string) int64 {
		return bson.ClampToInt64(c.on(shard, "admin", `{serverStatus: 1}`).Lookup("metrics").Doc().Lookup("ttl").Doc().Lookup("passes"))
	}
	before := map[string]int64{}
	for shard := range c.shards {
		if list := c.on(shard, "app", `{listCollections: 1, filter: {name: "c"}}`); !strings.Contains(batch(list), "paused: true") {
			t.Errorf("%s goes on: %s", shard, list)
		}
		before[shard] = passes(shard)
	}
	for shard, n := range before {
		c.until(func() bool { return passes(shard) > n+1 })
	}
	if later, _ := stats(); removed(later) != removed(a) {
		t.Errorf("%d buckets were removed when the pause was acknowledged, and %d later", removed(a), removed(later))
	}
	both(`{collMod: "c", storageEngine: {mayfly: {expiry: {paused: false}}}}`)
	measurements := func(d bson.Doc) int64 { return bson.ClampToInt64(d.Lookup("removed").Doc().Lookup("documents")) }
	c.until(func() bool {
		a, b = stats()
		return bson.ClampToInt64(a.Lookup("dueNow").Doc().Lookup("documents"))+bson.ClampToInt64(b.Lookup("dueNow").Doc().Lookup("documents")) == 0
	})
	x, y := both(`{count: "c"}`)
	if measurements(a) != measurements(b) || measurements(a) == 0 || x.Lookup("n").String() != y.Lookup("n").String() {
		t.Errorf("the router says that %d were removed, and has %s; one server %d, and %s", measurements(a), x.Lookup("n"), measurements(b), y.Lookup("n"))
	}
}
