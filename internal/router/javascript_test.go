package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// asOne runs a command on the collection c, over three shards, and on u, with the same documents
// on one, which must answer alike. In the text COLL is the collection, OUT one to write into.
func (c *realCluster) asOne(text, read string) string {
	c.t.Helper()
	answer := func(coll string) string {
		run := func(text string) bson.Doc {
			return c.do("app", strings.NewReplacer("COLL", coll, "OUT", "out_"+coll).Replace(text))
		}
		reply := run(text)
		if read != "" {
			return batch(run(read))
		}
		if reply.Has("cursor") {
			return batch(reply)
		}
		var results []string // in no order
		for v := range reply.Lookup("results").Doc().Values() {
			results = append(results, v.String())
		}
		slices.Sort(results)
		return strings.Join(results, ", ")
	}
	spread, one := answer("c"), answer("u")
	if spread != one {
		c.t.Errorf("%s\nover shards %s\non one %s", text, spread, one)
	}
	return spread
}

// twice makes the collections c, over all shards, and u, on one, with the same documents.
func (c *realCluster) twice(documents int, one func(i int) string) {
	c.t.Helper()
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	var docs []string
	for i := range documents {
		docs = append(docs, one(i))
	}
	for _, coll := range []string{"c", "u"} {
		c.do("app", fmt.Sprintf(`{insert: %q, documents: [%s]}`, coll, strings.Join(docs, ", ")))
	}
}

// TestJavaScriptOverShards: functions of clients get the documents of all shards: $function,
// $accumulator, whose states the router merges, and mapReduce in all its modes.
func TestJavaScriptOverShards(t *testing.T) {
	c := newCluster(t, 3, "--noscripting=false")
	c.twice(300, func(i int) string { return fmt.Sprintf(`{_id: %d, k: %d, n: {"$numberInt": "%d"}}`, i, i%7, i) })
	c.do("app", `{insert: "system.js", documents: [{_id: "twice", value: {"$code": "function(x) { return 2 * x; }"}}]}`)
	average := `{$accumulator: {init: "function(a) { return {n: 0, sum: a}; }", initArgs: [0], accumulate: "function(s, n) { return {n: s.n + 1, sum: s.sum + n}; }",
		accumulateArgs: ["$n"], merge: "function(a, b) { return {n: a.n + b.n, sum: a.sum + b.sum}; }", finalize: "function(s) { return s.sum / s.n; }", lang: "js"}}`
	show := func(text, read, has string) {
		t.Helper()
		if got := c.asOne(text, read); !strings.Contains(got, has) {
			t.Errorf("%s\nhas no %s: %s", text, has, got)
		}
	}
	show(`{aggregate: "COLL", pipeline: [{$group: {_id: "$k", average: `+average+`, n: {$sum: 1}}}, {$sort: {_id: 1}}], cursor: {}}`, "", `average: 147.0`)
	show(`{aggregate: "COLL", pipeline: [{$group: {_id: null, average: `+average+`}}], cursor: {}}`, "", `average: 149.5`)
	show(`{aggregate: "COLL", pipeline: [{$sort: {_id: -1}}, {$limit: 3}, {$addFields: {f: {$function: {body: "function(n) { return n + 1; }", args: ["$n"], lang: "js"}}}}], cursor: {}}`, "", `f: 300.0`)
	show(`{aggregate: "COLL", pipeline: [{$group: {_id: "$k", n: {$sum: "$n"}}}, {$match: {$expr: {$function: {body: "function(n) { return n % 2 == 1; }", args: ["$n"], lang: "js"}}}}, {$sort: {_id: 1}}], cursor: {}}`, "", `_id`)
	mapReduce := `{mapReduce: "COLL", map: "function() { emit(this.k, twice(this.n) * factor); }", reduce: "function(k, all) { return Array.sum(all); }", scope: {factor: 10}, query: {_id: {$gte: 7}}, `
	sorted := `{find: "OUT", sort: {_id: 1}}`
	show(mapReduce+`finalize: "function(k, v) { return {k: k, v: v, f: factor}; }", out: {inline: 1}}`, "", `f: 10.0`)
	show(mapReduce+`out: "OUT"}`, sorted, `value: 126420.0`)
	show(mapReduce+`out: {reduce: "OUT"}}`, sorted, `value: 252840.0`)
	show(mapReduce+`out: {merge: "OUT"}}`, sorted, `value: 126420.0`)
	show(`{mapReduce: "COLL", map: "function() { emit(1, this.n); }", reduce: "function(k, all) { return Array.sum(all); }", sort: {_id: -1}, limit: 2, out: {inline: 1}}`, "", `value: 597.0`)
	for text, code := range map[string]int32{
		`{mapReduce: "c", map: "function() {", reduce: "function(k, all) {}", out: {inline: 1}}`:              139,
		`{mapReduce: "c", map: "function() { nothing(); }", reduce: "function(k, all) {}", out: {inline: 1}}`: 139,
		`{mapReduce: "c", map: "function() {}", reduce: "function(k, all) {}", out: {replace: "c"}}`:          28769,
		`{mapReduce: "c", map: "function() {}", reduce: "function(k, all) {}", out: {inline: 1}, limit: -1}`:  15958,
		`{mapReduce: "view", map: "function() {}", reduce: "function(k, all) {}", out: {inline: 1}}`:          166,
	} {
		if strings.Contains(text, "view") {
			c.do("app", `{create: "view", viewOn: "c", pipeline: []}`)
		}
		_, err := c.try("app", text)
		if got := codeOf(err); got != code {
			t.Errorf("%s: error %d, want %d: %v", text, got, code, err)
		}
	}
}

