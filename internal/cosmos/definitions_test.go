package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/storage"
)

// interrupting is a Committer that calls at before its n-th commit from now on, whose error is
// the commit's.
type interrupting struct {
	*replay.Recorder
	left *int
	at   *func() error
}

func (i interrupting) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	if *i.left--; *i.left == 0 {
		if err := (*i.at)(); err != nil {
			return err
		}
	}
	return i.Recorder.Commit(ctx, e, d)
}

// eachCommit runs f for the first commit of a request, the second, and so on, until it makes no
// more of them: where the commit fails, where its client hangs up before it, and, with restart,
// where the server starts anew after it.
func eachCommit(t *testing.T, f func(t *testing.T, a *account, request func(method, target, body string) int)) {
	for _, fails := range []bool{false, true} {
		for n := 1; ; n++ {
			left, reached := 0, false
			var at func() error
			a := newAccountAround(t, func(r *replay.Recorder) catalog.Committer { return interrupting{r, &left, &at} })
			ok := t.Run(fmt.Sprintf("fails=%v,commit=%d", fails, n), func(t *testing.T) {
				f(t, a, func(method, target, body string) int {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					at = func() error {
						reached = true
						if fails {
							return errors.New("planted")
						}
						cancel()
						return nil
					}
					left = n
					defer func() { left = 0 }()
					return a.doIn(ctx, method, target, body)
				})
			})
			a.close()
			if !ok || !reached {
				break
			}
			if n > 50 {
				t.Fatal("no end of commits")
			}
		}
	}
}

// doIn is do in a context, which ends when the client hangs up.
func (a *account) doIn(ctx context.Context, method, target, body string) int {
	r := httptest.NewRequest(method, target, strings.NewReader(body)).WithContext(ctx)
	date := time.Now().UTC().Format(http.TimeFormat)
	r.Header.Set("x-ms-date", date)
	r.Header.Set("Authorization", a.signature(method, r.URL.EscapedPath(), date))
	w := httptest.NewRecorder()
	a.server.Gateway().ServeHTTP(w, r)
	return w.Code
}

// TestCreationIsWhole: wherever the creation of a container ends early, it is there whole or not
// at all, and can be created and deleted.
func TestCreationIsWhole(t *testing.T) {
	const definition = `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60,"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}`
	eachCommit(t, func(t *testing.T, a *account, request func(method, target, body string) int) {
		a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
		request("POST", "/dbs/d/colls", definition)
		a.open()
		if status := a.do("GET", "/dbs/d/colls/c", "", nil).Code; status == http.StatusNotFound {
			a.must(http.StatusCreated, "POST", "/dbs/d/colls", definition, nil)
		} else if status != http.StatusOK {
			t.Fatalf("GET: %d", status)
		}
		now := a.cat.Lookup(namespace("d", "c"))
		for _, name := range []string{fieldNumber, fieldLSN, ruleName, "unique/mail"} {
			if now.Index(name) == nil {
				t.Errorf("the index %s is not there", name)
			}
		}
		a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`, inA)
		a.must(http.StatusNoContent, "DELETE", "/dbs/d", "", nil)
	})
}

// TestRuleIsTheDefinitions: wherever a change of a container ends early, items expire as its
// definition says.
func TestRuleIsTheDefinitions(t *testing.T) {
	eachCommit(t, func(t *testing.T, a *account, request func(method, target, body string) int) {
		a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/colls", testContainer, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`, inA)
		request("PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`)
		says := !a.must(http.StatusOK, "GET", "/dbs/d/colls/c", "", nil).Lookup("defaultTtl").IsMissing()
		if is := ttlOf(a.cat.Lookup(namespace("d", "c"))).on; is != says {
			t.Errorf("the definition has a time to live: %v, the collection: %v", says, is)
		}
	})
}

// TestRenamedUserIsThere: wherever the renaming of a user ends early, it is there by one of its
// names, with its permissions.
func TestRenamedUserIsThere(t *testing.T) {
	eachCommit(t, func(t *testing.T, a *account, request func(method, target, body string) int) {
		a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/users/u/permissions", `{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}`, nil)
		request("PUT", "/dbs/d/users/u", `{"id":"v"}`)
		found := 0
		for _, name := range []string{"u", "v"} {
			if a.do("GET", "/dbs/d/users/"+name+"/permissions/p", "", nil).Code == http.StatusOK {
				found++
			}
		}
		if found != 1 {
			t.Errorf("the permission is there %d times", found)
		}
	})
}

