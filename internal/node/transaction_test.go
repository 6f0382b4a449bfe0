package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestTransactions runs the scripts of testdata/transactions, each on a set of one. A line is
// a statement of a session's transaction, "SESSION NUMBER [start] command", or "- command"
// of a client without one. Commands go to the database test, those that end a transaction,
// and others where the line says "admin", to admin.
func TestTransactions(t *testing.T) {
	datadriven.Walk(t, "testdata/transactions", func(t *testing.T, path string) {
		s := newTestSet(t, "a")
		s.run("a", "admin", `{"replSetInitiate":{}}`)
		s.wait([]string{"a", "PRIMARY"})
		var cursor int64
		var prepared uint64
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				line = strings.ReplaceAll(line, "CURSOR", fmt.Sprintf(`{"$numberLong":"%d"}`, cursor))
				line = strings.ReplaceAll(strings.ReplaceAll(line, "@PREPARED", timestamp(prepared)), "@BEFORE", timestamp(prepared-1))
				r := s.statement(line)
				if v := r.Lookup("prepareTimestamp"); v.Type == bson.TypeTimestamp {
					prepared = v.Timestamp()
				}
				if v := r.Lookup("transactions"); v.Type == bson.TypeDocument { // of serverStatus
					r = preparedCounts(v.Doc())
				}
				if id := r.Lookup("cursor"); id.Type == bson.TypeDocument {
					cursor = id.Doc().Lookup("id").Int64()
				}
				text := r.String()
				for _, m := range setMasks {
					text = m.find.ReplaceAllString(text, m.put)
				}
				out.WriteString(text + "\n")
			}
			return out.String()
		})
	})
}

// timestamp writes a timestamp as Extended JSON.
func timestamp(at uint64) string {
	return fmt.Sprintf(`{"$timestamp":{"t":%d,"i":%d}}`, at>>32, uint32(at))
}

