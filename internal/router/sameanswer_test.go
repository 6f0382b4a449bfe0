package router_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/querytest"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

var (
	sameSeeds = flag.Int("same.seeds", 4, "how many collections TestSameAsOneServer asks, in each layout")
	sameFrom  = flag.Int("same.from", 1, "the first seed of TestSameAsOneServer")
)

// twins are a router over three shards and one server, which are told and asked the same.
type twins struct {
	*realCluster
	one             *client.Conn
	answered, asked int
}

// layouts are how a collection may lie over the shards: what is done before it is filled. The
// shard key is of c, which is no array.
var layouts = map[string][]string{
	"unsharded":    nil,
	"by _id":       {`{shardCollection: "app.c", key: {_id: "hashed"}}`},
	"hashed":       {`{shardCollection: "app.c", key: {c: "hashed"}}`},
	"hashed first": {`{shardCollection: "app.c", key: {c: "hashed", _id: 1}}`},
	"hashed later": {`{shardCollection: "app.c", key: {c: 1, _id: "hashed"}}`},
	"ranged": {
		`{shardCollection: "app.c", key: {c: 1}}`, `{split: "app.c", middle: {c: 1}}`, `{split: "app.c", middle: {c: "a"}}`,
		`{moveChunk: "app.c", find: {c: 1}, to: "s1"}`, `{moveChunk: "app.c", find: {c: "a"}, to: "s2"}`,
	},
	"ranged by two": {
		`{shardCollection: "app.c", key: {c: 1, _id: 1}}`, `{split: "app.c", middle: {c: 1, _id: 10}}`, `{split: "app.c", middle: {c: "a", _id: 0}}`,
		`{moveChunk: "app.c", find: {c: 1, _id: 10}, to: "s1"}`, `{moveChunk: "app.c", find: {c: "a", _id: 0}, to: "s2"}`,
	},
}

// row is a document, and its key: what is equal by the collation that was asked for has equal ones.
type row struct {
	key  []byte
	text string
}

func byKey(a, b row) int  { return bytes.Compare(a.key, b.key) }
func equal(a, b row) bool { return bytes.Equal(a.key, b.key) }

// told is what a server answered.
type told struct {
	docs  []row  // of a cursor
	reply string // what else is the same
	err   error
}

// ask runs a command, and reads the whole of its cursor.
func ask(t *testing.T, on *client.Conn, db, text string) (out told) {
	t.Helper()
	body, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var collator bson.Collator
	if v := body.Lookup("collation"); v.Type == bson.TypeDocument {
		c, err := schema.ParseCollation(v.Doc())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		collator = c.Collator
	}
	reply, err := on.Run(t.Context(), db, body)
	for ; err == nil; reply, err = on.Run(t.Context(), db, body) {
		cursor := reply.Lookup("cursor")
		if cursor.Type != bson.TypeDocument {
			break
		}
		for _, name := range []string{"firstBatch", "nextBatch"} {
			if list := cursor.Doc().Lookup(name); list.Type == bson.TypeArray {
				for v := range list.Doc().Values() {
					out.docs = append(out.docs, row{keystring.Append(nil, v, false, collator), v.String()})
				}
			}
		}
		id := bson.ClampToInt64(cursor.Doc().Lookup("id"))
		if id == 0 {
			break
		}
		_, coll, _ := strings.Cut(cursor.Doc().Lookup("ns").Str(), ".")
		body = new(bson.Builder).Int64("getMore", id).String("collection", coll).Int32("batchSize", 5).Finish()
	}
	if err != nil {
		return told{err: err}
	}
	var parts []string
	for name, v := range reply.All() {
		switch name {
		case "n", "nModified", "value", "upserted", "lastErrorObject", "nInserted", "nMatched", "nDeleted", "nUpserted", "nErrors":
			parts = append(parts, fmt.Sprintf("%s: %s", name, v))
		case "values":
			var all [][]byte
			for e := range v.Doc().Values() {
				all = append(all, keystring.Append(nil, e, false, collator))
			}
			slices.SortFunc(all, bytes.Compare)
			parts = append(parts, fmt.Sprintf("values: %x", all))
		case "writeErrors":
			out.err = mongoerr.New(mongoerr.Code(v.Doc().Lookup("0").Doc().Lookup("code").Int32()), "%s", v)
		}
	}
	if v := reply.Lookup("nErrors"); v.IsNumber() && v.Truthy() { // of a bulkWrite
		out.err = mongoerr.New(mongoerr.OperationFailed, "%s", reply)
	}
	slices.Sort(parts)
	out.reply = strings.Join(parts, "; ")
	return out
}