// TestResourceQueriesAreBounded: a query over definitions can be killed, keeps nobody else from
// changing them, and makes one page.
func TestResourceQueriesAreBounded(t *testing.T) {
	a, c := newObserved(t)
	defer a.close()
	params := func(n int) string {
		return `"parameters":[{"name":"@p","value":[` + strings.TrimSuffix(strings.Repeat("1,", n), ",") + `]}]}`
	}
	query := map[string]string{"Content-Type": "application/query+json"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := a.do("POST", "/dbs/d/colls", `{"query":"SELECT VALUE REPLICATE('x',10000) FROM i IN (SELECT VALUE @p) JOIN j IN (SELECT VALUE @p)",`+params(200), query)
	runtime.ReadMemStats(&after)
	if w.Code != http.StatusOK || w.Header().Get("X-Ms-Continuation") == "" || w.Body.Len() > 2*maxPageBytes {
		t.Errorf("%d, %d bytes, continuation %q", w.Code, w.Body.Len(), w.Header().Get("X-Ms-Continuation"))
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 100<<20 {
		t.Errorf("%d MB for a page", made>>20)
	}
	small := map[string]string{"Content-Type": "application/query+json", "x-ms-max-item-count": "3"}
	seen := ""
	for range 10 {
		w := a.do("POST", "/dbs/d/users", `{"query":"SELECT VALUE x FROM x IN (SELECT VALUE [1,2,3,4,5,6,7])"}`, small)
		seen += w.Body.String()[strings.Index(w.Body.String(), "["):strings.Index(w.Body.String(), "]")]
		if small["x-ms-continuation"] = w.Header().Get("X-Ms-Continuation"); small["x-ms-continuation"] == "" {
			break
		}
	}
	if seen != "[1,2,3[4,5,6[7" {
		t.Errorf("pages of three: %s", seen)
	}

	done := make(chan *httptest.ResponseRecorder)
	go func() {
		done <- a.doFor(c, "POST", "/dbs/d/users", `{"query":"SELECT VALUE 1 FROM i IN (SELECT VALUE @p) JOIN j IN (SELECT VALUE @p) JOIN k IN (SELECT VALUE @p) JOIN l IN (SELECT VALUE @p) JOIN m IN (SELECT VALUE @p) WHERE false",`+params(1000), query)
	}()
	var op *command.Op
	for op = c.Current(); op == nil; op = c.Current() {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond)
	created := make(chan int, 1)
	go func() { created <- a.do("POST", "/dbs/d/users", `{"id":"u"}`, nil).Code }()
	select {
	case status := <-created:
		if status != http.StatusCreated {
			t.Errorf("beside the query: %d", status)
		}
	case <-time.After(10 * time.Second):
		t.Error("the query keeps others from changing definitions")
	}
	a.dispatcher.Clients.FindOp(op.ID).Kill()
	select {
	case w := <-done:
		if w.Code != http.StatusRequestTimeout {
			t.Errorf("killed: %d %s", w.Code, w.Body)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the query cannot be killed")
	}
}

// TestPagesWithoutItems: a query that reads no items ends, and has each row once.
func TestPagesWithoutItems(t *testing.T) {
	a, _ := newObserved(t)
	defer a.close()
	for query, want := range map[string]int{
		"SELECT VALUE 1": 1, "SELECT VALUE GetCurrentTimestamp()": 1, "SELECT VALUE x FROM x IN (SELECT VALUE [1,2,3,4,5,6,7])": 7,
	} {
		for size := 1; size < 9; size++ {
			h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-query-enablecrosspartition": "true", "x-ms-max-item-count": fmt.Sprint(size)}
			rows, pages := 0, 0
			for ; pages < 20; pages++ {
				w := a.do("POST", "/dbs/d/colls/c/docs", `{"query":"`+query+`"}`, h)
				if w.Code != http.StatusOK {
					t.Fatalf("%s, page %d of %d: %d %s", query, pages, size, w.Code, w.Body)
				}
				v, err := nosql.ParseJSON(w.Body.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				rows += v.Doc().Lookup("Documents").Doc().Len()
				if h["x-ms-continuation"] = w.Header().Get("X-Ms-Continuation"); h["x-ms-continuation"] == "" {
					break
				}
			}
			if rows != want || pages >= 20 {
				t.Errorf("%s: %d rows in %d pages of %d", query, rows, pages, size)
			}
		}
	}
}

// TestSizeIsThatOfTheText: an item may have 2 MB of JSON, whatever it takes when it is stored, also
// where a patch makes it.
func TestSizeIsThatOfTheText(t *testing.T) {
	a, _ := newObserved(t)
	defer a.close()
	item := func(id string, numbers int, pad int) string {
		return `{"id":"` + id + `","pk":"a","v":[` + strings.TrimSuffix(strings.Repeat("1,", numbers), ",") + `],"s":"` + strings.Repeat("x", pad) + `"}`
	}
	room := maxBody - len(item("n", 500_000, 0))
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", item("n", 500_000, room-20), inA)
	a.must(http.StatusRequestEntityTooLarge, "POST", "/dbs/d/colls/c/docs", item("m", 500_000, room+1), inA)
	a.must(http.StatusOK, "PATCH", "/dbs/d/colls/c/docs/n", `{"operations":[{"op":"set","path":"/a","value":1}]}`, inA)
	a.must(http.StatusRequestEntityTooLarge, "PATCH", "/dbs/d/colls/c/docs/n", `{"operations":[{"op":"set","path":"/a","value":"`+strings.Repeat("x", 30)+`"}]}`, inA)
	a.must(http.StatusRequestEntityTooLarge, "POST", "/dbs/d/colls/c/docs", `{"id":"c","pk":"a","s":"`+strings.Repeat(`\u0001`, maxBody/6)+`"}`, inA)
}

// TestBodyInChunksTakesMemory: a body of unknown length waits for memory as one of the longest does.
func TestBodyInChunksTakesMemory(t *testing.T) {
	a, _ := newObserved(t)
	defer a.close()
	b := memory.NewBudget(memory.MinBudget)
	a.exec.Memory = b
	post := func() *httptest.ResponseRecorder {
		body := struct{ *strings.Reader }{strings.NewReader(`{"id":"chunked","pk":"a"}`)}
		r := httptest.NewRequest("PUT", "/dbs/d/colls/c/docs/chunked", body)
		if r.ContentLength >= 0 {
			t.Fatalf("the length is known: %d", r.ContentLength)
		}
		date := time.Now().UTC().Format(http.TimeFormat)
		r.Header.Set("x-ms-date", date)
		r.Header.Set("x-ms-documentdb-partitionkey", `["a"]`)
		r.Header.Set("Authorization", a.signature("PUT", r.URL.EscapedPath(), date))
		w := httptest.NewRecorder()
		a.server.Gateway().ServeHTTP(w, r)
		return w
	}
	if w := post(); w.Code != http.StatusNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if peak := b.Stats().Requests.Peak; peak < MaxRequest {
		t.Errorf("%d bytes were taken", peak)
	}
	large := `{"id":"l","pk":"a","v":[` + strings.TrimSuffix(strings.Repeat("[],", 100_000), ",") + `]}`
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", large, inA)
	if peak := b.Stats().Requests.Peak; peak < 8*int64(len(large)) {
		t.Errorf("%d bytes were taken for %d of text", peak, len(large))
	}
	if held := b.Stats().Requests.Held; held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// TestDeletedPartitionStaysSo: what had expired and was still there when its partition was deleted
// does not come back with a longer time to live.
func TestDeletedPartitionStaysSo(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":1}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"a"}`, inA)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","pk":"b"}`, map[string]string{"x-ms-documentdb-partitionkey": `["b"]`})
	if _, err := a.cat.Clock.Advance(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	a.must(http.StatusOK, "POST", "/dbs/d/colls/c/operations/partitionkeydelete", "", inA)
	a.must(http.StatusOK, "PUT", "/dbs/d/colls/c", testContainer, nil)
	a.must(http.StatusNotFound, "GET", "/dbs/d/colls/c/docs/1", "", inA)
	a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/1", "", map[string]string{"x-ms-documentdb-partitionkey": `["b"]`})
}

// TestIfMatchOfDefinitions: an etag that is not the newest keeps an offer, a user and a permission
// as they are.
func TestIfMatchOfDefinitions(t *testing.T) {
	a, _ := newObserved(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"o","partitionKey":{"paths":["/pk"]}}`, map[string]string{"x-ms-offer-throughput": "400"})
	a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
	const permission = `{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}`
	a.must(http.StatusCreated, "POST", "/dbs/d/users/u/permissions", permission, nil)
	offer := a.must(http.StatusOK, "GET", "/offers", "", nil).Lookup("Offers").Doc().Slice()[0].Doc()
	for _, of := range []struct {
		read, method, target, body string
		upsert                     string
	}{
		{"/offers/" + offer.Lookup("id").Str(), "PUT", "/offers/" + offer.Lookup("id").Str(), `{"content":{"offerThroughput":500}}`, "false"},
		{"/dbs/d/users/u", "POST", "/dbs/d/users", `{"id":"u"}`, "true"},
		{"/dbs/d/users/u/permissions/p", "POST", "/dbs/d/users/u/permissions", permission, "true"},
	} {
		etag := func() string { return a.must(http.StatusOK, "GET", of.read, "", nil).Lookup("_etag").Str() }
		first := etag()
		if again := etag(); again != first {
			t.Errorf("%s: %s, and then %s", of.read, first, again)
		}
		h := map[string]string{"If-Match": first, "x-ms-documentdb-is-upsert": of.upsert}
		a.must(http.StatusOK, of.method, of.target, of.body, h)
		if etag() == first {
			t.Errorf("%s: the etag is the same after a change", of.read)
		}
		a.must(http.StatusPreconditionFailed, of.method, of.target, of.body, h)
		h["If-Match"] = etag()
		a.must(http.StatusOK, of.method, of.target, of.body, h)
	}
}