// preparedCounts returns what serverStatus says of prepared transactions.
func preparedCounts(d bson.Doc) bson.Doc {
	b := new(bson.Builder)
	for name, v := range d.All() {
		if strings.Contains(name, "repared") || name == "currentOpen" {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// statement runs a line of a script on the member a.
func (s *testSet) statement(line string) bson.Doc { return s.statementOn("a", line) }

// statementOn runs a line of a script on a member.
func (s *testSet) statementOn(name, line string) bson.Doc {
	s.t.Helper()
	at := strings.IndexByte(line, '{')
	words := strings.Fields(line[:at])
	b := new(bson.Builder).Fields(bson.MustParse(line[at:]))
	db, session := "test", byte(0)
	if words[0] != "-" {
		var number int64
		if _, err := fmt.Sscanf(words[0]+" "+words[1], "%d %d", &session, &number); err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		id := [16]byte{session}
		b.OpenDoc("lsid").Binary("id", 4, id[:]).Close().Int64("txnNumber", number).Bool("autocommit", false)
		words = words[1:]
	}
	for _, w := range words[1:] {
		switch w {
		case "start":
			b.Bool("startTransaction", true)
		default:
			db = w
		}
	}
	body := b.Finish()
	switch name, _ := body.First(); name {
	case "commitTransaction", "abortTransaction", "prepareTransaction", "killAllSessions", "serverStatus":
		db = "admin"
	}
	m := s.members[name]
	return m.Dispatcher.Dispatch(s.t.Context(), &command.Request{Client: m.client, DB: db, Body: body}).Body
}

// TestWriterWaitsForTransaction holds that a writer who wants a document of a transaction
// waits for its end, and that DDL, other writers and the transaction itself go on meanwhile.
func TestWriterWaitsForTransaction(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	ok := func(line string) bson.Doc {
		t.Helper()
		r := s.statement(line)
		if bson.ToDouble(r.Lookup("ok")) != 1 || r.Has("writeErrors") {
			t.Fatalf("%s: %s", line, r)
		}
		return r
	}
	ok(`- {"insert":"c","documents":[{"_id":1,"n":0},{"_id":2,"n":0}]}`)
	ok(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
	waits := make(chan bson.Doc, 1)
	m := s.members["a"]
	client := &command.Client{ConnectionID: 77}
	m.Dispatcher.Clients.Connect(client)
	go func() {
		body := bson.MustParse(`{"update":"c","updates":[{"q":{"n":{"$gte":0}},"u":{"$inc":{"n":10}},"multi":true}]}`)
		waits <- m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: "test", Body: body}).Body
	}()
	// The second document is free, and the statement for many comes to it only later.
	s.until("writer that waits", func() bool {
		ops := m.Dispatcher.Clients.Ops()
		return len(ops) > 0 && ops[0].Name == "update"
	})
	ok(`- {"collMod":"c","validationLevel":"off"}`)
	ok(`- {"insert":"c","documents":[{"_id":3,"n":-1}]}`)
	ok(`2 1 start {"update":"c","updates":[{"q":{"_id":3},"u":{"$inc":{"n":1}}}]}`)
	ok(`2 1 {"abortTransaction":1}`)
	select {
	case r := <-waits:
		t.Fatalf("the writer did not wait: %s", r)
	default:
	}
	ok(`1 1 {"commitTransaction":1}`)
	if r := <-waits; bson.ClampToInt64(r.Lookup("nModified")) != 2 {
		t.Errorf("%s", r)
	}
	if r := ok(`- {"find":"c","filter":{"_id":1}}`); !strings.Contains(r.String(), "n: 11") {
		t.Errorf("%s", r)
	}
}

// TestTransactionExpires holds that a transaction ends after transactionLifetimeLimitSeconds,
// and its locks with it.
func TestTransactionExpires(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":0}]}`)
	s.run("a", "admin", `{"setParameter":1,"transactionLifetimeLimitSeconds":1}`)
	s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
	if r := s.statement(`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`); bson.ClampToInt64(r.Lookup("nModified")) != 1 {
		t.Errorf("%s", r)
	}
	if r := s.statement(`1 1 {"commitTransaction":1}`); r.Lookup("code").Int32() != 251 {
		t.Errorf("%s", r)
	}
	status := s.run("a", "admin", `{"serverStatus":1}`).Lookup("transactions").Doc()
	for name, want := range map[string]int64{"totalStarted": 1, "totalAborted": 1, "totalCommitted": 0, "currentOpen": 0} {
		if got := bson.ClampToInt64(status.Lookup(name)); got != want {
			t.Errorf("%s is %d", name, got)
		}
	}
}

// TestIdleTransactionOfRouter holds that a transaction of a router's own ends where the router
// sends nothing of it for as long as it says: it may be gone. While a statement runs, and from
// one to the next, it stays.
func TestIdleTransactionOfRouter(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":0},{"_id":2,"n":0}]}`)
	s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],"transactionIdleMS":{"$numberLong":"400"}}`)
	for range 3 { // each of them within the time, all of them beyond
		began := time.Now()
		s.until("half of the time", func() bool { return time.Since(began) > 200*time.Millisecond })
		if r := s.statement(`1 1 {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`); bson.ClampToInt64(r.Lookup("nModified")) != 1 {
			t.Fatalf("%s", r)
		}
	}
	if r := s.statement(`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`); bson.ClampToInt64(r.Lookup("nModified")) != 1 {
		t.Errorf("%s", r)
	}
	if r := s.statement(`1 1 {"commitTransaction":1}`); r.Lookup("code").Int32() != 251 {
		t.Errorf("%s", r)
	}
	if r := s.statement(`- {"find":"c","filter":{"_id":1}}`); !strings.Contains(r.String(), "n: 10") {
		t.Errorf("%s", r)
	}
}

// TestTransactionOfDeposedPrimary holds that a transaction ends when its primary steps down,
// even if the same member is elected again.
func TestTransactionOfDeposedPrimary(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":0}]}`)
	s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
	s.run("a", "admin", `{"replSetStepDown":1,"force":true}`)
	s.until("the next term", func() bool {
		s.run("a", "admin", `{"replSetFreeze":0}`)
		return bson.ToDouble(s.statement(`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`).Lookup("ok")) == 1
	})
	if r := s.statement(`1 1 {"commitTransaction":1}`); r.Lookup("code").Int32() != 251 {
		t.Errorf("%s", r)
	}
	if r := s.statement(`- {"find":"c"}`); !strings.Contains(r.String(), "n: 10") {
		t.Errorf("%s", r)
	}
}