// same asks both, and fails where the answers differ; ordered says that documents come in one
// order. It returns whether both succeeded.
func (w *twins) same(db, text string, ordered bool) bool {
	w.t.Helper()
	x, y := ask(w.t, w.router, db, text), ask(w.t, w.one, db, text)
	w.asked++
	if x.err != nil || y.err != nil {
		if x.err == nil || y.err == nil || mongoerr.From(x.err).Code != mongoerr.From(y.err).Code {
			w.t.Errorf("%s\nrouter %v\nserver %v", text, x.err, y.err)
		}
		return false
	}
	if !ordered {
		slices.SortFunc(x.docs, byKey)
		slices.SortFunc(y.docs, byKey)
	}
	if x.reply != y.reply {
		w.t.Errorf("%s\nrouter %s\nserver %s", text, x.reply, y.reply)
	}
	if !slices.EqualFunc(x.docs, y.docs, equal) {
		w.t.Errorf("%s\nrouter %.2000v\nserver %.2000v", text, without(x.docs, y.docs), without(y.docs, x.docs))
	}
	w.answered++
	return true
}

// without are the texts of what is in x and not in y; all where that is nothing, and the order
// differs.
func without(x, y []row) (texts []string) {
	for _, d := range x {
		if !slices.ContainsFunc(y, func(e row) bool { return equal(d, e) }) {
			texts = append(texts, d.text)
		}
	}
	if texts == nil {
		for _, d := range x {
			texts = append(texts, d.text)
		}
	}
	return texts
}

// fresh makes the collections c, in a layout, and from, hashed by its _id, with the same random
// documents.
func (w *twins) fresh(layout string, seed int) {
	for _, name := range []string{"c", "from", "out"} {
		w.do("app", fmt.Sprintf(`{drop: %q}`, name))
		_ = ask(w.t, w.one, "app", fmt.Sprintf(`{"drop": %q}`, name))
	}
	for _, text := range layouts[layout] {
		w.do("admin", text)
	}
	w.do("admin", `{shardCollection: "app.from", key: {_id: "hashed"}}`)
	var docs, from []string
	for i, d := range rapid.SliceOfN(querytest.Fields([]string{"a", "b"}, 2), 20, 30).Example(seed) {
		c := ""
		if i%7 > 0 {
			c = `, "c": ` + querytest.Scalars().Example(seed*1000+i)
		}
		rest := strings.TrimSuffix(d[1:], "}")
		if rest != "" {
			rest = ", " + rest
		}
		docs = append(docs, fmt.Sprintf(`{"_id": %d, "g": %d, "d": %d.5%s%s}`, i, i%4, i*i%23, c, rest))
		from = append(from, fmt.Sprintf(`{"_id": %d, "up": %d, "g": %d%s}`, i, i/2, i%3, c))
	}
	// A server that is in no cluster has them as {"": MinKey} in some groups, as MongoDB does.
	ends := strings.NewReplacer(`{"$minKey": 1}`, `"low"`, `{"$maxKey": 1}`, `"high"`)
	w.same("app", ends.Replace(fmt.Sprintf(`{"insert": "c", "documents": [%s]}`, strings.Join(docs, ","))), false)
	w.same("app", ends.Replace(fmt.Sprintf(`{"insert": "from", "documents": [%s]}`, strings.Join(from, ","))), false)
}

