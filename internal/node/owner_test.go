package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// shardEntry shards a collection by k, a hashed field, with what lies above 0 hidden.
func shardEntry(t *testing.T, c *catalog.Catalog, coll string, change func(*schema.Sharding)) {
	t.Helper()
	k, err := schema.ParseShardKey(bson.MustParse(`{k: "hashed"}`))
	if err != nil {
		t.Fatal(err)
	}
	zero, _ := k.ParseBound(bson.MustParse(`{k: {"$numberLong": "0"}}`))
	s := &schema.Sharding{Key: k, Shard: "s0", Version: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1},
		Hidden: []schema.HiddenRange{{ShardRange: schema.ShardRange{Min: zero, Max: k.Max()}}}}
	change(s)
	if _, err := c.SetSharding(t.Context(), schema.Namespace{DB: "bench", Coll: coll}, func(*catalog.Collection) (*schema.Sharding, error) { return s, nil }); err != nil {
		t.Fatal(err)
	}
}

// TestHiddenRanges: whatever is asked of a collection with a hidden range, the answer is
// that of one that has only the other documents.
func TestHiddenRanges(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: t.TempDir(), CacheBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	c, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, client := over(c)
	n.Register(n.Dispatcher.Registry)
	dispatch := func(body string) bson.Doc {
		t.Helper()
		r := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, Body: benchBody(bson.MustParse(body))})
		defer r.Release()
		return r.Body.Clone()
	}
	run := func(body string) bson.Doc {
		t.Helper()
		r := dispatch(body)
		if r.Lookup("ok").Double() != 1 || r.Has("writeErrors") {
			t.Fatalf("%s: %s", body, r)
		}
		return r
	}
	for _, coll := range []string{"whole", "part"} {
		run(fmt.Sprintf(`{createIndexes: %q, indexes: [{key: {a: 1, k: 1}, name: "ak"}, {key: {k: "hashed"}, name: "kh"}, {key: {tags: 1}, name: "tags"}, {key: {text: "text"}, name: "text"}, {key: {at: "2dsphere"}, name: "at"}]}`, coll))
	}
	owned := 0
	for i := range 120 {
		doc := fmt.Sprintf(`{_id: %d, k: %d, a: %d, tags: [%d, %d], text: "word%d same", at: [%d, 1], n: 0}`, i, i, i%7, i%3, i%5, i%4, i%60)
		run(`{insert: "whole", documents: [` + doc + `]}`)
		if schema.HashOf(bson.Int32(int32(i)), nil) < 0 {
			owned++
			run(`{insert: "part", documents: [` + doc + `]}`)
		}
	}
	if owned == 0 || owned == 120 {
		t.Fatalf("%d documents are owned", owned)
	}
	shardEntry(t, c, "whole", func(*schema.Sharding) {})
	answer := func(body string) string {
		r := run(body)
		for _, name := range []string{"n", "nModified", "values", "value"} {
			if v := r.Lookup(name); !v.IsMissing() {
				return v.String()
			}
		}
		return r.Lookup("cursor").Doc().Lookup("firstBatch").String()
	}
	for _, body := range []string{
		`{count: "C"}`,
		`{count: "C", query: {a: 3}}`,
		`{count: "C", query: {a: {$gte: 2, $lt: 4}}}`,
		`{count: "C", query: {}, skip: 5, limit: 20}`,
		`{find: "C", sort: {_id: 1}, batchSize: 200}`,
		`{find: "C", filter: {_id: 7}}`,
		`{find: "C", filter: {_id: 8}}`,
		`{find: "C", filter: {_id: {$in: [1, 2, 3, 4, 5, 6]}}, sort: {_id: -1}}`,
		`{find: "C", filter: {a: 3}, projection: {k: 1, _id: 0}, sort: {k: 1}, batchSize: 200}`,
		`{find: "C", filter: {a: 3}, projection: {a: 1, _id: 0}, batchSize: 200}`,
		`{find: "C", filter: {k: 11}}`,
		`{find: "C", filter: {$or: [{a: 1}, {tags: 2}]}, sort: {_id: 1}, batchSize: 200}`,
		`{find: "C", filter: {}, sort: {a: 1, k: 1}, skip: 3, limit: 9}`,
		`{find: "C", filter: {$text: {$search: "word1"}}, sort: {_id: 1}, batchSize: 200}`,
		`{find: "C", filter: {at: {$near: {$geometry: {type: "Point", coordinates: [3, 1]}}}}, limit: 7}`,
		`{distinct: "C", key: "a"}`,
		`{distinct: "C", key: "k"}`,
		`{distinct: "C", key: "tags", query: {a: {$gt: 2}}}`,
		`{aggregate: "C", pipeline: [{$group: {_id: "$a", n: {$sum: 1}, first: {$min: "$k"}}}, {$sort: {_id: 1}}], cursor: {}}`,
		`{aggregate: "C", pipeline: [{$count: "n"}], cursor: {}}`,
		`{aggregate: "C", pipeline: [{$sort: {a: 1, k: 1}}, {$group: {_id: "$a", first: {$first: "$k"}}}, {$sort: {_id: 1}}], cursor: {}}`,
		`{aggregate: "part", pipeline: [{$sort: {_id: 1}}, {$limit: 5}, {$lookup: {from: "C", localField: "a", foreignField: "a", pipeline: [{$sort: {_id: 1}}], as: "same"}}, {$project: {"same._id": 1}}], cursor: {}}`,
		`{aggregate: "C", pipeline: [{$geoNear: {near: [3, 1], distanceField: "d", key: "at", spherical: true}}, {$limit: 4}, {$project: {_id: 1}}], cursor: {}}`,
		`{update: "C", updates: [{q: {a: 4}, u: {$inc: {n: 1}}, multi: true}]}`,
		`{update: "C", updates: [{q: {_id: 7}, u: {$inc: {n: 1}}}, {q: {_id: 8}, u: {$inc: {n: 1}}}]}`,
		`{findAndModify: "C", query: {a: 5}, sort: {k: -1}, update: {$inc: {n: 1}}}`,
		`{delete: "C", deletes: [{q: {a: 6}, limit: 0}, {q: {_id: 9}, limit: 1}, {q: {_id: 10}, limit: 1}]}`,
		`{find: "C", sort: {_id: 1}, batchSize: 200}`,
		`{count: "C"}`,
	} {
		part := answer(strings.ReplaceAll(body, `"C"`, `"part"`))
		if whole := answer(strings.ReplaceAll(body, `"C"`, `"whole"`)); whole != part {
			t.Errorf("%s\n  answers %s\n     want %s", body, whole, part)
		}
	}
	plan := run(`{explain: {find: "whole", filter: {a: 3}}, verbosity: "queryPlanner"}`).Lookup("queryPlanner").Doc()
	if text := plan.String(); !strings.Contains(text, `winningPlan: { isCached: false, stage: "SHARDING_FILTER", inputStage: { stage: "FETCH", inputStage: { stage: "IXSCAN"`) || strings.Contains(text, "_owned") {
		t.Error(text)
	}

	// On a shard nobody writes without a version.
	n.BecomeShard()
	for _, body := range []string{
		`{insert: "whole", documents: [{_id: 200, k: 3}]}`,
		`{update: "whole", updates: [{q: {_id: 7}, u: {$inc: {n: 1}}}]}`,
		`{delete: "whole", deletes: [{q: {a: 1}, limit: 0}]}`,
	} {
		if r := dispatch(body); !strings.Contains(r.Lookup("writeErrors").String(), "code: 13,") {
			t.Errorf("%s: %s", body, r)
		}
	}
	for version, code := range map[string]string{`v: {"$timestamp": {t: 1, i: 5}}`: "", `v: {"$timestamp": {t: 2, i: 0}}`: "code: 13388,"} {
		body := `{update: "whole", updates: [{q: {_id: 7}, u: {$inc: {n: 1}}}], shardVersion: {e: {"$oid": "000000000000000000000000"}, t: {"$timestamp": {t: 0, i: 9}}, ` + version + `}}`
		if errs := dispatch(body).Lookup("writeErrors"); errs.IsMissing() != (code == "") || !strings.Contains(errs.String(), code) {
			t.Errorf("%s: %s", version, errs)
		}
	}
}
