package cosmos

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// TestNamesOfTheStore: a property may be called as a field that the store has for itself, and is
// read, queried, ordered by, patched and unique as others are.
func TestNamesOfTheStore(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/_n"]}]}}`, nil)
	key := func(more ...string) map[string]string {
		h := map[string]string{"x-ms-documentdb-partitionkey": `["p"]`}
		for _, name := range more {
			h[name] = "true"
		}
		return h
	}
	own := map[string]any{"_id": "a", "%_id": "b", "%%_id": "c", "_n": 7.0, "%_n": "d", "_lsn": "e", "_id.x": "f", "%": "g", "_": "h", "%_idx": "i"}
	item := maps.Clone(own)
	item["id"], item["pk"] = "1", "p"
	body, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	same := func(what, text string) {
		t.Helper()
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v: %s", what, err, text)
		}
		for name, v := range own {
			if got[name] != v || strings.Count(text, `"`+name+`":`) != 1 {
				t.Errorf("%s: %q is %v: %s", what, name, got[name], text)
			}
		}
	}
	same("create", a.do("POST", "/dbs/d/colls/c/docs", string(body), key()).Body.String())
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"2","pk":"p","_n":3,"_id":"z"}`, key())
	same("read", a.do("GET", "/dbs/d/colls/c/docs/1", "", key()).Body.String())
	a.must(http.StatusConflict, "POST", "/dbs/d/colls/c/docs", `{"id":"3","pk":"p","_n":7}`, key())
	for query, want := range map[string]string{
		`SELECT VALUE c.id FROM c WHERE c._n = 7`:           `["1"]`,
		`SELECT VALUE c.id FROM c WHERE c[\"%_id\"] = 'b'`:  `["1"]`,
		`SELECT VALUE c.id FROM c WHERE c._lsn = 'e'`:       `["1"]`,
		`SELECT VALUE c.id FROM c WHERE c._id IN ('z','y')`: `["2"]`,
		`SELECT VALUE c.id FROM c ORDER BY c._n`:            `["2","1"]`,
	} {
		h := key("x-ms-documentdb-isquery")
		h["Content-Type"] = "application/query+json"
		if w := a.do("POST", "/dbs/d/colls/c/docs", `{"query":"`+query+`"}`, h); !strings.Contains(w.Body.String(), `"Documents":`+want) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	own["_n"] = 8.0
	same("patch", a.do("PATCH", "/dbs/d/colls/c/docs/1", `{"operations":[{"op":"incr","path":"/_n","value":1}]}`, key()).Body.String())
	w := a.do("GET", "/dbs/d/colls/c/docs", "", map[string]string{"A-IM": "Incremental feed", "x-ms-documentdb-partitionkey": `["p"]`})
	if strings.Count(w.Body.String(), `"_lsn":`) != 2 || !strings.Contains(w.Body.String(), `"_n":8`) {
		t.Errorf("the feed: %s", w.Body)
	}
}
