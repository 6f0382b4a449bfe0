package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
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

	// On a shard nobody writes without a version, nor with another one (invariant fenced).
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

// TestHeldStates: an aggregation is checked when it holds its state, and so is each read of another
// collection within it (invariant held). What changes between parsing and that is stale, as the
// state may lack what the shard has given away since, or have what it had not.
func TestHeldStates(t *testing.T) {
	raise := func(major uint32) func(*testing.T, *catalog.Catalog) {
		return func(t *testing.T, c *catalog.Catalog) {
			shardEntry(t, c, "main", func(s *schema.Sharding) { s.Hidden, s.Version.Major = nil, major })
		}
	}
	shardForeign := func(t *testing.T, c *catalog.Catalog) { shardEntry(t, c, "foreign", func(*schema.Sharding) {}) }
	moveDatabase := func(t *testing.T, c *catalog.Catalog) { storeDatabase(t, c, false) }
	dropForeign := func(t *testing.T, c *catalog.Catalog) {
		if _, err := c.Drop(t.Context(), schema.Namespace{DB: "bench", Coll: "foreign"}); err != nil {
			t.Fatal(err)
		}
		storeDatabase(t, c, false)
	}
	lookup := `{$lookup: {from: "foreign", localField: "a", foreignField: "a", as: "of"}}`
	for name, x := range map[string]struct {
		pipeline string
		change   func(*testing.T, *catalog.Catalog)
		code     mongoerr.Code
	}{
		"the collection":              {`{$group: {_id: "$a"}}`, raise(2), mongoerr.StaleConfig},
		"the collection, as it was":   {`{$group: {_id: "$a"}}`, raise(1), 0},
		"$lookup":                     {lookup, shardForeign, mongoerr.StaleConfig},
		"$lookup, database":           {lookup, moveDatabase, mongoerr.StaleConfig},
		"$lookup, dropped":            {lookup, dropForeign, mongoerr.StaleConfig},
		"$lookup, as it was":          {lookup, raise(1), 0},
		"$lookup with a pipeline":     {`{$lookup: {from: "foreign", let: {a: "$a"}, pipeline: [{$match: {$expr: {$eq: ["$a", "$$a"]}}}], as: "of"}}`, shardForeign, mongoerr.StaleConfig},
		"$graphLookup":                {`{$graphLookup: {from: "foreign", startWith: "$a", connectFromField: "b", connectToField: "a", as: "of"}}`, shardForeign, mongoerr.StaleConfig},
		"$unionWith":                  {`{$unionWith: "foreign"}`, shardForeign, mongoerr.StaleConfig},
		"$unionWith in a $facet":      {`{$facet: {one: [{$unionWith: "foreign"}]}}`, shardForeign, mongoerr.StaleConfig},
		"$unionWith of a time series": {`{$unionWith: "series"}`, moveDatabase, mongoerr.StaleConfig},
	} {
		t.Run(name, func(t *testing.T) {
			n, client, c := shardOf(t)
			raise(1)(t, c)
			body := bson.MustParse(`{aggregate: "main", pipeline: [` + x.pipeline + `], cursor: {}, $db: "bench"}`)
			op := &command.Op{DB: "bench", NS: "bench.main", Name: "aggregate", Body: body, Client: client, Dispatcher: n.Dispatcher, Reply: new(bson.Builder)}
			var err error
			if op.Args, err = command.Parse(op, aggregateFields); err != nil {
				t.Fatal(err)
			}
			op.Generic.Versions = &command.Versions{Shard: schema.ShardVersion{ShardGeneration: schema.ShardGeneration{Timestamp: 9}, Major: 1}}
			ns, list, err := AggregateTarget(op)
			if err != nil {
				t.Fatal(err)
			}
			a, err := n.parseAggregation(op, ns, list, n.aggregateReading(&op.Args))
			if err != nil {
				t.Fatal(err)
			}
			x.change(t, c)
			cur, err := n.startAggregation(t.Context(), op, a)
			if err == nil {
				defer cur.Close()
				for more := true; more && err == nil; {
					var doc bson.Doc
					doc, err = cur.Next(t.Context())
					more = doc != nil
				}
			}
			if x.code == 0 && err != nil || x.code != 0 && !mongoerr.Is(err, x.code) {
				t.Errorf("%v, want %d", err, x.code)
			}
		})
	}
}

// storeDatabase stores whether a shard has the database bench.
func storeDatabase(t *testing.T, c *catalog.Catalog, primary bool) {
	t.Helper()
	if c.Lookup(databasesNamespace) == nil {
		if _, err := c.Create(t.Context(), databasesNamespace, nil); err != nil {
			t.Fatal(err)
		}
	}
	doc := new(bson.Builder).String("_id", "bench").Bool("primary", primary).Finish()
	err := c.Run(t.Context(), storage.Buffered, func(u *catalog.Unit) error {
		coll := c.Lookup(databasesNamespace)
		key := coll.AppendIDKey(nil, doc.Lookup("_id"))
		old, err := u.LockRecord(t.Context(), coll, key)
		if err != nil {
			return err
		}
		if old == nil {
			return u.Insert(t.Context(), coll, doc)
		}
		return u.Update(t.Context(), coll, key, old, doc)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// shardOf returns a shard with the collections main, foreign and series of the database bench,
// which it has.
func shardOf(t *testing.T) (*Node, *command.Client, *catalog.Catalog) {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = e.Close()
	})
	n, client := over(c)
	n.Register(n.Dispatcher.Registry)
	for _, text := range []string{
		`{insert: "main", documents: [{_id: 1, k: 1, a: 1}]}`, `{insert: "foreign", documents: [{_id: 1, a: 1, b: 2}]}`,
		`{create: "series", timeseries: {timeField: "t"}}`, `{insert: "series", documents: [{t: {$date: "2026-01-01T00:00:00Z"}}]}`,
	} {
		r := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, Body: benchBody(bson.MustParse(text))})
		if r.Body.Lookup("ok").Double() != 1 {
			t.Fatal(r.Body)
		}
		r.Release()
	}
	storeDatabase(t, c, true)
	n.BecomeShard()
	return n, client, c
}
