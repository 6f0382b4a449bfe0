package router_test

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// newTwins are a router over two shards and one server with the same documents in c and from, which
// are spread by the hash of _id and have indexes for places and text; c has one on g, too.
func newTwins(t *testing.T) *twins {
	w := &twins{realCluster: newCluster(t, 2)}
	w.one = w.connect(servertest.Start(t).Address)
	for _, name := range []string{"c", "from"} {
		w.do("admin", `{shardCollection: "app.`+name+`", key: {_id: "hashed"}}`)
		var texts []string
		texts = append(texts, `{"insert": "c", "documents": [
			{"_id": 1, "g": 1, "at": {"type": "Point", "coordinates": [1, 1]}, "t": "hello x"}, {"_id": 2, "g": 0, "at": {"type": "Point", "coordinates": [2, 2]}, "t": "hello hello x"},
			{"_id": 3, "g": 1, "at": {"type": "Point", "coordinates": [3, 3]}, "t": "hello hello hello x"}, {"_id": 4, "g": 0, "at": {"type": "Point", "coordinates": [4, 4]}, "t": "goodbye"},
			{"_id": 5, "g": 1, "at": {"type": "Point", "coordinates": [5, 5]}, "t": "hello hello hello hello x"}]}`,
			`{"createIndexes": "c", "indexes": [{"key": {"at": "2dsphere"}, "name": "at"}, {"key": {"t": "text"}, "name": "t"}]}`)
		if name == "c" {
			texts = append(texts, `{"createIndexes": "c", "indexes": [{"key": {"g": 1}, "name": "g"}]}`)
		}
		for _, text := range texts {
			for _, conn := range []*client.Conn{w.router, w.one} {
				if told := ask(t, conn, "app", strings.ReplaceAll(text, `"c"`, `"`+name+`"`)); told.err != nil {
					t.Fatal(told.err)
				}
			}
		}
	}
	return w
}