// TestIdleTransactionIsShown holds that currentOp and serverStatus show a transaction of which
// no statement runs, until it ends.
func TestIdleTransactionIsShown(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":0}]}`)
	s.statement(`1 7 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],"readConcern":{"level":"snapshot"}}`)
	idle := func(command string) (all []bson.Doc) {
		t.Helper()
		r := s.run("a", "admin", command)
		list := r.Lookup("inprog")
		if list.IsMissing() {
			list = r.Lookup("cursor").Doc().Lookup("firstBatch")
		}
		for v := range list.Doc().Values() {
			if d := v.Doc(); d.Lookup("type").Str() == "idleSession" {
				all = append(all, d)
			}
		}
		return all
	}
	for _, command := range []string{`{"currentOp":1}`, `{"aggregate":1,"pipeline":[{"$currentOp":{}}],"cursor":{}}`} {
		all := idle(command)
		if len(all) != 1 {
			t.Fatalf("%s: %v", command, all)
		}
		d, x := all[0], all[0].Lookup("transaction").Doc()
		open, active, inactive := x.Lookup("timeOpenMicros").Int64(), x.Lookup("timeActiveMicros").Int64(), x.Lookup("timeInactiveMicros").Int64()
		parameters := x.Lookup("parameters").Doc().String()
		switch {
		case d.Lookup("desc").Str() != "inactive transaction", d.Lookup("active").Bool(), d.Lookup("waitingForLock").Bool(),
			parameters != `{ txnNumber: 7, autocommit: false, readConcern: { level: "snapshot" } }`, x.Lookup("readTimestamp").Timestamp() == 0,
			open <= 0, active <= 0, active > open, inactive < 0, !x.Has("startWallClockTime"), !x.Has("expiryTime"):
			t.Errorf("%s: %s", command, d)
		}
	}
	if all := idle(`{"aggregate":1,"pipeline":[{"$currentOp":{"idleSessions":false}}],"cursor":{}}`); len(all) > 0 {
		t.Errorf("without idle sessions: %v", all)
	}
	status := func() string { return s.run("a", "admin", `{"serverStatus":1}`).Lookup("transactions").String() }
	if got := status(); !strings.Contains(got, "currentActive: 0, currentInactive: 1, currentOpen: 1, totalAborted: 0, totalCommitted: 0, totalStarted: 1") {
		t.Errorf("%s", got)
	}
	s.statement(`1 7 {"commitTransaction":1,"writeConcern":{"w":"majority"}}`)
	if all := idle(`{"currentOp":1}`); len(all) > 0 {
		t.Errorf("after the commit: %v", all)
	}
	if got := status(); !strings.Contains(got, "currentOpen: 0, totalAborted: 0, totalCommitted: 1, totalStarted: 1") ||
		!strings.Contains(got, `lastCommittedTransaction: { operationCount: 1, oplogOperationBytes: `) || !strings.Contains(got, `writeConcern: { w: "majority" }`) {
		t.Errorf("%s", got)
	}
	latency := s.run("a", "admin", `{"serverStatus":1}`).Lookup("opLatencies").Doc().Lookup("transactions").Doc()
	if latency.Lookup("ops").Int64() != 1 || latency.Lookup("latency").Int64() <= 0 {
		t.Errorf("%s", latency)
	}
}

