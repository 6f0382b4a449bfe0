package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestQueryAnalyzer: a router samples queries as it is told, the config servers have them, and
// analyzeShardKey says how they would be targeted by a key; a bound on samples is kept, and a
// collection that is dropped is sampled no more.
func TestQueryAnalyzer(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{setParameter: 1, queryAnalyzerConfigurationRefreshSecs: 1}`)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {x: 1}, name: "x"}]}`)
	c.fill("c", 0, 500)
	c.do("app", `{create: "view", viewOn: "c", pipeline: []}`)
	for text, code := range map[string]int32{
		`{configureQueryAnalyzer: "app.c", mode: "full"}`:                       72,
		`{configureQueryAnalyzer: "app.c", mode: "full", samplesPerSecond: 0}`:  72,
		`{configureQueryAnalyzer: "app.c", mode: "full", samplesPerSecond: 51}`: 72,
		`{configureQueryAnalyzer: "app.c", mode: "off", samplesPerSecond: 1}`:   72,
		`{configureQueryAnalyzer: "app.c", mode: "some"}`:                       2,
		`{configureQueryAnalyzer: "app.none", mode: "off"}`:                     26,
		`{configureQueryAnalyzer: "none.none", mode: "off"}`:                    26,
		`{configureQueryAnalyzer: "app.view", mode: "off"}`:                     166,
		`{configureQueryAnalyzer: "config.chunks", mode: "off"}`:                20,
		`{configureQueryAnalyzer: "app", mode: "off"}`:                          73,
	} {
		_, err := c.try("admin", text)
		if got := codeOf(err); got != code {
			t.Errorf("%s: error %d, want %d: %v", text, got, code, err)
		}
	}
	reply := c.do("admin", `{configureQueryAnalyzer: "app.c", mode: "full", samplesPerSecond: 50}`).String()
	if !strings.HasPrefix(reply, `{ newConfiguration: { mode: "full", samplesPerSecond: 50.0 }`) {
		t.Error(reply)
	}
	c.until(func() bool { // the router has heard of it
		return strings.Contains(batch(c.do("admin", `{aggregate: 1, pipeline: [{$currentOp: {localOps: true}}, {$match: {desc: "query analyzer"}}], cursor: {}}`)), `ns: "app.c"`)
	})
	queries := []string{
		`{find: "c", filter: {x: 5}}`, `{find: "c", filter: {x: {$gt: 5, $lt: 8}}}`, `{find: "c", filter: {y: 5}}`, `{find: "c", filter: {x: 5}, collation: {locale: "en"}}`,
		`{aggregate: "c", pipeline: [{$match: {x: 7}}], cursor: {}}`, `{aggregate: "c", pipeline: [{$group: {_id: "$y"}}], cursor: {}}`,
		`{count: "c", query: {x: 3}}`, `{distinct: "c", key: "y", query: {x: {$in: [3, 4]}}}`,
		`{update: "c", updates: [{q: {x: 3}, u: {$set: {z: 1}}}, {q: {_id: 3}, u: {$set: {x: 3}}}, {q: {y: 3}, u: {$inc: {z: 1}}, multi: true}]}`,
		`{delete: "c", deletes: [{q: {x: 400}, limit: 1}]}`, `{findAndModify: "c", query: {x: 4}, update: {$set: {z: 2}}}`,
	}
	for _, text := range queries {
		c.do("app", text)
	}
	c.do("app", `{insert: "c", documents: [{_id: 1000, x: 1}]}`) // no query
	list := func() bson.Doc {
		return c.do("admin", `{aggregate: 1, pipeline: [{$listSampledQueries: {namespace: "app.c"}}, {$sort: {cmdName: 1}}], cursor: {batchSize: 1000}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	}
	c.until(func() bool { return list().Len() >= 13 })
	first := list().Lookup("0").Doc()
	if list().Len() != 13 || first.Lookup("ns").Str() != "app.c" || first.Lookup("cmdName").Str() != "aggregate" || first.Lookup("expireAt").Type != bson.TypeDate || first.Lookup("collectionUuid").Type != bson.TypeBinary {
		t.Errorf("the samples are %s", list())
	}
	if other := c.do("admin", `{aggregate: 1, pipeline: [{$listSampledQueries: {namespace: "app.d"}}], cursor: {}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc(); other.Len() != 0 {
		t.Errorf("other samples are %s", other)
	}
	reads := func(d bson.Doc, name string) float64 { return d.Lookup("readDistribution").Doc().Lookup(name).Double() }
	writes := func(d bson.Doc, name string) float64 {
		return d.Lookup("writeDistribution").Doc().Lookup(name).Double()
	}
	d := c.do("admin", `{analyzeShardKey: "app.c", key: {x: 1}, keyCharacteristics: false}`)
	if got := d.Lookup("readDistribution").Doc().Lookup("sampleSize").String(); got != `{ total: 8, find: 4, aggregate: 2, count: 1, distinct: 1 }` {
		t.Error(got)
	}
	if got := d.Lookup("writeDistribution").Doc().Lookup("sampleSize").String(); got != `{ total: 5, update: 3, delete: 1, findAndModify: 1 }` {
		t.Error(got)
	}
	for _, x := range []struct {
		name string
		got  float64
		want float64
	}{
		// A number under a collation is compared as without.
		{"single reads", reads(d, "percentageOfSingleShardReads"), 50}, {"multi reads", reads(d, "percentageOfMultiShardReads"), 25}, {"scattered reads", reads(d, "percentageOfScatterGatherReads"), 25},
		{"single writes", writes(d, "percentageOfSingleShardWrites"), 60}, {"scattered writes", writes(d, "percentageOfScatterGatherWrites"), 40},
		{"updates of the key", writes(d, "percentageOfShardKeyUpdates"), 20}, {"single without", writes(d, "percentageOfSingleWritesWithoutShardKey"), 20}, {"multi without", writes(d, "percentageOfMultiWritesWithoutShardKey"), 20},
	} {
		if x.got != x.want {
			t.Errorf("%s: %v, want %v: %s", x.name, x.got, x.want, d)
		}
	}
	if n := d.Lookup("readDistribution").Doc().Lookup("numReadsByRange").Doc().Len(); n < 50 || n > 100 {
		t.Errorf("%d ranges", n)
	}
	d = c.do("admin", `{analyzeShardKey: "app.c", key: {_id: "hashed"}, keyCharacteristics: false}`)
	if writes(d, "percentageOfSingleShardWrites") != 20 || d.Lookup("writeDistribution").Doc().Lookup("numWritesByRange").Doc().Len() != 100 {
		t.Errorf("by another key: %s", d)
	}
	for i := range 1000 { // more than may be sampled
		c.do("app", fmt.Sprintf(`{count: "c", query: {x: %d}}`, i))
	}
	reply = c.do("admin", `{configureQueryAnalyzer: "app.c", mode: "off"}`).String()
	if !strings.HasPrefix(reply, `{ oldConfiguration: { mode: "full", samplesPerSecond: 50.0 }, newConfiguration: { mode: "off" }`) {
		t.Error(reply)
	}
	c.until(func() bool {
		return !strings.Contains(batch(c.do("admin", `{aggregate: 1, pipeline: [{$currentOp: {localOps: true}}, {$match: {desc: "query analyzer"}}], cursor: {}}`)), `ns: "app.c"`)
	})
	if _, err := c.try("admin", `{aggregate: 1, pipeline: [{$currentOp: {localOps: 1}}], cursor: {}}`); codeOf(err) != 14 {
		t.Errorf("a number for localOps: %v", err)
	}
	c.do("app", `{drop: "c"}`)
	if got := batch(c.do("config", `{find: "queryAnalyzers"}`)); got != "[]" {
		t.Errorf("of a collection that is dropped there is %s", got)
	}
}
