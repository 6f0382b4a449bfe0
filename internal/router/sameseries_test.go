package router_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// twins are a router over three shards and one server, which are told and asked the same.
type twins struct {
	*realCluster
	one             *client.Conn
	answered, asked int
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

// changed has both change what they have, and returns whether they did.
func (w *twins) changed(db, text string) bool {
	w.t.Helper()
	x, y := ask(w.t, w.router, db, text), ask(w.t, w.one, db, text)
	if (x.err == nil) != (y.err == nil) || x.reply != y.reply && x.err == nil {
		w.t.Errorf("%s\nrouter %v %s\nserver %v %s", text, x.err, x.reply, y.err, y.reply)
	}
	return x.err == nil && y.err == nil
}

// TestSameSeriesAsOneServer asks a router over three shards and one server the same of the same
// measurements, and deletes the same: answers are the same, in whatever order without a sort.
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
			docs = append(docs, fmt.Sprintf(`{"_id": %d, "t": {"$date": "2026-01-%02dT%02d:00:00Z"}, "m": %d, "v": %d.25, "w": %s}`, i, 1+i%9, i%24, i%6, i*i%37, []string{"1", "null", `"a"`, "2.5", `{"$minKey": 1}`}[i%5]))
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
