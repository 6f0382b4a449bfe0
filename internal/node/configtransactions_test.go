package node

import (
	"fmt"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestConfigTransactions shows what sessions have executed last as tools read it, and
// counts what was sent again.
func TestConfigTransactions(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	session := func(n int) string {
		return fmt.Sprintf(`{"id":{"$uuid":"00112233-4455-6677-8899-aabbccddee%02x"}}`, n)
	}
	var wrote [3]uint64
	for n := range wrote {
		for txn := range 2 {
			text := fmt.Sprintf(`{"insert":"c","documents":[{"_id":"%d %d"},{"_id":"%d %d b"}],"lsid":%s,"txnNumber":{"$numberLong":"%d"}}`, n, txn, n, txn, session(n), 10*n+txn)
			wrote[n] = s.must("a", "d", text).Lookup("operationTime").Timestamp()
			if n == 1 {
				s.must("a", "d", text) // again
			}
		}
	}
	found := func(more string) (all []bson.Doc) {
		t.Helper()
		r := s.must("a", "config", `{"find":"transactions"`+more+`}`)
		for v := range r.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
			all = append(all, v.Doc())
		}
		return all
	}
	all := found("")
	if len(all) != len(wrote) {
		t.Fatalf("%d sessions: %v", len(all), all)
	}
	for n, d := range all {
		id, at := d.Lookup("_id").Doc(), d.Lookup("lastWriteOpTime").Doc()
		if id.Lookup("id").String() != fmt.Sprintf(`UUID("00112233-4455-6677-8899-aabbccddee%02x")`, n) || id.Lookup("uid").Type != bson.TypeBinary ||
			d.Lookup("txnNum").Int64() != int64(10*n+1) || at.Lookup("ts").Timestamp() != wrote[n] || at.Lookup("t").Int64() < 1 || d.Lookup("lastWriteDate").Date() == 0 {
			t.Errorf("session %d: %s, wrote at %d", n, d, wrote[n])
		}
	}
	for query, want := range map[string]string{
		`,"filter":{"txnNum":{"$gt":5}},"sort":{"txnNum":-1},"projection":{"_id":0,"txnNum":1}`: "[{ txnNum: 21 } { txnNum: 11 }]",
		`,"sort":{"$natural":-1},"limit":1,"projection":{"_id":0,"txnNum":1}`:                   "[{ txnNum: 21 }]",
		`,"filter":{"ts":{"$gt":{"$timestamp":{"t":1,"i":1}}}}`:                                 "[]",
		`,"batchSize":2,"skip":1,"projection":{"_id":0,"txnNum":1}`:                             "[{ txnNum: 11 } { txnNum: 21 }]",
	} {
		if got := fmt.Sprint(found(query)); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	one := s.must("a", "config", `{"aggregate":"transactions","pipeline":[{"$match":{"_id.id":{"$uuid":"00112233-4455-6677-8899-aabbccddee01"}}},{"$count":"n"}],"cursor":{}}`)
	if docs, _ := stateBatch(one); docs != `[ { n: 1 } ]` {
		t.Error(docs)
	}
	open := s.must("a", "config", `{"find":"transactions","batchSize":1}`).Lookup("cursor").Doc().Lookup("id").Int64()
	more := s.must("a", "config", fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"transactions"}`, open))
	if n := more.Lookup("cursor").Doc().Lookup("nextBatch").Doc().Len(); n != 2 {
		t.Errorf("the next batch has %d", n)
	}
	if n := s.must("a", "config", `{"count":"transactions"}`).Lookup("n"); bson.ClampToInt64(n) != 3 {
		t.Errorf("there are %s", n)
	}
	if r := s.run("a", "config", `{"delete":"transactions","deletes":[{"q":{},"limit":0}]}`); r.Lookup("code").Int32() != 73 {
		t.Errorf("a delete: %s", r)
	}
	if r := s.run("a", "config", `{"drop":"transactions"}`); r.Lookup("ok").Double() == 1 {
		t.Errorf("a drop: %s", r)
	}
	status := s.must("a", "admin", `{"serverStatus":1}`).Lookup("transactions").Doc()
	for name, want := range map[string]int64{"retriedCommandsCount": 2, "retriedStatementsCount": 4, "transactionsCollectionWriteCount": 6, "totalStarted": 0} {
		if got := status.Lookup(name).Int64(); got != want {
			t.Errorf("%s is %d, not %d", name, got, want)
		}
	}
}
