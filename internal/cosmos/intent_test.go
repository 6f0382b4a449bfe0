package cosmos

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const testContainer = `{"id":"c","partitionKey":{"paths":["/pk"]}}`

var (
	inA  = map[string]string{"x-ms-documentdb-partitionkey": `["a"]`}
	asks = map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkey": `["a"]`}
)

// newObserved is an account with a container and one item, and a client that
// the server knows.
func newObserved(t *testing.T) (*account, *command.Client) {
	a := newAccount(t)
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", testContainer, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a","list":[`+strings.Repeat("1,", 999)+`1]}`, inA)
	c := &command.Client{ConnectionID: 7, Remote: "10.0.0.9:4711", Protocol: Protocol}
	a.dispatcher.Clients.Connect(c)
	return a, c
}

// endless is a query that combines 10^18 elements of one item.
const endless = `{"query":"SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list JOIN f IN c.list JOIN g IN c.list"}`

// TestGateHoldsWrites: under fsyncLock writes wait, seen in currentOp, and reads
// go on.
func TestGateHoldsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, c := newObserved(t)
		defer a.close()
		d := a.dispatcher
		if _, err := d.Gate.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- a.doFor(c, "POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a"}`, inA) }()
		synctest.Wait()
		ops := d.CurrentOps(command.CurrentOpOptions{})
		if len(ops) != 1 {
			t.Fatalf("%d operations run, want the create that waits", len(ops))
		}
		for name, want := range map[string]string{
			"op": `"insert"`, "ns": `"d.c"`, "command": `{ createItem: "c", partitionKey: "["a"]", $db: "d" }`, "client": `"10.0.0.9:4711"`,
			"desc": `"conn7"`, "waitingForLock": "true", "active": "true",
		} {
			if got := ops[0].Lookup(name).String(); got != want {
				t.Errorf("currentOp's %s is %s, want %s", name, got, want)
			}
		}
		a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", inA)
		a.must(http.StatusNotFound, "GET", "/dbs/d/colls/c/docs/2", "", inA)
		if _, err := d.Gate.Unlock(); err != nil {
			t.Fatal(err)
		}
		if w := <-done; w.Code != http.StatusCreated {
			t.Errorf("after the unlock: %d %s", w.Code, w.Body)
		}
	})
}

// TestKillOpEndsQuery: a query that runs on is seen with its text, and killOp
// ends it with 408.
func TestKillOpEndsQuery(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	d := a.dispatcher
	done := make(chan *httptest.ResponseRecorder)
	go func() { done <- a.doFor(c, "POST", "/dbs/d/colls/c/docs", endless, asks) }()
	var op *command.Op
	for op == nil || !op.ShownCommand().Has("query") {
		if op = c.Current(); op == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if got := op.ShownCommand().String(); !strings.HasPrefix(got, `{ queryItems: "c", partitionKey: "["a"]", query: "SELECT VALUE COUNT(1) FROM c`) {
		t.Errorf("the command is %s", got)
	}
	d.Clients.FindOp(op.ID).Kill()
	w := <-done
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `"code":"RequestTimeout"`) {
		t.Errorf("killed: %d %s", w.Code, w.Body)
	}
	if n := d.Metrics.Killed.Load(); n != 1 {
		t.Errorf("%d operations killed, want 1", n)
	}
	a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", inA)
}

// TestTimeLimit: the time limit of reads ends queries, and no writes.
func TestTimeLimit(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	a.dispatcher.DefaultReadTime.Store(1)
	if w := a.doFor(c, "POST", "/dbs/d/colls/c/docs", endless, asks); w.Code != http.StatusRequestTimeout {
		t.Errorf("a query beyond its time: %d %s", w.Code, w.Body)
	}
	if n := a.dispatcher.Metrics.TimedOut.Load(); n != 1 {
		t.Errorf("%d operations timed out, want 1", n)
	}
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a"}`, inA)
}