// find is a question as a find, with _id behind its sort.
func find(q querytest.Question) (text string, sorted bool) {
	text = `{"find": "c", "batchSize": 4, "filter": ` + q.Filter
	if q.Sort != "" {
		text += `, "sort": ` + strings.TrimSuffix(q.Sort, "}") + `, "_id": 1}`
	}
	for _, x := range []struct{ name, v string }{{"projection", q.Projection}, {"collation", q.Collation}} {
		if x.v != "" {
			text += fmt.Sprintf(`, %q: %s`, x.name, x.v)
		}
	}
	return fmt.Sprintf(`%s, "skip": %d, "limit": %d}`, text, q.Skip, q.Limit), q.Sort != ""
}

// pipelines are asked behind a random $match. What they answer depends on no order of the
// documents of c.
var pipelines = []string{
	`{"$group": {"_id": "$g", "sum": {"$sum": "$d"}, "avg": {"$avg": "$d"}, "min": {"$min": "$a"}, "max": {"$max": "$b"}, "n": {"$count": {}}, "med": {"$median": {"input": "$d", "method": "approximate"}},
		"p": {"$percentile": {"input": "$d", "p": [0.1, 0.9], "method": "approximate"}}, "minN": {"$minN": {"n": 3, "input": "$d"}}, "maxN": {"$maxN": {"n": 2, "input": "$d"}},
		"top": {"$top": {"sortBy": {"d": 1, "_id": 1}, "output": ["$_id", "$c"]}}, "bottomN": {"$bottomN": {"n": 2, "sortBy": {"a": 1, "_id": 1}, "output": "$_id"}}}}`,
	`{"$group": {"_id": "$c", "set": {"$addToSet": "$g"}}}, {"$set": {"set": {"$sortArray": {"input": "$set", "sortBy": 1}}}}`,
	`{"$group": {"_id": {"g": "$g", "d": {"$type": "$a"}}, "pop": {"$stdDevPop": "$d"}, "samp": {"$stdDevSamp": "$d"}}}, {"$set": {"pop": {"$round": ["$pop", 6]}, "samp": {"$round": ["$samp", 6]}}}`,
	`{"$sort": {"_id": 1}}, {"$group": {"_id": "$g", "first": {"$first": "$_id"}, "last": {"$last": "$c"}, "all": {"$push": "$_id"}, "firstN": {"$firstN": {"n": 2, "input": "$b"}}, "lastN": {"$lastN": {"n": 2, "input": "$b"}}, "o": {"$mergeObjects": {"g": "$g", "id": "$_id"}}}}`,
	`{"$group": {"_id": "$c"}}`,
	`{"$sortByCount": "$g"}, {"$group": {"_id": "$count", "ids": {"$sum": "$_id"}}}`,
	`{"$bucket": {"groupBy": "$d", "boundaries": [0, 5, 12, 40], "output": {"n": {"$sum": 1}, "s": {"$sum": "$_id"}}}}`,
	`{"$bucketAuto": {"groupBy": "$_id", "buckets": 4}}`,
	`{"$setWindowFields": {"partitionBy": "$g", "sortBy": {"_id": 1}, "output": {"run": {"$sum": "$d", "window": {"documents": ["unbounded", "current"]}}, "rank": {"$documentNumber": {}}, "before": {"$shift": {"output": "$_id", "by": -1}}}}}, {"$project": {"run": 1, "rank": 1, "before": 1}}`,
	`{"$setWindowFields": {"partitionBy": "$c", "sortBy": {"_id": 1}, "output": {"rank": {"$rank": {}}}}}, {"$project": {"rank": 1}}`,
	`{"$sort": {"a": 1, "_id": -1}}, {"$limit": 5}`,
	`{"$sort": {"c": -1, "_id": 1}}, {"$skip": 3}, {"$limit": 6}, {"$project": {"c": 1}}`,
	`{"$lookup": {"from": "from", "localField": "c", "foreignField": "c", "as": "l"}}, {"$project": {"l": {"$sortArray": {"input": "$l._id", "sortBy": 1}}}}`,
	`{"$lookup": {"from": "from", "let": {"g": "$g"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$g", "$$g"]}}}, {"$group": {"_id": null, "n": {"$sum": "$_id"}}}], "as": "l"}}, {"$project": {"l": 1}}`,
	`{"$lookup": {"from": "from", "localField": "g", "foreignField": "g", "pipeline": [{"$sort": {"_id": 1}}, {"$limit": 2}, {"$project": {"up": 1}}], "as": "l"}}, {"$unwind": "$l"}, {"$match": {"l.up": {"$lt": 3}}}, {"$project": {"l": 1}}`,
	`{"$unionWith": {"coll": "from", "pipeline": [{"$match": {"up": {"$gt": 3}}}]}}, {"$group": {"_id": "$g", "n": {"$sum": "$_id"}}}`,
	`{"$unionWith": "from"}, {"$project": {"c": 1}}`,
	`{"$facet": {"n": [{"$count": "n"}], "by": [{"$group": {"_id": "$g", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "first": [{"$sort": {"_id": 1}}, {"$limit": 2}, {"$project": {"c": 1}}]}}`,
	`{"$graphLookup": {"from": "from", "startWith": "$_id", "connectFromField": "up", "connectToField": "_id", "as": "chain", "depthField": "deep"}}, {"$project": {"chain": {"$sortArray": {"input": "$chain", "sortBy": {"_id": 1}}}}}`,
	`{"$sample": {"size": 7}}, {"$count": "n"}`,
	`{"$count": "n"}`,
	`{"$unwind": {"path": "$a", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": true}}, {"$group": {"_id": "$at", "n": {"$sum": "$_id"}}}`,
	`{"$project": {"c": 1, "x": {"$ifNull": ["$c", "none"]}}}, {"$match": {"x": {"$ne": "none"}}}`,
	`{"$set": {"c": "$g"}}, {"$match": {"c": 2}}, {"$group": {"_id": "$c", "n": {"$sum": "$_id"}}}`,
	`{"$redact": {"$cond": [{"$gt": ["$g", 1]}, "$$KEEP", "$$PRUNE"]}}`,
	`{"$densify": {"field": "_id", "range": {"step": 1, "bounds": [0, 30]}}}, {"$group": {"_id": null, "n": {"$sum": 1}}}`,
	`{"$fill": {"sortBy": {"_id": 1}, "output": {"c": {"method": "locf"}}}}, {"$project": {"c": 1}}`,
}

