package cosmos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/memory"
)

// TestNoMemoryIsTooManyRequests: a query and a large item, while other operations
// have all the memory, get 429, which SDKs try again.
func TestNoMemoryIsTooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t)
		defer a.close()
		b := memory.NewBudget(memory.MinBudget)
		a.exec.Memory = b
		expect := func(what string, want int, method, target, body string, headers map[string]string) {
			t.Helper()
			w := a.do(method, target, body, headers)
			if w.Code != want {
				t.Errorf("%s: %d, want %d: %.200s", what, w.Code, want, w.Body)
			}
			if again := w.Header().Get("X-Ms-Retry-After-Ms"); (again != "") != (want == http.StatusTooManyRequests) {
				t.Errorf("%s: X-Ms-Retry-After-Ms: %q", what, again)
			}
		}
		create := func(id, pad string) (string, map[string]string) {
			return fmt.Sprintf(`{"id": "%s", "pk": "a", "pad": "%s"}`, id, pad), map[string]string{"x-ms-documentdb-partitionkey": `["a"]`}
		}
		expect("database", http.StatusCreated, "POST", "/dbs", `{"id": "d"}`, nil)
		expect("container", http.StatusCreated, "POST", "/dbs/d/colls", `{"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}`, nil)
		large := strings.Repeat("x", 1<<20)
		for i := range 4 {
			body, headers := create(fmt.Sprint(i), fmt.Sprint(i)+large)
			expect("item", http.StatusCreated, "POST", "/dbs/d/colls/c/docs", body, headers)
		}
		query := func(what string, want int) {
			t.Helper()
			expect(what, want, "POST", "/dbs/d/colls/c/docs", `{"query": "SELECT DISTINCT VALUE c.pad FROM c ORDER BY c.pad"}`, map[string]string{
				"Content-Type": "application/query+json", "x-ms-documentdb-isquery": "True", "x-ms-documentdb-partitionkey": `["a"]`,
			})
		}
		query("with plenty", http.StatusOK)

		var operations memory.Account
		operations.Open(b)
		h := operations.Hold(nil)
		n := int(memory.MinBudget)
		for ; h.Set(n) != nil; n -= 1 << 20 {
		}
		query("without memory", http.StatusTooManyRequests)
		var others memory.Request
		others.Open(b)
		if err := others.Set(t.Context(), 100<<20); err != nil {
			t.Fatal(err)
		}
		body, headers := create("5", large)
		body = strings.Replace(body, large, large+large[:900<<10], 1)
		expect("a large item", http.StatusTooManyRequests, "POST", "/dbs/d/colls/c/docs", body, headers)
		small, headers := create("6", "")
		expect("a small item", http.StatusCreated, "POST", "/dbs/d/colls/c/docs", small, headers)

		operations.Close()
		others.Release()
		query("afterwards", http.StatusOK)
		expect("a large item afterwards", http.StatusCreated, "POST", "/dbs/d/colls/c/docs", body, headers)
		if st := b.Stats(); st.Operations.Held != 0 || st.Requests.Held != 0 {
			t.Errorf("still held: %+v", st)
		}
	})
}

// TestPagesTakeOfTheBudget: pages, what is kept behind them, and the items of a batch are
// in the budget of operations. Where it is used up, pages are small, and all of them
// together have every row.
func TestPagesTakeOfTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemberAccount(t)
		defer a.close()
		a.must(201, "POST", "/dbs", `{"id": "d"}`, nil)
		a.must(201, "POST", "/dbs/d/colls", `{"id": "c", "partitionKey": {"paths": ["/pk"]}, "changeFeedPolicy": {"retentionDuration": 60}}`, nil)
		begin := a.do("GET", "/dbs/d/colls/c/docs", "", map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": "*"}).Header().Get("Etag")
		const items, size = 900, 3000
		pad := strings.Repeat("x", size)
		for i := range items {
			a.must(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id": "%d", "pk": "a", "n": %d, "pad": "%s"}`, i, i%7, pad), onA)
		}
		query := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkey": `["a"]`}
		for _, feed := range []struct {
			name, method, body string
			headers            map[string]string
			refused            bool // what it keeps to be sorted is too much
		}{
			{"query", "POST", `{"query": "SELECT * FROM c WHERE c.pad != 'y'"}`, query, false},
			{"sorted query", "POST", `{"query": "SELECT * FROM c ORDER BY c.n DESC"}`, query, true},
			{"read feed", "GET", "", nil, false},
			{"change feed", "GET", "", map[string]string{"A-IM": "Incremental Feed"}, false},
			{"all versions", "GET", "", map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": begin}, false},
		} {
			b := memory.NewBudget(memory.MinBudget)
			a.exec.Memory = b
			a.open()
			var operations memory.Account
			operations.Open(b)
			others := operations.Hold(nil)
			headers := map[string]string{"x-ms-max-item-count": "-1"}
			for name, v := range feed.headers {
				headers[name] = v
			}
			pages := func() (n, rows int) {
				for ; n < items; n++ {
					w := a.do(feed.method, "/dbs/d/colls/c/docs", feed.body, headers)
					if w.Code == http.StatusNotModified {
						return n, rows
					}
					if w.Code != http.StatusOK {
						t.Fatalf("%s: %d %.300s", feed.name, w.Code, w.Body)
					}
					rows += strings.Count(w.Body.String(), pad)
					next := w.Header().Get("X-Ms-Continuation")
					if headers["A-IM"] != "" {
						headers["If-None-Match"] = w.Header().Get("Etag")
					} else if headers["x-ms-continuation"] = next; next == "" {
						return n + 1, rows
					}
				}
				return n, rows
			}
			if n, rows := pages(); n > 3 || rows != items {
				t.Errorf("%s: %d rows in %d pages", feed.name, rows, n)
			}
			if most := b.Stats().Operations.Peak; most < items*size {
				t.Errorf("%s: %d bytes at the most for a page of %d", feed.name, most, items*size)
			}
			delete(headers, "x-ms-continuation")
			if headers["A-IM"] != "" {
				headers["If-None-Match"] = feed.headers["If-None-Match"]
			}
			for n := int(memory.MinBudget); others.Set(n) != nil; n -= 1 << 20 {
			}
			if feed.refused {
				a.must(http.StatusTooManyRequests, feed.method, "/dbs/d/colls/c/docs", feed.body, headers)
			} else if n, rows := pages(); n < 4 || rows != items {
				t.Errorf("%s, without memory: %d rows in %d pages", feed.name, rows, n)
			}
			others.Release()
			a.server.results.expire(time.Now().Add(2 * resultLife))
			if st := b.Stats(); st.Operations.Held != 0 {
				t.Errorf("%s: still held: %+v", feed.name, st)
			}
		}
	})
}