// TestMetadataSameAsOneServer: what a search or a sort knows of documents is known to the router's
// part of a pipeline, and to pipelines over other collections.
func TestMetadataSameAsOneServer(t *testing.T) {
	w := newTwins(t)
	near, text, one := `{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}, "distanceField": "d"}}`, `{"$match": {"$text": {"$search": "hello"}}}`, `{"$sort": {"_id": 1}}, {"$limit": 1}, {"$project": {"at": 1, "g": 1}}`
	bare := `{"$geoNear": {"near": {"type": "Point", "coordinates": [0, 0]}}}`
	for _, stages := range []string{
		near + `, {"$sort": {"x": {"$meta": "geoNearDistance"}}}, {"$project": {"d": 1}}`,
		near + `, {"$project": {"m": {"$meta": "geoNearDistance"}, "p": {"$meta": "geoNearPoint"}}}`,
		bare + `, {"$limit": 2}, {"$project": {"m": {"$meta": "geoNearDistance"}}}`,
		near + `, {"$group": {"_id": "$g", "m": {"$max": {"$meta": "geoNearDistance"}}}}, {"$sort": {"_id": 1}}`,
		text + `, {"$group": {"_id": "$g", "m": {"$max": {"$meta": "textScore"}}}}, {"$sort": {"_id": 1}}`,
		text + `, {"$sort": {"_id": 1}}, {"$group": {"_id": "$g", "m": {"$push": {"$meta": "textScore"}}}}, {"$sort": {"_id": 1}}`,
		text + `, {"$sort": {"_id": 1}}, {"$limit": 3}, {"$unwind": "$g"}, {"$project": {"s": {"$meta": "textScore"}}}`,
		text + `, {"$bucket": {"groupBy": {"$meta": "textScore"}, "boundaries": [0, 1, 2], "default": 9}}`,
		text + `, {"$sort": {"s": {"$meta": "textScore"}, "_id": 1}}, {"$group": {"_id": null, "all": {"$push": {"$meta": "textScore"}}}}`,
		`{"$sort": {"g": 1, "_id": 1}}, {"$project": {"k": {"$meta": "sortKey"}}}`,
		`{"$sort": {"g": 1, "_id": 1}}, {"$group": {"_id": "$g", "k": {"$push": {"$meta": "sortKey"}}}}, {"$sort": {"_id": 1}}`,
		`{"$sort": {"g": 1, "_id": 1}}, {"$limit": 3}, {"$unwind": "$at.coordinates"}, {"$project": {"k": {"$meta": "sortKey"}}}`,
		one + `, {"$lookup": {"from": "from", "pipeline": [` + near + `, {"$project": {"d": 1, "m": {"$meta": "geoNearDistance"}}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "pipeline": [` + bare + `, {"$limit": 2}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "let": {"p": "$at"}, "pipeline": [{"$geoNear": {"near": "$$p", "distanceField": "d", "query": {"g": 1}}}, {"$limit": 2}, {"$project": {"d": 1}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "let": {"g": "$g", "p": "$at"}, "pipeline": [{"$geoNear": {"near": "$$p", "distanceField": "d", "query": {"$expr": {"$eq": ["$g", "$$g"]}}}}, {"$project": {"d": 1}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "pipeline": [` + text + `, {"$sort": {"_id": 1}}, {"$project": {"m": {"$meta": "textScore"}}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "let": {"g": "$g"}, "pipeline": [{"$match": {"$text": {"$search": "hello"}, "$expr": {"$eq": ["$g", "$$g"]}}}, {"$sort": {"_id": 1}}, {"$project": {"g": 1}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "localField": "g", "foreignField": "g", "pipeline": [` + text + `, {"$sort": {"_id": 1}}, {"$project": {"_id": 1}}], "as": "l"}}`,
		one + `, {"$lookup": {"from": "from", "pipeline": [{"$collStats": {"count": {}}}, {"$group": {"_id": null, "n": {"$sum": "$count"}}}], "as": "l"}}`,
		one + `, {"$unionWith": {"coll": "from", "pipeline": [{"$indexStats": {}}, {"$group": {"_id": "$name"}}, {"$match": {"_id": "_id_"}}]}}`,
		one + `, {"$unionWith": {"coll": "from", "pipeline": [` + near + `, {"$project": {"d": 1}}]}}`,
		one + `, {"$unionWith": {"coll": "from", "pipeline": [` + text + `, {"$sort": {"s": {"$meta": "textScore"}}}, {"$project": {"_id": 1}}]}}`,
		one + `, {"$lookup": {"from": "$from", "localField": "g", "foreignField": "g", "as": "l"}}`,
		one + `, {"$unionWith": {"coll": "$$NOW", "pipeline": []}}`,
		one + `, {"$graphLookup": {"from": "$from", "startWith": "$_id", "connectFromField": "a", "connectToField": "b", "as": "l"}}`,
	} {
		w.same("app", `{"aggregate": "c", "pipeline": [`+stages+`], "cursor": {}}`, true)
	}
	w.same("app", `{"aggregate": "c", "pipeline": [`+one+`, {"$lookup": {"from": "from", "localField": "g", "foreignField": "g", "as": "l"}}, {"$project": {"n": {"$size": "$l"}}}], "cursor": {}, "hint": "g"}`, true)
	w.same("app", `{"aggregate": 1, "pipeline": [{"$documents": [{"a": 1}]}, {"$lookup": {"from": "from", "pipeline": [`+near+`, {"$project": {"_id": 1}}], "as": "l"}}], "cursor": {}}`, true)
	deep := strings.Repeat("d.", 198) + "d" // as deep as results may be
	w.same("app", `{"aggregate": "c", "pipeline": [`+strings.Replace(near, `"d"}`, `"`+deep+`"}`, 1)+`, {"$limit": 1}], "cursor": {}}`, true)
	w.same("app", `{"create": "low", "viewOn": "c", "pipeline": [{"$match": {"_id": {"$lt": 4}}}]}`, false)
	w.same("app", `{"aggregate": "low", "pipeline": [{"$rankFusion": {"input": {"pipelines": {"p": [{"$sort": {"_id": -1}}]}}}}, {"$project": {"score": {"$meta": "score"}}}], "cursor": {}}`, true)
	if w.answered != w.asked {
		t.Errorf("%d of %d answered", w.answered, w.asked)
	}
}