// changesOf are commands that change the collection c, or out, the same way wherever documents lie.
func changesOf(seed int) (texts []string) {
	for i := range 8 {
		at := seed*10 + i
		filter, u := querytest.Filters(1).Example(at), querytest.Updates().Example(at)
		if strings.Contains(u, `"c`) { // no multi-document update changes a shard key
			u = `{"$inc": {"n": 1}}`
		}
		one := fmt.Sprintf(`{"$and": [{"_id": %d}, %s]}`, at%20, filter)
		texts = append(texts, []string{
			fmt.Sprintf(`{"update": "c", "updates": [{"q": %s, "u": %s, "multi": true}]}`, filter, u),
			fmt.Sprintf(`{"aggregate": "c", "pipeline": [{"$match": %s}, {"$project": {"c": 1, "g": 1}}, {"$out": "out"}], "cursor": {}}`, filter),
			fmt.Sprintf(`{"delete": "c", "deletes": [{"q": {"$and": [{"g": 2}, %s]}, "limit": 0}]}`, filter),
			`{"aggregate": "c", "pipeline": [{"$group": {"_id": "$g", "n": {"$sum": "$d"}}}, {"$merge": {"into": "out", "whenMatched": [{"$set": {"n": {"$add": ["$$new.n", "$_id"]}}}]}}], "cursor": {}}`,
			fmt.Sprintf(`{"findAndModify": "c", "query": %s, "sort": {"d": -1, "_id": 1}, "update": %s, "new": true}`, filter, u),
			fmt.Sprintf(`{"findAndModify": "c", "query": %s, "sort": {"d": 1, "_id": 1}, "remove": true, "fields": {"c": 1}}`, filter),
			fmt.Sprintf(`{"bulkWrite": 1, "ops": [{"insert": 0, "document": {"_id": %d, "c": 2, "l": [1, 5, {"x": 1}]}}, {"update": 0, "filter": {"_id": %d}, "updateMods": {"$set": {"l.$[e]": 9}}, "arrayFilters": [{"e": {"$lt": 5}}]},
				{"update": 0, "filter": %s, "updateMods": %s}, {"delete": 0, "filter": {"_id": %d}}, {"update": 0, "filter": {"g": 1}, "updateMods": {"$inc": {"n": 1}}, "multi": true}], "nsInfo": [{"ns": "app.c"}]}`, 100+at, 100+at, one, u, at%9),
			fmt.Sprintf(`{"update": "c", "ordered": false, "updates": [{"q": {"_id": %d, "c": 3}, "u": {"$set": {"g": 1}, "$setOnInsert": {"made": true}}, "upsert": true}, {"q": {"_id": %d}, "u": [{"$set": {"n": {"$add": ["$d", 1]}}}]}, {"q": %s, "u": {"$set": {"one": 1}}}]}`, 200+at, at%20, one),
		}[at%8])
	}
	return texts
}