// TestTransactionAtClusterTime holds that a transaction reads the state of the cluster time that its
// first statement gives, in all its statements, and that it can write there what nobody has
// written since.
func TestTransactionAtClusterTime(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":1},{"_id":2,"n":1}]}`)
	first := s.statement(`- {"find":"c","readConcern":{"level":"snapshot"}}`)
	at := first.Lookup("cursor").Doc().Lookup("atClusterTime").Timestamp()
	s.statement(`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"n":2}}}]}`)
	concern := func(at uint64) string {
		return fmt.Sprintf(`"readConcern":{"level":"snapshot","atClusterTime":{"$timestamp":{"t":%d,"i":%d}}}`, at>>32, uint32(at))
	}
	if r := s.statement(`1 1 start {"find":"c",` + concern(at) + `}`); !strings.Contains(r.String(), "[ { _id: 1, n: 1 }, { _id: 2, n: 1 } ]") {
		t.Errorf("%s", r)
	}
	s.statement(`- {"delete":"c","deletes":[{"q":{"_id":2},"limit":1}]}`)
	if r := s.statement(`1 1 {"aggregate":"c","pipeline":[{"$group":{"_id":null,"n":{"$sum":"$n"}}}],"cursor":{}}`); !strings.Contains(r.String(), "n: 2 }") {
		t.Errorf("%s", r)
	}
	if r := s.statement(`1 1 {"update":"c","updates":[{"q":{"_id":2},"u":{"$inc":{"n":1}}}]}`); r.Lookup("code").Int32() != 112 {
		t.Errorf("a write in an earlier state: %s", r)
	}
	now := s.statement(`- {"find":"c","readConcern":{"level":"snapshot"}}`).Lookup("cursor").Doc().Lookup("atClusterTime").Timestamp()
	s.run("a", "admin", `{"appendOplogNote":1,"data":{"text":"changes nothing"}}`)
	if r := s.statement(`1 2 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],` + concern(now) + `}`); r.Lookup("nModified").Int32() != 1 {
		t.Errorf("a write in the newest state: %s", r)
	}
	if r := s.statement(`1 2 {"commitTransaction":1}`); bson.ToDouble(r.Lookup("ok")) != 1 {
		t.Errorf("%s", r)
	}
	// What others have written since is a conflict, what they have not is none: since the first
	// transaction at a time came, commits are remembered.
	s.statement(`- {"insert":"c","documents":[{"_id":3,"n":1},{"_id":4,"n":1}]}`)
	was := s.statement(`- {"update":"c","updates":[{"q":{"_id":3},"u":{"$inc":{"n":1}}}]}`).Lookup("operationTime").Timestamp()
	s.statement(`- {"update":"c","updates":[{"q":{"_id":3},"u":{"$inc":{"n":1}}}]}`)
	s.statement(`- {"update":"c","updates":[{"q":{"_id":3},"u":{"$inc":{"n":-1}}}]}`)
	if r := s.statement(`2 1 start {"find":"c","filter":{"_id":{"$gt":2}},` + concern(was) + `}`); !strings.Contains(r.String(), "[ { _id: 3, n: 2 }, { _id: 4, n: 1 } ]") {
		t.Errorf("%s", r)
	}
	if r := s.statement(`2 1 {"update":"c","updates":[{"q":{"_id":4},"u":{"$inc":{"n":1}}}]}`); r.Lookup("nModified").Int32() != 1 {
		t.Errorf("%s", r)
	}
	if r := s.statement(`2 1 {"find":"c","filter":{"_id":{"$gt":2},"n":{"$gte":2}}}`); !strings.Contains(r.String(), "[ { _id: 3, n: 2 }, { _id: 4, n: 2 } ]") {
		t.Errorf("with its own write: %s", r)
	}
	if r := s.statement(`2 1 {"commitTransaction":1}`); bson.ToDouble(r.Lookup("ok")) != 1 {
		t.Errorf("%s", r)
	}
	s.statement(`2 2 start {"find":"c",` + concern(was) + `}`)
	if r := s.statement(`2 2 {"update":"c","updates":[{"q":{"_id":3},"u":{"$inc":{"n":1}}}]}`); r.Lookup("code").Int32() != 112 {
		t.Errorf("what has changed there and back: %s", r)
	}
	if r := s.statement(`1 3 start {"find":"c",` + concern(at-1000<<32) + `}`); r.Lookup("code").Int32() != 239 || !r.Has("errorLabels") {
		t.Errorf("long ago: %s", r)
	}
	if r := s.statement(`1 3 {"find":"c"}`); r.Lookup("code").Int32() != 251 {
		t.Errorf("%s", r)
	}
}

