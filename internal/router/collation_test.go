package router_test

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// TestCollationsAsOnOneServer: stages that read or write another collection have the collation of
// the pipeline, which is the default of its collection if the client names none: never that of the
// other collection. Views and unique indexes with another one are refused.
func TestCollationsAsOnOneServer(t *testing.T) {
	w := &twins{realCluster: newCluster(t, 2)}
	w.one = w.connect(servertest.Start(t).Address)
	w.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	en, fr := `"collation": {"locale": "en", "strength": 1}`, `"collation": {"locale": "fr", "strength": 2}`
	both := func(text string) {
		t.Helper()
		for _, conn := range []*client.Conn{w.router, w.one} {
			if told := ask(t, conn, "app", text); told.err != nil {
				t.Fatal(text, told.err)
			}
		}
	}
	for name, collation := range map[string]string{"en": ", " + en, "fr": ", " + fr, "plain": "", "alone": ", " + en} {
		both(`{"create": "` + name + `"` + collation + `}`)
		if name != "alone" {
			w.do("admin", `{shardCollection: "app.`+name+`", key: {_id: "hashed"}, collation: {locale: "simple"}}`)
		}
		both(`{"insert": "` + name + `", "documents": [{"_id": 1, "x": "apple", "next": "Pear"}, {"_id": 2, "x": "pear"}, {"_id": 3, "x": "Apple", "next": "PEAR"}]}`)
		both(`{"create": "view of ` + name + `", "viewOn": "` + name + `", "pipeline": []` + collation + `}`)
	}
	both(`{"create": "target", ` + en + `}`)
	both(`{"insert": "target", "documents": [{"_id": 7, "x": "APPLE", "old": 1}]}`)
	both(`{"createIndexes": "target", "indexes": [{"key": {"x": 1}, "name": "x", "unique": true}]}`)
	sorted := `{"$unwind": {"path": "$l", "preserveNullAndEmptyArrays": true}}, {"$sort": {"_id": 1, "l._id": 1}}`
	for _, from := range []string{"en", "fr", "plain", "alone", "view of en", "view of plain", "view of alone"} {
		for _, on := range []string{"en", "plain", "alone", "view of fr", "view of alone"} {
			for _, command := range []string{"", ", " + en} {
				for _, stages := range []string{
					`{"$lookup": {"from": "` + from + `", "localField": "x", "foreignField": "x", "as": "l"}}, ` + sorted,
					`{"$lookup": {"from": "` + from + `", "let": {"x": "$x"}, "pipeline": [{"$match": {"$expr": {"$eq": ["$x", "$$x"]}}}], "as": "l"}}, ` + sorted,
					`{"$graphLookup": {"from": "` + from + `", "startWith": "$next", "connectFromField": "next", "connectToField": "x", "as": "l"}}, ` + sorted,
					`{"$unionWith": {"coll": "` + from + `", "pipeline": [{"$match": {"x": "APPLE"}}]}}, {"$group": {"_id": {"$toLower": "$x"}, "n": {"$count": {}}}}, {"$sort": {"_id": 1}}`,
				} {
					w.same("app", `{"aggregate": "`+on+`", "pipeline": [`+stages+`], "cursor": {}`+command+`}`, true)
				}
			}
		}
	}
	for _, target := range []string{"target", "en", "fr", "plain"} {
		for _, on := range []string{"_id", "x"} {
			for _, from := range []string{"en", "fr", "plain", "alone"} {
				w.same("app", `{"aggregate": "`+from+`", "pipeline": [{"$match": {"x": "pear"}}, {"$merge": {"into": "`+target+`", "on": "`+on+`"}}], "cursor": {}}`, true)
			}
		}
	}
	for _, stages := range []string{
		`{"$project": {"_id": 0, "x": 1}}, {"$merge": {"into": "target", "on": "x"}}`, `{"$project": {"_id": 0, "x": 1, "new": "1"}}, {"$merge": {"into": "target", "on": "x", "whenMatched": "replace"}}`,
		`{"$project": {"_id": 0, "x": 1}}, {"$merge": {"into": "target", "on": "x", "whenNotMatched": "discard"}}`,
	} {
		w.same("app", `{"aggregate": "en", "pipeline": [{"$match": {"x": "apple", "_id": 1}}, `+stages+`], "cursor": {}}`, true)
		w.same("app", `{"find": "target", "filter": {"x": "apple"}, `+en+`}`, true)
	}
	// Of documents whose _id is equal by the collation, the one that the sort says is changed.
	both(`{"insert": "plain", "documents": [{"_id": "b", "v": 1}, {"_id": "B", "v": 2}, {"_id": "á", "v": 3}, {"_id": "a", "v": 4}, {"_id": "A", "v": 5}, {"_id": "À", "v": 6}]}`)
	for _, order := range []string{"1", "-1"} {
		for _, id := range []string{"a", "b"} {
			w.same("app", `{"findAndModify": "plain", "query": {"_id": "`+id+`"}, "sort": {"v": `+order+`}, "update": {"$inc": {"n": 1}}, `+en+`}`, true)
		}
	}
	if w.answered*2 < w.asked { // the rest are refused by both
		t.Errorf("%d of %d answered", w.answered, w.asked)
	}
}
