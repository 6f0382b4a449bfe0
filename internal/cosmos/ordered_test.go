package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOrdered compares an ORDER BY that reads in its order, page by page, with
// the same of a container without an index.
func TestOrdered(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprintf("c%d", n)
		policy := `{"compositeIndexes":[[{"path":"/v"},{"path":"/w"}],[{"path":"/v"},{"path":"/w","order":"descending"}]]}`
		a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"`+id+`","partitionKey":{"paths":["/pk"]},"indexingPolicy":`+policy+`}`, nil)
		value := rapid.SampledFrom([]string{"", "null", "true", "false", "1", "2", "2.5", "-3", `"a"`, `"b"`, `"ä"`, `{"x":1}`, `{}`})
		for i := range rapid.IntRange(1, 25).Draw(rt, "items") {
			body := fmt.Sprintf(`{"id":"%d","pk":"p","n":%d`, i, i)
			for _, name := range []string{"v", "w"} {
				if v := value.Draw(rt, name); v != "" {
					body += `,"` + name + `":` + v
				}
			}
			a.must(http.StatusCreated, "POST", "/dbs/d/colls/"+id+"/docs", body+"}", map[string]string{"x-ms-documentdb-partitionkey": `["p"]`})
		}
		query := "SELECT VALUE c.n FROM c ORDER BY " + rapid.SampledFrom([]string{"c.v", "c.v DESC", "c.v, c.w", "c.v DESC, c.w DESC", "c.v DESC, c.w", "c.v, c.w DESC"}).Draw(rt, "order")
		if rapid.Bool().Draw(rt, "top") {
			query = strings.Replace(query, "SELECT", "SELECT TOP 9", 1)
		}
		size := fmt.Sprint(rapid.IntRange(1, 9).Draw(rt, "size"))
		want := a.allRows(id, query, size)
		index := rapid.SampledFrom([]string{"path/v", "composite/v,w", "composite/v,-w"}).Draw(rt, "index")
		if err := a.server.buildIndex(context.Background(), wantedIndex{"d", id, index}); err != nil {
			rt.Fatal(err)
		}
		if got := a.allRows(id, query, size); got != want {
			rt.Fatalf("%s by %s: %s, and %s from %s", query, size, want, got, index)
		}
	})
}

// allRows are the rows of all pages.
func (a *account) allRows(container, query, size string) string {
	h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": size}
	rows := ""
	for range 100 {
		w := a.do("POST", "/dbs/d/colls/"+container+"/docs", `{"query":"`+query+`"}`, h)
		if w.Code != http.StatusOK {
			return w.Body.String()
		}
		page := visible(w.Body.String())
		rows += page[strings.IndexByte(page, '[')+1:strings.IndexByte(page, ']')] + ","
		if h["x-ms-continuation"] = w.Header().Get("x-ms-continuation"); h["x-ms-continuation"] == "" {
			return strings.Trim(strings.ReplaceAll(rows, ",,", ","), ",")
		}
	}
	return "pages without end"
}