// TestEndsAsOnOneServer: an ordered batch ends with a statement that has no target, a $merge writes the
// rest of its batch behind one that fails, and what may not be a target of $out is none.
func TestEndsAsOnOneServer(t *testing.T) {
	w := newTwins(t)
	w.same("app", `{"create": "series", "timeseries": {"timeField": "t"}}`, false)
	w.same("app", `{"create": "view", "viewOn": "c", "pipeline": []}`, false)
	w.same("app", `{"create": "capped", "capped": true, "size": 10000}`, false)
	w.same("app", `{"insert": "out", "documents": [{"_id": 1, "was": true}, {"_id": 3, "was": true}]}`, false)
	sorted := `{"aggregate": "c", "pipeline": [{"$sort": {"_id": 1}}, {"$project": {"z": "$g", "a": "$_id"}}, `
	for _, text := range []string{
		`{"delete": "c", "deletes": [{"q": {"$none": 1}, "limit": 1}, {"q": {"_id": 1}, "limit": 1}]}`,
		`{"delete": "c", "deletes": [{"q": {"_id": 5}, "limit": 1}, {"q": {"$none": 1}, "limit": 1}, {"q": {"_id": 1}, "limit": 1}]}`,
		`{"delete": "c", "ordered": false, "deletes": [{"q": {"$none": 1}, "limit": 1}, {"q": {"_id": 4}, "limit": 1}]}`,
		`{"update": "c", "updates": [{"q": {"$none": 1}, "u": {"$set": {"q": 1}}}, {"q": {"_id": 1}, "u": {"$set": {"q": 1}}}]}`,
		`{"insert": "c", "documents": [{"_id": [1]}, {"_id": 77}]}`,
		sorted + `{"$merge": {"into": "out", "whenMatched": "fail"}}], "cursor": {}}`,
		`{"delete": "out", "deletes": [{"q": {"_id": 2}, "limit": 1}]}`,
		sorted + `{"$merge": {"into": "out", "whenNotMatched": "fail"}}], "cursor": {}}`,
		sorted + `{"$merge": {"into": "out", "whenMatched": [{"$set": {"v": "$$v"}}]}}], "cursor": {}, "let": {"v": {"$add": [2, 3]}}}`,
		sorted + `{"$merge": "fields"}], "cursor": {}}`,
		sorted + `{"$merge": "$none"}], "cursor": {}}`,
		sorted + `{"$merge": "` + strings.Repeat("long", 70) + `"}], "cursor": {}}`,
		sorted + `{"$merge": "series"}], "cursor": {}}`,
		sorted + `{"$merge": "view"}], "cursor": {}}`,
		sorted + `{"$out": "capped"}], "cursor": {}}`,
		sorted + `{"$out": "$out"}], "cursor": {}}`,
		sorted + `{"$out": "` + strings.Repeat("long", 70) + `"}], "cursor": {}}`,
	} {
		x, y := ask(t, w.router, "app", text), ask(t, w.one, "app", text)
		if (x.err == nil) != (y.err == nil) || x.reply != y.reply {
			t.Errorf("%s\nrouter %v %s\nserver %v %s", text, x.err, x.reply, y.err, y.reply)
		}
		if x.err != nil && y.err != nil && strings.Contains(text, "$") && mongoerr.From(x.err).Code != mongoerr.From(y.err).Code {
			t.Errorf("%s\nrouter %v\nserver %v", text, x.err, y.err)
		}
		for _, name := range []string{"c", "out", "fields"} {
			w.same("app", `{"find": "`+name+`"}`, false)
		}
	}
}
