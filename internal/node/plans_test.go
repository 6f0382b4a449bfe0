package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// TestPlans holds what commands read: their stages from the top, and how many keys
// and documents these look at.
func TestPlans(t *testing.T) {
	n, client := withData(t)
	run := func(text string) bson.Doc { return dispatch(t, n, client, "test", text, false).Body }
	caseless := `{"locale": "en", "strength": 2}`
	for _, text := range []string{
		`{"createIndexes": "tags", "indexes": [{"key": {"a": 1}, "name": "a"}, {"key": {"n": 1, "a": 1}, "name": "na"}]}`,
		`{"createIndexes": "wild", "indexes": [{"key": {"$**": 1}, "name": "all"}]}`,
		fmt.Sprintf(`{"createIndexes": "hash", "indexes": [{"key": {"h": "hashed", "i": 1}, "name": "hi", "collation": %s}]}`, caseless),
		`{"createIndexes": "text", "indexes": [{"key": {"t": "text", "s": 1}, "name": "ts"}]}`,
		`{"createIndexes": "name", "indexes": [{"key": {"x": 1}, "name": "x"}]}`,
	} {
		if r := run(text); r.Lookup("ok").Double() != 1 {
			t.Fatalf("%s: %s", text, r)
		}
	}
	for i := range 100 {
		for _, text := range []string{
			fmt.Sprintf(`{"insert": "tags", "documents": [{"_id": %d, "a": [%d, %d, [1, 2]], "n": %d}]}`, i, i%3, i%3+1, i%2),
			fmt.Sprintf(`{"insert": "wild", "documents": [{"_id": %d, "a": %d}]}`, i, i%5),
			fmt.Sprintf(`{"insert": "hash", "documents": [{"_id": %d, "h": "%s", "i": %d}]}`, i, string(rune('a'+i%10)), i),
			fmt.Sprintf(`{"insert": "text", "documents": [{"_id": %d, "t": "red", "s": %d}]}`, i, i),
			fmt.Sprintf(`{"insert": "name", "documents": [{"_id": %d, "x": "a+%d"}]}`, i, i),
		} {
			if r := run(text); r.Lookup("n").Int32() != 1 {
				t.Fatalf("%s: %s", text, r)
			}
		}
	}
	run(`{"insert": "tags", "documents": [{"_id": 100, "a": []}, {"_id": 101}, {"_id": 102, "a": [null]}]}`)
	for _, c := range []struct {
		command, stages string
		keys, docs      int64
	}{
		{`{"distinct": "tags", "key": "a"}`, "PROJECTION_COVERED DISTINCT_SCAN", 8, 3},
		{`{"distinct": "tags", "key": "a", "query": {"a": 1}}`, "FETCH IXSCAN", 67, 67}, // of other elements, too
		{`{"distinct": "tags", "key": "n", "query": {"n": {"$gte": 0}}}`, "PROJECTION_COVERED DISTINCT_SCAN", 2, 0},
		{`{"distinct": "wild", "key": "a", "query": {"a": {"$gt": 1}}}`, "PROJECTION_COVERED DISTINCT_SCAN", 3, 0},
		{`{"find": "hash", "filter": {"h": "A"}, "collation": ` + caseless + `}`, "FETCH IXSCAN", 10, 10},
		{`{"find": "hash", "filter": {"h": "a"}}`, "COLLSCAN", 0, 100},
		{`{"find": "name", "filter": {"x": {"$gte": "a"}}, "skip": 90}`, "FETCH SKIP IXSCAN", 100, 10},
		{`{"find": "name", "filter": {"x": {"$gte": "a"}}, "skip": 90, "limit": 3}`, "LIMIT FETCH SKIP IXSCAN", 93, 3},
		{`{"find": "name", "filter": {"x": {"$gte": "a"}, "_id": {"$gt": 1}}, "skip": 90, "hint": "x"}`, "SKIP FETCH IXSCAN", 100, 100},
		{`{"find": "name", "filter": {"x": {"$regex": "^\\Qa+4\\E"}}}`, "FETCH IXSCAN", 12, 11},
		{`{"find": "name", "filter": {"x": {"$regex": "^a\\Q+4\\E[0-9]"}}}`, "FETCH IXSCAN", 12, 10},
		{`{"find": "text", "filter": {"$text": {"$search": "red"}, "s": {"$lt": 4}}}`, "TEXT_MATCH FETCH IXSCAN", 100, 4},
		{`{"find": "text", "filter": {"$text": {"$search": "red"}, "s": {"$lt": 4}}, "sort": {"s": {"$meta": "textScore"}}}`, "SORT TEXT_MATCH TEXT_OR IXSCAN", 100, 4},
		{`{"find": "text", "filter": {"$text": {"$search": "red"}, "s": null}}`, "TEXT_MATCH FETCH IXSCAN", 100, 100},
	} {
		stats := run(`{"explain": ` + c.command + `, "verbosity": "executionStats"}`).Lookup("executionStats").Doc()
		var stages []string
		for s := stats.Lookup("executionStages"); s.Type == bson.TypeDocument; s = next(s.Doc()) {
			stages = append(stages, s.Doc().Lookup("stage").Str())
		}
		keys, docs := bson.ClampToInt64(stats.Lookup("totalKeysExamined")), bson.ClampToInt64(stats.Lookup("totalDocsExamined"))
		if got := strings.Join(stages, " "); got != c.stages || keys != c.keys || docs != c.docs {
			t.Errorf("%s: %s, %d keys, %d documents; want %s, %d, %d", c.command, got, keys, docs, c.stages, c.keys, c.docs)
		}
	}
	for text, want := range map[string]string{
		`{"distinct": "tags", "key": "a"}`:                                                                    `[ null, 0, 1, 2, 3, [ 1, 2 ] ]`,
		`{"distinct": "tags", "key": "a", "query": {"a": 0}}`:                                                 `[ 0, 1, [ 1, 2 ] ]`,
		`{"distinct": "wild", "key": "a", "query": {"a": {"$gt": 1}}}`:                                        `[ 2, 3, 4 ]`,
		`{"distinct": "text", "key": "s", "query": {"$text": {"$search": "red"}, "s": {"$in": [5, 7, 500]}}}`: `[ 5, 7 ]`,
	} {
		if got := run(text).Lookup("values").String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	skipped(t, run)
}

// next is the first input of a stage.
func next(stage bson.Doc) bson.Value {
	if in := stage.Lookup("inputStage"); !in.IsMissing() {
		return in
	}
	if ins := stage.Lookup("inputStages"); ins.Type == bson.TypeArray {
		_, in := ins.Doc().First()
		return in
	}
	return bson.Value{}
}

// skipped holds the counters of what leaves out the entries of a scan that is read
// ahead behind them.
func skipped(t *testing.T, run func(string) bson.Doc) {
	for i := range 30 {
		docs := make([]string, 100)
		for j := range docs {
			docs[j] = fmt.Sprintf(`{"_id": %d, "k": %d}`, 100*i+j, (100*i+j)*7919%3001)
		}
		run(`{"insert": "many", "documents": [` + strings.Join(docs, ",") + `]}`)
	}
	run(`{"createIndexes": "many", "indexes": [{"key": {"k": 1}, "name": "k"}]}`)
	stats := run(`{"explain": {"find": "many", "filter": {"k": {"$gte": 0}}, "skip": 1000}, "verbosity": "executionStats"}`).Lookup("executionStats").Doc()
	skip := stats.Lookup("executionStages").Doc().Lookup("inputStage").Doc()
	count := func(d bson.Doc, name string) int64 { return bson.ClampToInt64(d.Lookup(name)) }
	if n, left, advanced, waited := count(stats, "nReturned"), count(stats, "totalDocsExamined"), count(skip, "advanced"), count(skip, "needTime"); n != 2000 || left != 2000 || advanced != 2000 || waited != 1000 {
		t.Errorf("%d returned, %d examined, %d passed, %d skipped: %s", n, left, advanced, waited, stats)
	}
}

// TestExplainOfManyValues holds that what does not fit into explain's reply is left
// out, with mongod's warnings.
func TestExplainOfManyValues(t *testing.T) {
	n, client := withData(t)
	run := func(text string) bson.Doc { return dispatch(t, n, client, "test", text, false).Body }
	run(`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}`)
	run(`{"insert": "c", "documents": [{"a": 1}]}`)
	for _, count := range []int{10, 900_000} {
		var b bson.Builder
		b.OpenDoc("explain").String("find", "c").OpenDoc("filter").OpenDoc("a").OpenArray("$in")
		for i := range count {
			b.Int32(bson.Index(i), int32(2*i))
		}
		body := b.Close().Close().Close().Close().String("verbosity", "allPlansExecution").Finish()
		r := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: "test", Body: body}).Body
		if r.Lookup("ok").Double() != 1 || len(r) > 16<<20 {
			t.Fatalf("%d values: %d bytes, %.200s", count, len(r), r)
		}
		scan := r.Lookup("queryPlanner").Doc().Lookup("winningPlan").Doc().Lookup("inputStage").Doc()
		if big := count > 10; scan.Has("indexBounds") == big || big != (warning(scan) == "index bounds omitted due to BSON size limit for explain") {
			t.Errorf("%d values: %.500s", count, scan)
		}
		if big := count == 900_000; r.Has("command") == big || big != (warning(r) == "output truncated due to nearing BSON max user size") {
			t.Errorf("%d values: no room for the command, or too much", count)
		}
	}
}

func warning(d bson.Doc) string {
	if v := d.Lookup("warning"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}