// TestInterruptions: what ends an operation from outside, as clients see it.
func TestInterruptions(t *testing.T) {
	for err, want := range map[error]int{
		mongoerr.New(mongoerr.InterruptedAtShutdown, "x"): http.StatusServiceUnavailable,
		mongoerr.New(mongoerr.Interrupted, "x"):           http.StatusRequestTimeout,
	} {
		if got := asError(err).Status; got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

// TestCounters: what requests do is in opcounters, top, latencies and the
// counts of documents.
func TestCounters(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	m := &a.dispatcher.Metrics
	all := func() [9]int64 {
		return [9]int64{m.Insert.Load(), m.Query.Load(), m.Update.Load(), m.Delete.Load(), m.Command.Load(),
			m.DocsInserted.Load(), m.DocsReturned.Load(), m.DocsUpdated.Load(), m.DocsDeleted.Load()}
	}
	batch := map[string]string{"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true", "x-ms-documentdb-partitionkey": `["a"]`}
	upsert := map[string]string{"x-ms-documentdb-is-upsert": "true", "x-ms-documentdb-partitionkey": `["a"]`}
	for _, s := range []struct {
		method, target, body string
		headers              map[string]string
		status               int
		want                 [9]int64 // insert, query, update, delete, command; inserted, returned, updated, deleted
	}{
		{"GET", "/dbs/d/colls/c/docs/1", "", inA, 200, [9]int64{0, 1, 0, 0, 0, 0, 1, 0, 0}},
		{"GET", "/dbs/d/colls/c/docs/none", "", inA, 404, [9]int64{0, 1}},
		{"POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a"}`, inA, 201, [9]int64{1, 0, 0, 0, 0, 1}},
		{"POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a"}`, inA, 409, [9]int64{1}},
		{"POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a","v":1}`, upsert, 200, [9]int64{0, 0, 1, 0, 0, 0, 0, 1}},
		{"POST", "/dbs/d/colls/c/docs", `{"id":"3","pk":"a"}`, upsert, 201, [9]int64{0, 0, 1, 0, 0, 1}},
		{"PATCH", "/dbs/d/colls/c/docs/2", `{"operations":[{"op":"set","path":"/v","value":2}]}`, inA, 200, [9]int64{0, 0, 1, 0, 0, 0, 0, 1}},
		{"POST", "/dbs/d/colls/c/docs", `{"query":"SELECT * FROM c"}`, asks, 200, [9]int64{0, 1, 0, 0, 0, 0, 3}},
		{"GET", "/dbs/d/colls/c/docs", "", nil, 200, [9]int64{0, 1, 0, 0, 0, 0, 3}},
		{"POST", "/dbs/d/colls/c/docs", `[{"operationType":"Create","resourceBody":{"id":"4","pk":"a"}},{"operationType":"Read","id":"1"},{"operationType":"Delete","id":"3"}]`,
			batch, 200, [9]int64{1, 1, 0, 1, 0, 1, 1, 0, 1}},
		{"DELETE", "/dbs/d/colls/c/docs/4", "", inA, 204, [9]int64{0, 0, 0, 1, 0, 0, 0, 0, 1}},
		{"GET", "/dbs/d/colls", "", nil, 200, [9]int64{0, 0, 0, 0, 1}},
	} {
		before, asked := all(), m.Foreground().Ops
		if w := a.doFor(c, s.method, s.target, s.body, s.headers); w.Code != s.status {
			t.Errorf("%s %s: %d %s", s.method, s.target, w.Code, w.Body)
		}
		got := all()
		for i := range got {
			got[i] -= before[i]
		}
		if got != s.want {
			t.Errorf("%s %s %s: counted %v, want %v", s.method, s.target, s.body, got, s.want)
		}
		// What the governor of expiry gives way to.
		if foreground := m.Foreground().Ops - asked; foreground != 1-s.want[4] {
			t.Errorf("%s %s: %d operations in the foreground", s.method, s.target, foreground)
		}
	}
	var b, l bson.Builder
	a.dispatcher.Top.Append(&b)
	top := b.Finish().Lookup("d.c").Doc()
	for name, want := range map[string]int64{"queries": 4, "insert": 3, "update": 3, "remove": 1, "commands": 1} {
		if got := top.Lookup(name).Doc().Lookup("count").Int64(); got != want {
			t.Errorf("top counts %d %s, want %d", got, name, want)
		}
	}
	a.dispatcher.Top.AppendLatency(&l, "d.c", false)
	latency := l.Finish()
	for name, want := range map[string]int64{"reads": 4, "writes": 8} {
		if got := latency.Lookup(name).Doc().Lookup("ops").Int64(); got != want {
			t.Errorf("latencyStats counts %d %s, want %d", got, name, want)
		}
	}
}

// TestProfile: level 2 keeps all operations, level 1 the slow ones; those are
// logged, too.
func TestProfile(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	d := a.dispatcher
	var log bytes.Buffer
	d.Log = slog.New(slog.NewTextHandler(&log, nil))
	var entries []bson.Doc
	d.Profiler.Sink = func(_ context.Context, db string, e bson.Doc) error {
		entries = append(entries, append(bson.Doc(nil), e...))
		return nil
	}
	one := func() bson.Doc {
		t.Helper()
		entries = nil
		log.Reset()
		a.doFor(c, "POST", "/dbs/d/colls/c/docs", `{"query":"SELECT * FROM c WHERE c.id = @id","parameters":[{"name":"@id","value":"1"}]}`,
			map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "true", "User-Agent": "my app"})
		if len(entries) > 1 {
			t.Fatalf("%d entries", len(entries))
		}
		if len(entries) == 0 {
			return nil
		}
		return entries[0]
	}
	d.Profiler.SetSlow(1e9, 1)
	d.Profiler.SetSettings("d", command.ProfileSettings{Level: 1})
	if e := one(); e != nil || log.Len() > 0 {
		t.Errorf("a fast operation at level 1: %s, logged %s", e, log.String())
	}
	d.Profiler.SetSettings("d", command.ProfileSettings{Level: 2})
	e := one()
	if e == nil || log.Len() > 0 {
		t.Fatalf("level 2: %s, logged %s", e, log.String())
	}
	for name, want := range map[string]string{
		"op": `"query"`, "ns": `"d.c"`, "nreturned": "1", "docsExamined": "1", "protocol": `"cosmos"`, "client": `"10.0.0.9"`, "appName": `"my app"`,
		"command": `{ queryItems: "c", query: "SELECT * FROM c WHERE c.id = @id", parameters: [ { name: "@id", value: "1" } ], $db: "d" }`,
	} {
		if got := e.Lookup(name).String(); got != want {
			t.Errorf("the entry's %s is %s, want %s", name, got, want)
		}
	}
	if e.Lookup("planSummary").IsMissing() || e.Lookup("responseLength").Int32() < 100 {
		t.Errorf("the entry is %s", e)
	}
	d.Profiler.SetSlow(0, 1)
	d.Profiler.SetSettings("d", command.ProfileSettings{Level: 1})
	if e := one(); e == nil || !strings.Contains(log.String(), `"Slow query"`) || !strings.Contains(log.String(), "queryItems") {
		t.Errorf("a slow operation at level 1: %s, logged %s", e, log.String())
	}
}

// TestPanicIsOneAnswer: a bug in a handler is a 500 for its client, and no more.
func TestPanicIsOneAnswer(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	whole := a.server.registry
	a.server.registry.dbs["broken"] = &database{id: "broken", containers: map[string]*container{"c": {id: "c"}}}
	w := a.doFor(c, "GET", "/dbs/broken/colls/c/docs/1", "", inA)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "InternalServerError") {
		t.Errorf("a panic: %d %s", w.Code, w.Body)
	}
	if c.Current() != nil || a.dispatcher.Metrics.AssertRegular.Load() != 1 {
		t.Error("the operation has not ended, or is not counted")
	}
	delete(whole.dbs, "broken")
	a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", inA)
}

// TestNoWritesHere: a member that takes no writes says so as the service does
// where a region is not the one to write to; reads go on.
func TestNoWritesHere(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	a.dispatcher.Writable = func() error { return mongoerr.New(mongoerr.NotWritablePrimary, "not primary") }
	for _, r := range []struct {
		method, target, body string
		headers              map[string]string
	}{
		{"POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"a"}`, inA}, {"DELETE", "/dbs/d/colls/c/docs/1", "", inA},
		{"POST", "/dbs", `{"id":"e"}`, nil}, {"DELETE", "/dbs/d", "", nil},
	} {
		w := a.doFor(c, r.method, r.target, r.body, r.headers)
		if w.Code != http.StatusForbidden || w.Header().Get("x-ms-substatus") != "3" {
			t.Errorf("%s %s: %d/%s %s", r.method, r.target, w.Code, w.Header().Get("x-ms-substatus"), w.Body)
		}
	}
	a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", inA)
	a.must(http.StatusOK, "POST", "/dbs/d/colls/c/docs", `{"query":"SELECT * FROM c"}`, asks)
}

// TestRefusedIsAnOperation: who is not let in is counted as any failed
// operation, and changes nothing.
func TestRefusedIsAnOperation(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	before := a.dispatcher.Metrics.AssertUser.Load()
	w := a.doFor(c, "DELETE", "/dbs/d/colls/c/docs/1", "", map[string]string{"Authorization": "none", "x-ms-documentdb-partitionkey": `["a"]`})
	if w.Code != http.StatusUnauthorized || a.dispatcher.Metrics.AssertUser.Load() != before+1 {
		t.Errorf("%d %s, %d asserts", w.Code, w.Body, a.dispatcher.Metrics.AssertUser.Load()-before)
	}
	a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", inA)
}
