package router_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// inconsistencies are the types that a check finds, with their documents.
func (c *realCluster) inconsistencies(db, text string) (types []string, found []bson.Doc) {
	c.t.Helper()
	reply := c.do(db, text)
	for name := "firstBatch"; ; name = "nextBatch" {
		cursor := reply.Lookup("cursor").Doc()
		for v := range cursor.Lookup(name).Doc().Values() {
			found = append(found, v.Doc().Clone())
			types = append(types, v.Doc().Lookup("type").Str())
		}
		if cursor.Lookup("id").Int64() == 0 {
			break
		}
		reply = c.do(db, fmt.Sprintf(`{getMore: {$numberLong: "%d"}, collection: "$cmd.aggregate"}`, cursor.Lookup("id").Int64()))
	}
	return types, found
}

// TestMetadataAreConsistent: nothing is found on a healthy cluster of all kinds of collections,
// whatever moves.
func TestMetadataAreConsistent(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for _, text := range []string{
		`{shardCollection: "app.ranged", key: {x: 1, y: 1}, unique: true}`, `{shardCollection: "app.hashed", key: {_id: "hashed"}}`,
		`{shardCollection: "app.series", key: {m: 1, t: 1}, timeseries: {timeField: "t", metaField: "m"}}`, `{shardCollection: "app.folded", key: {x: 1}, collation: {locale: "simple"}}`,
		`{split: "app.ranged", middle: {x: 10, y: 0}}`, `{split: "app.series", middle: {meta: 5, "control.min.t": {$minKey: 1}}}`,
		`{addShardToZone: "s1", zone: "one"}`, `{updateZoneKeyRange: "app.ranged", min: {x: 10, y: {$minKey: 1}}, max: {x: {$maxKey: 1}, y: {$maxKey: 1}}, zone: "one"}`,
	} {
		c.do("admin", text)
	}
	for _, text := range []string{
		`{create: "capped", capped: true, size: 10000}`, `{create: "view", viewOn: "ranged", pipeline: []}`, `{create: "alone", timeseries: {timeField: "t"}}`, `{create: "tracked"}`,
		`{createIndexes: "hashed", indexes: [{key: {at: 1}, name: "at_1", expireAfterSeconds: 1000}, {key: {name: 1}, name: "n", collation: {locale: "de"}}]}`,
		`{collMod: "ranged", validator: {x: {$type: "int"}}}`,
		`{aggregate: "ranged", pipeline: [{$out: "copied"}], cursor: {}}`,
	} {
		c.do("app", text)
	}
	c.do("admin", `{moveCollection: "app.tracked", toShard: "s2"}`)
	c.fill("ranged", 0, 50)
	c.fill("hashed", 0, 50)
	c.do("app", `{insert: "series", documents: [{t: {$date: "2026-01-01T00:00:00Z"}, m: 1}, {t: {$date: "2026-01-01T00:00:00Z"}, m: 7}]}`)
	c.refused("app", `{checkMetadataConsistency: "ranged", coll: "hashed"}`, mongoerr.InvalidOptions) // of which one is authorized
	none := func(db, text string) {
		if types, found := c.inconsistencies(db, text); len(types) > 0 {
			t.Errorf("%s: %s", text, found)
		}
	}
	var moving sync.WaitGroup
	var over atomic.Bool
	mover := c.connect(c.address)
	moving.Go(func() {
		for i := 0; !over.Load(); i++ {
			to := fmt.Sprintf("s%d", i%3)
			for _, text := range []string{
				`{moveChunk: "app.ranged", find: {x: 1, y: 1}, to: "` + to + `"}`, `{moveRange: "app.series", min: {meta: 5, "control.min.t": {$minKey: 1}}, toShard: "` + to + `"}`,
				fmt.Sprintf(`{split: "app.folded", middle: {x: %d}}`, i), `{moveRange: "app.folded", min: {x: 0}, toShard: "` + to + `"}`,
				fmt.Sprintf(`{moveCollection: "app.tracked", toShard: "s%d"}`, i%2),
			} {
				if _, err := mover.Run(t.Context(), "admin", bson.MustParse(text)); err != nil && t.Context().Err() == nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	})
	for range 40 {
		none("admin", `{checkMetadataConsistency: 1, checkIndexes: true}`)
		none("app", `{checkMetadataConsistency: 1, checkIndexes: 1}`)
		none("app", `{checkMetadataConsistency: "ranged", checkIndexes: true}`)
	}
	over.Store(true)
	moving.Wait()
	c.do("admin", `{reshardCollection: "app.hashed", key: {x: "hashed"}}`)
	c.do("admin", `{renameCollection: "app.hashed", to: "app.named"}`)
	c.do("admin", `{movePrimary: "app", to: "s2"}`)
	c.do("app", `{drop: "ranged"}`)
	none("admin", `{checkMetadataConsistency: 1, checkIndexes: true}`)
}

// planted are inconsistencies, each in a database of its own with the collection c, which is
// sharded by x, on s0 below 0 and on s1 from there; s0 is the primary shard. on: a shard, or ""
// for the router.
var planted = []struct {
	name  string
	plant [][3]string // on, database, command
	want  []string
	says  string // a part of what is found
}{
	{"an owner lacks it", [][3]string{{"s1", "d", `{drop: "c"}`}}, []string{"MissingLocalCollection"}, `shard: "s1"`},
	{"another one", [][3]string{{"s1", "d", `{drop: "c"}`}, {"s1", "d", `{create: "c"}`}}, []string{"CollectionUUIDMismatch"}, `shard: "s1", localUUID: UUID(`},
	{"misplaced", [][3]string{{"s1", "d", `{create: "other"}`}}, []string{"MisplacedCollection"}, `namespace: "d.other", shard: "s1", localUUID: UUID(`},
	{"hidden", [][3]string{{"", "config", `{delete: "databases", deletes: [{q: {_id: "d"}, limit: 1}]}`}}, []string{"HiddenShardedCollection"}, `collection: { _id: "d.c"`},
	{"no index on the key", [][3]string{{"s1", "d", `{drop: "c"}`}, {"s1", "admin", `{_shardsvrCreateSharded: "d.c", uuid: UUID, key: {x: 1}, unique: false, version: VERSION, options: {}, indexes: []}`}}, []string{"MissingShardKeyIndex", "InconsistentIndex"}, `shard: "s1", shardKey: { x: 1 }`},
	{"an index on one", [][3]string{{"s1", "d", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1"}]}`}}, []string{"InconsistentIndex"}, `missingFromShards: [ "s0" ], inconsistentProperties: [], indexName: "y_1"`},
	{"another index", [][3]string{
		{"s0", "d", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1"}]}`}, {"s1", "d", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y_1", expireAfterSeconds: 60}]}`},
	}, []string{"InconsistentIndex"}, `missingFromShards: [], inconsistentProperties: [ { k: "expireAfterSeconds", v: 60 } ]`},
	{"options", [][3]string{{"s1", "d", `{collMod: "c", validator: {y: 1}}`}}, []string{"CollectionOptionsMismatch"}, `shards: [ "s1" ]`},
	{"no chunks", [][3]string{{"", "config", `{delete: "chunks", deletes: [{q: {uuid: UUID}, limit: 0}]}`}}, []string{"MissingRoutingTable", "ShardCatalogCacheCollectionMetadataMismatch"}, `collectionUUID: UUID(`},
	{"a gap", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s1"}, u: {$set: {min: {x: 5}}}}]}`}}, []string{"RoutingTableRangeGap"}, `max: { x: 0 }`},
	{"an overlap", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s1"}, u: {$set: {min: {x: -5}}}}]}`}}, []string{"RoutingTableRangeOverlap"}, `min: { x: -5 }`},
	{"not from the least key", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s0"}, u: {$set: {min: {x: -100}}}}]}`}}, []string{"RoutingTableMissingMinKey"}, `minKeyObj: { x: -100 }, globalMin: { x: MinKey }`},
	{"not to the greatest key", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s1"}, u: {$set: {max: {x: 100}}}}]}`}}, []string{"RoutingTableMissingMaxKey"}, `maxKeyObj: { x: 100 }, globalMax: { x: MaxKey }`},
	{"bounds of another key", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s1"}, u: {$set: {max: {z: {$maxKey: 1}}}}}]}`}}, []string{"CorruptedChunkShardKey", "RoutingTableMissingMaxKey"}, `shardKeyPattern: { x: 1 }`},
	{"a version", [][3]string{{"", "config", `{update: "chunks", updates: [{q: {uuid: UUID, shard: "s1"}, u: {$set: {lastmod: {$timestamp: {t: 9, i: 0}}}}}]}`}}, []string{"ShardCatalogCacheCollectionMetadataMismatch"}, `shards: [ "s1" ]`},
	{"zones", [][3]string{{"", "config", `{insert: "tags", documents: [{ns: "d.c", min: {x: 0}, max: {x: 10}, tag: "a"}, {ns: "d.c", min: {x: 5}, max: {x: 20}, tag: "b"}]}`}}, []string{"ZonesRangeOverlap"}, `tag: "b"`},
	{"a zone of another key", [][3]string{{"", "config", `{insert: "tags", documents: [{ns: "d.c", min: {y: 0}, max: {y: 10}, tag: "a"}]}`}}, []string{"CorruptedZoneShardKey"}, `zone: {`},
	{"tracked", [][3]string{{"", "config", `{update: "collections", updates: [{q: {_id: "d.c"}, u: {$set: {unsplittable: true}}}]}`}},
		[]string{"TrackedUnshardedCollectionHasInvalidKey", "TrackedUnshardedCollectionHasMultipleChunks"}, `numChunks: 2`},
	{"forgotten", [][3]string{{"", "config", `{delete: "collections", deletes: [{q: {_id: "d.c"}, limit: 1}]}`}}, []string{"ShardCatalogCacheCollectionMetadataMismatch", "MisplacedCollection"}, `tracked: true`},
	{"a database's version", [][3]string{{"", "config", `{update: "databases", updates: [{q: {_id: "d"}, u: {$set: {"version.lastMod": 7}}}]}`}}, []string{"InconsistentDatabaseVersionInShardCatalog"}, `lastMod: 7`},
	{"a database's primary", [][3]string{{"", "config", `{update: "databases", updates: [{q: {_id: "d"}, u: {$set: {primary: "s1"}}}]}`}},
		[]string{"MisplacedDatabaseMetadataInShardCatalog", "MissingDatabaseMetadataInShardCatalog"}, `primaryShard: "s1", shardInLocalCatalog: "s0"`},
	{"not known as sharded", [][3]string{{"s1", "d", `{drop: "c"}`}, {"s1", "d", `{applyOps: [{op: "c", ns: "d.$cmd", ui: UUID, o: {create: "c"}}]}`}}, []string{"ShardMissingCollectionRoutingInfo"}, `shard: "s1"`},
	{"a capped one", [][3]string{{"s1", "d", `{drop: "c"}`}, {"s1", "d", `{applyOps: [{op: "c", ns: "d.$cmd", ui: UUID, o: {create: "c", capped: true, size: 1000}}]}`}}, []string{"ShardMissingCollectionRoutingInfo"}, `shard: "s1"`},
}

// TestMetadataInconsistencies plants each kind of inconsistency, and holds that it is told, with
// its details, and nothing else.
func TestMetadataInconsistencies(t *testing.T) {
	c := newCluster(t, 2)
	all := 0
	for i, p := range planted {
		db := fmt.Sprintf("d%d", i)
		id, version := "", ""
		named := func(text string) string {
			return strings.NewReplacer(`"d.`, `"`+db+`.`, `_id: "d"`, `_id: "`+db+`"`, "uuid: UUID", "uuid: "+id, "ui: UUID", "ui: "+id, "VERSION", version).Replace(text)
		}
		c.do("admin", `{enableSharding: "`+db+`", primaryShard: "s0"}`)
		c.do("admin", `{shardCollection: "`+db+`.c", key: {x: 1}}`)
		c.do("admin", `{split: "`+db+`.c", middle: {x: 0}}`)
		c.do("admin", `{moveChunk: "`+db+`.c", find: {x: 0}, to: "s1"}`)
		entry := c.do("config", `{find: "collections", filter: {_id: "`+db+`.c"}}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Lookup("0").Doc()
		_, content := entry.Lookup("uuid").Binary()
		version = fmt.Sprintf(`{e: {$oid: "%x"}, t: {$timestamp: {t: %d, i: %d}}, v: {$timestamp: {t: 2, i: 0}}}`, entry.Lookup("lastmodEpoch").ObjectID(), entry.Lookup("timestamp").Timestamp()>>32, uint32(entry.Lookup("timestamp").Timestamp()))
		id = `{$uuid: "` + bson.UUID(content).String() + `"}`
		if types, found := c.inconsistencies(db, `{checkMetadataConsistency: 1, checkIndexes: true}`); len(types) > 0 {
			t.Fatalf("%s: nothing is planted: %s", p.name, found)
		}
		for _, step := range p.plant {
			text, at := named(step[2]), step[1]
			if at == "d" {
				at = db
			}
			if step[0] == "" {
				c.do(at, text)
			} else {
				c.on(step[0], at, text)
			}
		}
		check := `{checkMetadataConsistency: 1, checkIndexes: true, cursor: {batchSize: 1}}`
		types, found := c.inconsistencies(db, check)
		all += len(types)
		slices.Sort(types)
		slices.Sort(p.want)
		if !slices.Equal(types, p.want) || !strings.Contains(fmt.Sprint(found), named(p.says)) {
			t.Errorf("%s: %s", p.name, found)
		}
		for _, d := range found {
			if d.Lookup("description").Str() == "" {
				t.Errorf("%s: no description: %s", p.name, d)
			}
		}
	}
	if types, _ := c.inconsistencies("admin", `{checkMetadataConsistency: 1, checkIndexes: true}`); len(types) != all {
		t.Errorf("in all of the cluster are %d, and not %d", len(types), all)
	}
	if types, _ := c.inconsistencies("d5", `{checkMetadataConsistency: 1}`); len(types) > 0 {
		t.Errorf("indexes are compared unasked: %s", types)
	}
	for text, want := range map[string]string{
		`{checkMetadataConsistency: {}}`: "(73)", `{checkMetadataConsistency: 1, cursor: {batchSize: -1}}`: "(2)", `{checkMetadataConsistency: 1, checkIndex: 1}`: "(40415)", `{checkMetadataConsistency: 2}`: "(73)",
	} {
		if _, err := c.try("app", text); err == nil || !strings.Contains(fmt.Sprintf("(%v)", codeOf(err)), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
