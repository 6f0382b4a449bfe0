package cosmos

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

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
