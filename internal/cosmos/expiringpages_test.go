package cosmos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// expiringPages is a container whose items expire while a query is read page by
// page.
type expiringPages struct {
	items        []string
	stays        map[int]bool
	index        string
	query, limit string
	size         int
	waits        []int // seconds before each page, over and over
}

func drawExpiringPages(rt *rapid.T) *expiringPages {
	e := &expiringPages{stays: map[int]bool{}}
	for i := range rapid.IntRange(5, 30).Draw(rt, "items") {
		life := rapid.SampledFrom([]int{-1, 1, 2, 3}).Draw(rt, "ttl")
		e.stays[i] = life < 0
		e.items = append(e.items, fmt.Sprintf(`{"id":"%d","pk":"p","n":%d,"ttl":%d,"v":%d,"w":%d}`, i, i, life, rapid.IntRange(0, 3).Draw(rt, "v"), rapid.IntRange(0, 3).Draw(rt, "w")))
	}
	e.index = rapid.SampledFrom([]string{"", "path/v", "composite/v,-w"}).Draw(rt, "index")
	e.limit = rapid.SampledFrom([]string{"", " OFFSET 0 LIMIT 1000", " OFFSET 3 LIMIT 7"}).Draw(rt, "limit")
	order := rapid.SampledFrom([]string{"", " ORDER BY c.v", " ORDER BY c.v DESC", " ORDER BY c.v, c.w DESC", " ORDER BY c.v DESC, c.w"}).Draw(rt, "order")
	e.query = "SELECT VALUE c.n FROM c" + order + e.limit
	e.size = rapid.IntRange(1, 6).Draw(rt, "size")
	e.waits = rapid.SliceOfN(rapid.IntRange(0, 2), 3, 3).Draw(rt, "waits")
	return e
}

// rows are those of all pages.
func (e *expiringPages) rows(a *account) (rows []int, err error) {
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	policy := `{"compositeIndexes":[[{"path":"/v"},{"path":"/w","order":"descending"}]]}`
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,"indexingPolicy":`+policy+`}`, nil)
	for _, body := range e.items {
		a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", body, map[string]string{"x-ms-documentdb-partitionkey": `["p"]`})
	}
	if e.index != "" {
		if err := a.server.buildIndex(a.t.Context(), wantedIndex{"d", "c", e.index}); err != nil {
			return nil, err
		}
	}
	h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": fmt.Sprint(e.size)}
	for n := 0; ; n++ {
		w := a.do("POST", "/dbs/d/colls/c/docs", `{"query":"`+e.query+`"}`, h)
		var page struct{ Documents []int }
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
			return nil, fmt.Errorf("%d %s", w.Code, w.Body)
		}
		rows = append(rows, page.Documents...)
		if h["x-ms-continuation"] = w.Header().Get("x-ms-continuation"); h["x-ms-continuation"] == "" {
			return rows, nil
		}
		time.Sleep(time.Duration(e.waits[n%len(e.waits)]) * time.Second)
		if n%2 == 1 {
			a.inspect("sweep")
		}
	}
}

// TestExpiringPages: nothing comes twice while items expire, and are removed,
// between the pages, and what lives on to the end comes where no LIMIT has
// counted what is gone.
func TestExpiringPages(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := drawExpiringPages(rt)
		var rows []int
		var err error
		synctest.Test(t, func(t *testing.T) {
			a := newAccount(t)
			defer a.close()
			rows, err = e.rows(a)
		})
		if err != nil {
			rt.Fatalf("%s: %v", e.query, err)
		}
		for i, row := range rows {
			if slices.Contains(rows[:i], row) {
				rt.Fatalf("%s: %d comes twice: %v", e.query, row, rows)
			}
		}
		few := e.limit == " OFFSET 3 LIMIT 7"
		if few && len(rows) > 7 {
			rt.Fatalf("%s: %v", e.query, rows)
		}
		for i := range e.items {
			if e.stays[i] && !few && !slices.Contains(rows, i) {
				rt.Fatalf("%s: %d is lost: %v", e.query, i, rows)
			}
		}
	})
}
