package node

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/repl"
)

// batch are the documents of a cursor's reply, and its id.
func batch(t testing.TB, reply bson.Doc) (docs []bson.Doc, id int64) {
	t.Helper()
	c := reply.Lookup("cursor")
	if c.Type != bson.TypeDocument {
		t.Fatal(reply)
	}
	for _, name := range []string{"firstBatch", "nextBatch"} {
		if v := c.Doc().Lookup(name); v.Type == bson.TypeArray {
			for d := range v.Doc().Values() {
				docs = append(docs, d.Doc())
			}
		}
	}
	return docs, c.Doc().Lookup("id").Int64()
}

// A tailer of the oplog gets what is written behind its place, once and in order, waits
// for it where there is nothing, and hears that its place is gone (136) where the log was
// truncated. Another one goes on behind the last time that it has seen.
func TestOplogTail(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":0},{"_id":1},{"_id":2}]}`)
	find := func(after string) (docs []bson.Doc, id int64) {
		return batch(t, s.run("a", "local", `{"find":"oplog.rs","filter":{"ns":"d.c"`+after+`},"tailable":true,"awaitData":true,"oplogReplay":true}`))
	}
	more := func(id int64) bson.Doc {
		return s.run("a", "local", `{"getMore":{"$numberLong":"`+bson.Int64(id).String()+`"},"collection":"oplog.rs","maxTimeMS":60000}`)
	}
	docs, id := find("")
	if len(docs) != 3 || id == 0 {
		t.Fatalf("%d documents, cursor %d", len(docs), id)
	}
	first := docs[0].Lookup("ts").Timestamp()
	heard := make(chan bson.Doc, 1)
	go func() { heard <- more(id) }()
	s.run("a", "d", `{"insert":"c","documents":[{"_id":3},{"_id":4}]}`)
	docs, _ = batch(t, <-heard)
	for len(docs) < 2 {
		next, _ := batch(t, more(id))
		docs = append(docs, next...)
	}
	for i, d := range docs {
		if got := d.Lookup("o").Doc().Lookup("_id").Int32(); got != int32(3+i) {
			t.Errorf("document %d is %s", i, d)
		}
	}
	again, other := find(`,"ts":{"$gt":` + string(bson.Timestamp(first).AppendJSON(nil, bson.RelaxedJSON)) + `}`)
	if len(again) != 4 || again[3].Lookup("ts").Timestamp() != docs[1].Lookup("ts").Timestamp() {
		t.Errorf("behind the first: %s", again)
	}
	if err := s.members["a"].member.SetWindow(t.Context(), repl.Window{Bytes: 16 << 10}); err != nil {
		t.Fatal(err)
	}
	large := `{"_id":"` + strings.Repeat("x", 4000) + `"}`
	s.until("a truncation", func() bool {
		s.run("a", "d", `{"insert":"e","documents":[`+large+`]}`)
		s.run("a", "d", `{"delete":"e","deletes":[{"q":{},"limit":0}]}`)
		oldest, err := s.members["a"].member.Oldest()
		if err != nil {
			t.Fatal(err)
		}
		return uint64(oldest) > docs[1].Lookup("ts").Timestamp()
	})
	for _, id := range []int64{id, other} {
		if r := more(id); r.Lookup("code").Int32() != 136 {
			t.Errorf("a place that is gone: %s", r)
		}
	}
}