// TestPreparedSurvivesFailover holds that a prepared transaction is that of each later primary:
// nobody writes what it has locked, DDL of another primary does not wait on the deposed one, it
// is decided there once, and all members have the same.
func TestPreparedSurvivesFailover(t *testing.T) {
	s := newTestSet(t, "a", "b", "c")
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1","priority":5},{"_id":1,"host":"b:1"},{"_id":2,"host":"c:1"}]}}`)
	s.wait([]string{"a", "PRIMARY"})
	ok := func(name, line string) bson.Doc {
		t.Helper()
		r := s.statementOn(name, line)
		if bson.ToDouble(r.Lookup("ok")) != 1 || r.Has("writeErrors") {
			t.Fatalf("%s: %s: %s", name, line, r)
		}
		return r
	}
	ok("a", `- {"insert":"c","documents":[{"_id":1,"n":1},{"_id":2,"n":2}]}`)
	ok("a", `- {"insert":"d","documents":[{"_id":1}]}`)
	ok("a", `1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`)
	ok("a", `1 1 {"insert":"c","documents":[{"_id":3}]}`)
	at := ok("a", `1 1 {"prepareTransaction":1,"coordinator":"s0"}`).Lookup("prepareTimestamp").Timestamp()
	shows := func(name string) {
		t.Helper()
		r := s.run(name, "admin", `{"currentOp":1}`).String()
		if !strings.Contains(r, "timePreparedMicros") || strings.Contains(r, "expiryTime") {
			t.Errorf("%s: %s", name, r)
		}
	}
	shows("a")
	writable := func(name string) {
		t.Helper()
		s.until("primary "+name, func() bool {
			s.statementOn(name, `- admin {"replSetStepUp":1}`)
			return bson.ToDouble(s.statementOn(name, `- {"insert":"log","documents":[{}]}`).Lookup("ok")) == 1
		})
	}
	for _, name := range []string{"b", "a", "c"} {
		writable(name)
		for _, line := range []string{
			`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"n":0}}}],"maxTimeMS":30}`,
			`- {"insert":"c","documents":[{"_id":3}],"maxTimeMS":30}`,
		} {
			if r := s.statementOn(name, line); bson.ClampToInt64(r.Lookup("code")) != 50 {
				t.Errorf("%s: %s: %s", name, line, r)
			}
		}
		if r := s.statementOn(name, `1 1 {"find":"c"}`); bson.ClampToInt64(r.Lookup("code")) != 267 {
			t.Errorf("%s: %s", name, r)
		}
		shows(name)
		again := ok(name, `1 1 {"prepareTransaction":1,"coordinator":"s0"}`)
		if again.Lookup("prepareTimestamp").Timestamp() != at || again.Lookup("readOnly").Bool() {
			t.Errorf("%s: asked again: %s", name, again)
		}
		ok(name, `- {"createIndexes":"d","indexes":[{"key":{"`+name+`":1},"name":"`+name+`"}]}`)
	}
	ok("c", `1 1 {"commitTransaction":1,"commitTimestamp":`+timestamp(at)+`}`)
	writable("b")
	ok("b", `1 1 {"commitTransaction":1,"commitTimestamp":`+timestamp(at)+`}`)
	if r := ok("b", `- {"find":"c"}`); !strings.Contains(r.String(), "[ { _id: 1, n: 11 }, { _id: 2, n: 2 }, { _id: 3 } ]") {
		t.Errorf("%s", r)
	}
	ok("b", `- {"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"n":0}}}],"maxTimeMS":30000}`)
	// A member that had not let go would not apply this, nor what follows.
	ok("b", `- {"createIndexes":"c","indexes":[{"key":{"n":1},"name":"n"}]}`)
	ok("b", `- {"insert":"c","documents":[{"_id":4}]}`)
	s.until("equal members", func() bool {
		var hashes []string
		for _, name := range []string{"a", "b", "c"} {
			hashes = append(hashes, s.statementOn(name, `- {"dbHash":1}`).Lookup("md5").Str())
		}
		return hashes[0] != "" && hashes[0] == hashes[1] && hashes[1] == hashes[2]
	})
	for _, name := range []string{"a", "b", "c"} {
		if n := s.members[name].Catalog.CountPrepared(); n != 0 {
			t.Errorf("%s holds %d", name, n)
		}
	}
}