// changed has both change what they have, and returns whether they did.
func (w *twins) changed(db, text string) bool {
	w.t.Helper()
	x, y := ask(w.t, w.router, db, text), ask(w.t, w.one, db, text)
	if (x.err == nil) != (y.err == nil) || x.reply != y.reply && x.err == nil {
		w.t.Errorf("%s\nrouter %v %s\nserver %v %s", text, x.err, x.reply, y.err, y.reply)
	}
	return x.err == nil && y.err == nil
}

// TestSameAsOneServer asks a router over three shards and one server random questions of the same
// random documents, in each layout, and changes them in the same ways: answers are the same, in
// whatever order where there is no sort, and so are the documents behind each change.
func TestSameAsOneServer(t *testing.T) {
	w := &twins{realCluster: newCluster(t, 3)}
	w.one = w.connect(servertest.Start(t).Address)
	w.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	for _, layout := range slices.Sorted(maps.Keys(layouts)) {
		for seed := *sameFrom; seed < *sameFrom+*sameSeeds && !t.Failed(); seed++ {
			w.fresh(layout, seed)
			for i := range 6 {
				at := seed*100 + i
				q := querytest.Questions().Example(at)
				text, sorted := find(q)
				w.same("app", text, sorted)
				collation := ""
				if q.Collation != "" {
					collation = `, "collation": ` + q.Collation
				}
				w.same("app", fmt.Sprintf(`{"count": "c", "query": %s%s}`, q.Filter, collation), false)
				w.same("app", fmt.Sprintf(`{"distinct": "c", "key": %q, "query": %s%s}`, querytest.Paths[at%len(querytest.Paths)], q.Filter, collation), false)
				match := q.Filter
				if i%2 == 0 {
					match = "{}"
				}
				p := pipelines[(seed*6+i)%len(pipelines)]
				ordered := strings.HasPrefix(p, `{"$sort"`) && strings.Contains(p, `"$limit"`)
				w.same("app", fmt.Sprintf(`{"aggregate": "c", "pipeline": [{"$match": %s}, %s], "cursor": {"batchSize": 4}%s}`, match, p, collation), ordered)
			}
			for _, text := range changesOf(seed) {
				db := "app"
				if strings.HasPrefix(text, `{"bulkWrite"`) {
					db = "admin"
				}
				if !w.changed(db, text) {
					break // how much of it was done before the error is each one's own
				}
				w.same("app", `{"find": "c"}`, false)
				w.same("app", `{"find": "out"}`, false)
			}
			if t.Failed() {
				t.Logf("in the layout %s, seed %d", layout, seed)
			}
		}
	}
	t.Logf("%d of %d answered", w.answered, w.asked)
}

