package cosmos

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/node"
)

// A change stream of MongoDB's side and the feed of all versions tell the same of a
// container: each write, and each item that its time to live removed, with what it was.
func TestStreamOfContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemberAccount(t)
		defer a.close()
		defer a.monitor()()
		n := &node.Node{Dispatcher: a.dispatcher, Params: a.dispatcher.Params, Catalog: a.cat, Exec: a.exec}
		n.Register(a.dispatcher.Registry)
		defer a.dispatcher.Cursors.CloseAll()
		client := &command.Client{ConnectionID: 1}
		run := func(text string) bson.Doc {
			return a.dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: "d", Body: bson.MustParse(text)}).Body
		}
		a.must(201, "POST", "/dbs", `{"id":"d"}`, nil)
		a.must(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,"changeFeedPolicy":{"retentionDuration":60}}`, nil)
		feed := map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": "*", "x-ms-max-item-count": "-1"}
		feed["If-None-Match"] = a.do("GET", "/dbs/d/colls/c/docs", "", feed).Header().Get("Etag")
		opened := run(`{aggregate: "c", pipeline: [{$changeStream: {fullDocumentBeforeChange: "required"}}], cursor: {batchSize: 1000}}`).Lookup("cursor").Doc()

		for i := range 600 { // more than are listed while the gate is closed
			a.must(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"%d","pk":"a","ttl":20}`, i), onA)
		}
		a.must(200, "PUT", "/dbs/d/colls/c/docs/0", `{"id":"0","pk":"a","ttl":-1}`, onA)
		a.must(204, "DELETE", "/dbs/d/colls/c/docs/0", "", onA)
		a.must(201, "POST", "/dbs/d/colls/c/docs", `{"id":"again","pk":"a","ttl":1}`, onA)
		time.Sleep(time.Second)
		a.must(201, "POST", "/dbs/d/colls/c/docs", `{"id":"again","pk":"a"}`, onA) // over what has expired
		a.must(201, "POST", "/dbs/d/colls/c/docs", `{"id":"anew","pk":"a","ttl":1}`, onA)
		time.Sleep(time.Second)
		a.must(201, "POST", "/dbs/d/colls/c/docs", `{"id":"anew","pk":"a"}`, map[string]string{"x-ms-documentdb-partitionkey": `["a"]`, "x-ms-documentdb-is-upsert": "true"})
		time.Sleep(3 * time.Minute)

		want := map[string]int{}
		var told []string
		for d := range a.must(200, "GET", "/dbs/d/colls/c/docs", "", feed).Lookup("Documents").Doc().Values() {
			m, of := d.Doc().Lookup("metadata").Doc(), d.Doc().Lookup("current").Doc()
			if m.Lookup("operationType").Str() == "delete" {
				of = d.Doc().Lookup("previous").Doc()
			}
			name := strings.Join([]string{m.Lookup("operationType").Str(), of.Lookup("id").Str(), fmt.Sprint(m.Lookup("timeToLiveExpired").Truthy())}, " ")
			want[name]++
			told = append(told, name)
		}
		got := map[string]int{}
		for n := 0; n < len(told); {
			reply := run(fmt.Sprintf(`{getMore: NumberLong("%d"), collection: "c", batchSize: 100000, maxTimeMS: 1000}`, opened.Lookup("id").Int64()))
			batch := reply.Lookup("cursor")
			if batch.Type != bson.TypeDocument || batch.Doc().Lookup("nextBatch").Doc().Len() == 0 {
				t.Fatalf("after %d events of %d: %s", n, len(told), reply)
			}
			for e := range batch.Doc().Lookup("nextBatch").Doc().Values() {
				n++
				d, of := e.Doc(), e.Doc().Lookup("fullDocument")
				kind := map[string]string{"insert": "create", "replace": "replace", "delete": "delete"}[d.Lookup("operationType").Str()]
				if kind == "delete" {
					of = d.Lookup("fullDocumentBeforeChange")
				}
				got[strings.Join([]string{kind, of.Doc().Lookup("id").Str(), fmt.Sprint(d.Has("expired"))}, " ")]++
			}
		}
		for name, n := range want {
			if n != got[name] || n > 2 {
				t.Errorf("%s: %d in the feed, %d on the stream", name, n, got[name])
			}
		}
		for _, name := range []string{"create 0 false", "replace 0 false", "delete 0 false", "delete 7 true", "delete again true", "delete anew true"} {
			if want[name] != 1 {
				t.Errorf("%s: %d in the feed", name, want[name])
			}
		}
		if len(told) != 600+599+2+3+3 {
			t.Errorf("%d events", len(told))
		}
	})
}