// TestPreparedSurvivesCrash holds that a machine that loses power comes back with what it has
// prepared, and that what was decided there stays decided.
func TestPreparedSurvivesCrash(t *testing.T) {
	for _, decision := range []string{`{"commitTransaction":1,"commitTimestamp":@PREPARED}`, `{"abortTransaction":1,"coordinator":"s0"}`} {
		s := newTestSet(t, "a")
		s.run("a", "admin", `{"replSetInitiate":{}}`)
		s.wait([]string{"a", "PRIMARY"})
		s.statement(`- {"insert":"c","documents":[{"_id":1,"n":1}]}`)
		s.statement(`1 5 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`)
		at := s.statement(`1 5 {"prepareTransaction":1,"coordinator":"s0"}`).Lookup("prepareTimestamp").Timestamp()
		decision = strings.ReplaceAll(decision, "@PREPARED", timestamp(at))
		want := int64(50)
		for range 2 {
			s.loses("a")
			s.wait([]string{"a", "PRIMARY"})
			if r := s.statement(`- {"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"x":1}}}],"maxTimeMS":50}`); bson.ClampToInt64(r.Lookup("code")) != want {
				t.Errorf("%s", r)
			}
			if r := s.statement("1 5 " + decision); bson.ToDouble(r.Lookup("ok")) != 1 {
				t.Errorf("%s: %s", decision, r)
			}
			want = 0
		}
		n := "n: 11"
		if strings.HasPrefix(decision, `{"abort`) {
			n = "n: 1,"
		}
		if r := s.statement(`- {"find":"c"}`); !strings.Contains(r.String(), n) {
			t.Errorf("%s: %s", decision, r)
		}
	}
}

// TestReadsWaitForPrepared holds that reads after a cluster time, and those of a state, wait for
// what was prepared before, on a primary and on a secondary, and others do not.
func TestReadsWaitForPrepared(t *testing.T) {
	s := newTestSet(t, "a", "b", "c")
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1","priority":5},{"_id":1,"host":"b:1"},{"_id":2,"host":"c:1"}]}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1,"n":1}]}`)
	s.statement(`- {"insert":"d","documents":[{"_id":1,"n":1}]}`)
	s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`)
	at := s.statement(`1 1 {"prepareTransaction":1,"coordinator":"s0"}`).Lookup("prepareTimestamp").Timestamp()
	find := func(coll, concern string) string {
		return `- {"find":"` + coll + `","maxTimeMS":200,"$readPreference":{"mode":"nearest"},"readConcern":` + concern + `}`
	}
	after := `{"level":"local","afterClusterTime":` + timestamp(at) + `}`
	snapshot := `{"level":"snapshot"}`
	for _, name := range []string{"a", "b"} {
		s.until("the prepare on "+name, func() bool { return bson.ToDouble(s.statementOn(name, find("d", after)).Lookup("ok")) == 1 })
		for concern, code := range map[string]int64{after: 50, snapshot: 50, `{"level":"local"}`: 0, `{"level":"majority"}`: 0} {
			if r := s.statementOn(name, find("c", concern)); bson.ClampToInt64(r.Lookup("code")) != code {
				t.Errorf("%s %s: %s", name, concern, r)
			}
		}
	}
	s.statement(`1 1 {"commitTransaction":1,"commitTimestamp":` + timestamp(at) + `}`)
	for _, name := range []string{"a", "b"} {
		for _, concern := range []string{after, snapshot} {
			s.until("the commit on "+name, func() bool { return strings.Contains(s.statementOn(name, find("c", concern)).String(), "n: 11") })
		}
	}
	if r := s.statement(find("c", `{"level":"snapshot","atClusterTime":`+timestamp(at)+`}`)); !strings.Contains(r.String(), "n: 11") {
		t.Errorf("at the time of a commit that was applied later: %s", r)
	}
}

// TestShardSaysReadOnly holds that a shard says in each reply to a statement whether its
// transaction has written there, as the router must know.
func TestShardSaysReadOnly(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"insert":"c","documents":[{"_id":1}]}`)
	s.members["a"].BecomeShard()
	for _, x := range []struct {
		line string
		want bool
	}{
		{`1 1 start {"find":"c"}`, true},
		{`1 1 {"update":"c","updates":[{"q":{"_id":9},"u":{"$set":{"n":1}}}]}`, true},
		{`1 1 {"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"n":1}}}]}`, false},
		{`1 1 {"aggregate":"c","pipeline":[],"cursor":{}}`, false},
		{`2 1 start {"create":"d"}`, false},
	} {
		r := s.statement(x.line)
		if v := r.Lookup("readOnly"); v.Type != bson.TypeBool || v.Bool() != x.want {
			t.Errorf("%s: %s", x.line, r)
		}
	}
}