// TestSameSeriesAsOneServer is the same for time series.
func TestSameSeriesAsOneServer(t *testing.T) {
	w := &twins{realCluster: newCluster(t, 3)}
	w.one = w.connect(servertest.Start(t).Address)
	for _, key := range []string{`{m: "hashed"}`, `{m: 1}`} {
		w.do("app", `{drop: "ts"}`)
		_ = ask(t, w.one, "app", `{"drop": "ts"}`)
		w.same("app", `{"create": "ts", "timeseries": {"timeField": "t", "metaField": "m"}}`, false)
		w.do("admin", `{shardCollection: "app.ts", key: `+key+`}`)
		if key == `{m: 1}` {
			w.do("admin", `{split: "app.system.buckets.ts", middle: {meta: 3}}`)
			w.do("admin", `{moveChunk: "app.system.buckets.ts", find: {meta: 3}, to: "s1"}`)
		}
		var docs []string
		for i := range 120 {
			docs = append(docs, fmt.Sprintf(`{"_id": %d, "t": {"$date": "2026-01-%02dT%02d:00:00Z"}, "m": %d, "v": %d.25, "w": %s}`, i, 1+i%9, i%24, i%6, i*i%37, querytest.Scalars().Example(i)))
		}
		w.same("app", fmt.Sprintf(`{"insert": "ts", "documents": [%s]}`, strings.Join(docs, ",")), false)
		ask := func() {
			for _, text := range []string{
				`{"find": "ts", "batchSize": 7}`, `{"find": "ts", "filter": {"m": {"$gte": 3}, "v": {"$lt": 20}}, "sort": {"t": 1, "_id": 1}, "limit": 30}`,
				`{"find": "ts", "filter": {"t": {"$gt": {"$date": "2026-01-04T12:00:00Z"}}}, "sort": {"v": -1, "_id": 1}, "skip": 4, "projection": {"w": 1}}`,
				`{"find": "ts", "sort": {"w": 1, "_id": -1}, "projection": {"_id": 0}}`, `{"find": "ts", "sort": {"w": 1, "_id": -1}, "projection": {"v": 0}}`,
				`{"find": "ts", "sort": {"_id": -1}, "projection": {"_id": 1}}`, `{"find": "ts", "sort": {"_id": -1}, "projection": {"_id": "$m", "w": 1}}`, `{"count": "ts", "query": {"w": {"$gt": 1}}}`, `{"distinct": "ts", "key": "m", "query": {"v": {"$gt": 3}}}`, `{"distinct": "ts", "key": "w"}`,
				`{"aggregate": "ts", "pipeline": [{"$group": {"_id": "$m", "n": {"$count": {}}, "s": {"$sum": "$v"}, "a": {"$avg": "$v"}, "lo": {"$min": "$w"}, "hi": {"$max": "$t"}, "med": {"$median": {"input": "$v", "method": "approximate"}}}}], "cursor": {}}`,
				`{"aggregate": "ts", "pipeline": [{"$group": {"_id": {"$dateTrunc": {"date": "$t", "unit": "day"}}, "s": {"$sum": "$v"}}}, {"$sort": {"_id": 1}}], "cursor": {"batchSize": 2}}`,
				`{"aggregate": "ts", "pipeline": [{"$sort": {"t": 1, "_id": 1}}, {"$group": {"_id": "$m", "first": {"$first": "$v"}, "last": {"$last": "$_id"}}}], "cursor": {}}`,
				`{"aggregate": "ts", "pipeline": [{"$setWindowFields": {"partitionBy": "$m", "sortBy": {"t": 1}, "output": {"r": {"$sum": "$v", "window": {"range": [-2, 0], "unit": "day"}}}}}, {"$project": {"r": 1}}], "cursor": {}}`,
				`{"aggregate": "ts", "pipeline": [{"$count": "n"}], "cursor": {}}`,
			} {
				w.same("app", text, strings.Contains(text, `"sort"`))
			}
		}
		ask()
		w.changed("app", `{"delete": "ts", "deletes": [{"q": {"m": 4}, "limit": 0}, {"q": {"v": {"$gt": 30}}, "limit": 0}]}`)
		ask()
		if t.Failed() {
			t.Fatalf("by the key %s", key)
		}
	}
	t.Logf("%d of %d answered", w.answered, w.asked)
}