// TestSortByMetaOverShards: documents come in the order of their scores, and show them, wherever
// they lie.
func TestSortByMetaOverShards(t *testing.T) {
	c := newCluster(t, 3)
	c.twice(200, func(i int) string {
		return fmt.Sprintf(`{_id: %d, k: %d, text: "%s%s"}`, i, i%5, strings.Repeat("fly ", i%4), strings.Repeat("may ", i))
	})
	for _, coll := range []string{"c", "u"} {
		c.do("app", fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {text: "text"}, name: "text"}]}`, coll))
	}
	find := `{$match: {$text: {$search: "fly"}}}`
	for _, rest := range []string{
		`{$sort: {s: {$meta: "textScore"}, _id: 1}}`,
		`{$sort: {s: {$meta: "textScore"}, _id: 1}}, {$limit: 7}`,
		`{$sort: {s: {$meta: "textScore"}, _id: 1}}, {$skip: 3}, {$limit: 7}, {$project: {k: 1}}`,
		`{$sort: {s: {$meta: "textScore"}}}, {$project: {_id: 0, s: {$meta: "textScore"}}}, {$limit: 20}`,
		`{$sort: {k: -1, s: {$meta: "textScore"}, _id: -1}}, {$match: {k: {$gt: 1}}}, {$group: {_id: "$k", first: {$first: "$_id"}}}, {$sort: {_id: 1}}`,
	} {
		got := c.asOne(`{aggregate: "COLL", pipeline: [`+find+`, `+rest+`], cursor: {batchSize: 1000}}`, "")
		if len(got) < 50 || strings.Contains(got, "__meta") {
			t.Errorf("%s: %s", rest, got)
		}
	}
}

// TestOutTimeseriesOverShards: measurements that come from several shards replace those of a time
// series, with its options, and of other options it is refused.
func TestOutTimeseriesOverShards(t *testing.T) {
	c := newCluster(t, 3)
	c.twice(300, func(i int) string {
		return fmt.Sprintf(`{_id: %d, m: %d, t: {"$date": "2026-01-01T%02d:%02d:00Z"}}`, i, i%3, i/60, i%60)
	})
	for _, from := range []int{0, 100} {
		c.asOne(fmt.Sprintf(`{aggregate: "COLL", pipeline: [{$match: {_id: {$gte: %d}}}, {$out: {db: "app", coll: "OUT", timeseries: {timeField: "t", metaField: "m"}}}], cursor: {}}`, from),
			`{aggregate: "OUT", pipeline: [{$group: {_id: "$m", n: {$sum: 1}, from: {$min: "$t"}, to: {$max: "$t"}}}, {$sort: {_id: 1}}], cursor: {}}`)
	}
	if got := batch(c.do("app", `{listCollections: 1, filter: {name: "out_c"}}`)); !strings.Contains(got, `timeField: "t"`) {
		t.Error(got)
	}
	for coll, code := range map[string]int32{"out_c": 7406103, "u": 7268700} {
		_, err := c.try("app", fmt.Sprintf(`{aggregate: "c", pipeline: [{$out: {db: "app", coll: %q, timeseries: {timeField: "t"}}}], cursor: {}}`, coll))
		if got := codeOf(err); got != code {
			t.Errorf("%s: error %d, want %d: %v", coll, got, code, err)
		}
	}
	if n := c.do("app", `{count: "out_c"}`).Lookup("n"); bson.ClampToInt64(n) != 200 {
		t.Errorf("%s measurements are left", n)
	}
	if got := batch(c.do("app", `{listCollections: 1, filter: {name: {$regex: "tmp"}}}`)); got != "[]" {
		t.Error(got)
	}
}

// codeOf is the code of a command's error, 0 for none.
func codeOf(err error) int32 {
	if err == nil {
		return 0
	}
	return int32(mongoerr.From(err).Code)
}