// TestLargePrepared holds that a transaction larger than an entry of the log is prepared, comes
// back after a crash, and is committed.
func TestLargePrepared(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.statement(`- {"create":"c"}`)
	large := strings.Repeat("x", 13<<20)
	for i := range 2 {
		start := ""
		if i == 0 {
			start = "start "
		}
		if r := s.statement(fmt.Sprintf(`1 1 %s{"insert":"c","documents":[{"_id":%d,"x":"%s"}]}`, start, i, large)); bson.ToDouble(r.Lookup("ok")) != 1 {
			t.Fatalf("%s", r)
		}
	}
	r := s.statement(`1 1 {"prepareTransaction":1,"coordinator":"s0"}`)
	at := r.Lookup("prepareTimestamp").Timestamp()
	if at == 0 {
		t.Fatalf("%s", r)
	}
	s.loses("a")
	s.wait([]string{"a", "PRIMARY"})
	if r := s.statement(`1 1 {"prepareTransaction":1,"coordinator":"s0"}`); r.Lookup("prepareTimestamp").Timestamp() != at {
		t.Errorf("%s", r)
	}
	if r := s.statement(`1 1 {"commitTransaction":1,"commitTimestamp":` + timestamp(at) + `}`); bson.ToDouble(r.Lookup("ok")) != 1 {
		t.Fatalf("%s", r)
	}
	if r := s.statement(`- {"aggregate":"c","pipeline":[{"$group":{"_id":null,"n":{"$sum":1},"size":{"$sum":{"$strLenBytes":"$x"}}}}],"cursor":{}}`); !strings.Contains(r.String(), "n: 2, size: 27262976") {
		t.Errorf("%s", r)
	}
}

// TestCommitLastRefused holds that the coordinator's own part does not commit where a move has
// brought records of a newer operation of its session, which it would take the place of, nor where
// another transaction has its number, as its own first statement came again: and that it is over
// for good, so that the coordinator may say no.
func TestCommitLastRefused(t *testing.T) {
	for name, between := range map[string]func(s *testSet, d *command.Dispatcher, id command.SessionID) (code mongoerr.Code){
		"overtaken": func(s *testSet, d *command.Dispatcher, id command.SessionID) mongoerr.Code {
			run := retryable.Run{Kind: retryable.Modified, Count: 1, Doc: bson.MustParse(`{"value":1}`)}
			if err := d.Adopt(t.Context(), retryable.Session(id), &retryable.Record{Txn: 2, Runs: []retryable.Run{run}}); err != nil {
				t.Fatal(err)
			}
			return mongoerr.TransactionTooOld
		},
		"begun again": func(s *testSet, d *command.Dispatcher, id command.SessionID) mongoerr.Code {
			s.statement(`- {"killAllSessions":[]}`)
			if r := s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`); bson.ToDouble(r.Lookup("ok")) != 1 {
				t.Fatalf("%s", r)
			}
			return mongoerr.NoSuchTransaction
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTestSet(t, "a")
			s.run("a", "admin", `{"replSetInitiate":{}}`)
			s.wait([]string{"a", "PRIMARY"})
			s.statement(`- {"insert":"c","documents":[{"_id":1,"n":1}]}`)
			s.statement(`- {"create":"decisions"}`)
			s.statement(`1 1 start {"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":10}}}]}`)
			m := s.members["a"]
			d, beside := m.Dispatcher, m.Catalog.Lookup(schema.Namespace{DB: "test", Coll: "decisions"})
			id := command.SessionID{ID: [16]byte{1}, UID: m.client.Owner()}
			if last, err := d.HoldLast(t.Context(), id, 1, beside); err != nil || !last {
				t.Fatalf("it is not held: %t, %v", last, err)
			}
			want := between(s, d, id)
			never, err := d.CommitLast(t.Context(), id, 1, 0, beside, func(*catalog.Unit) error { return nil })
			if !never || !mongoerr.Is(err, want) {
				t.Errorf("over for good: %t, %v", never, err)
			}
			if r := s.statement(`- {"find":"c"}`); !strings.Contains(r.String(), "n: 1 }") {
				t.Errorf("%s", r)
			}
		})
	}
}
