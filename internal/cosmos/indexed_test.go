package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const indexedPolicy = `{"compositeIndexes":[[{"path":"/v"},{"path":"/w","order":"descending"}]],` +
	`"spatialIndexes":[{"path":"/at/*","types":["Point","Polygon","LineString"]}]}`

// TestIndexed compares what a container with indexes of all kinds answers with
// what one without answers, over items that the indexes cannot hold as well.
func TestIndexed(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		plain, indexed := fmt.Sprintf("p%d", n), fmt.Sprintf("i%d", n)
		for _, id := range []string{plain, indexed} {
			a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"`+id+`","partitionKey":{"paths":["/pk"]},"indexingPolicy":`+indexedPolicy+`}`, nil)
		}
		value := rapid.SampledFrom([]string{"", "null", "true", "1", "2", `"a"`, `{"x":1}`, `[1,2]`, `[]`, `["a"]`})
		shape := rapid.SampledFrom([]string{"", `{"type":"Point","coordinates":[1,1]}`, `{"type":"Point","coordinates":[1.001,1]}`, `{"type":"Point","coordinates":[300,1]}`,
			`"no shape"`, `[1,1]`, `{"type":"LineString","coordinates":[[0,0],[2,2]]}`, `{"type":"Polygon","coordinates":[[[0,0],[2,0],[2,2],[0,2],[0,0]]]}`,
			`{"type":"Polygon","coordinates":[[[0,0],[2,0]]]}`, `{"a":1}`})
		items := rapid.IntRange(1, 15).Draw(rt, "items")
		early := rapid.IntRange(0, items).Draw(rt, "early")
		for i := range items {
			if i == early {
				for _, name := range []string{"composite/v,-w", "spatial/at", "path/w"} {
					if err := a.server.buildIndex(context.Background(), wantedIndex{"d", indexed, name}); err != nil {
						rt.Fatal(err)
					}
				}
			}
			body := fmt.Sprintf(`{"id":"%d","pk":"p","n":%d`, i, i)
			for name, v := range map[string]string{"v": value.Draw(rt, "v"), "w": value.Draw(rt, "w"), "at": shape.Draw(rt, "at")} {
				if v != "" {
					body += `,"` + name + `":` + v
				}
			}
			for _, id := range []string{plain, indexed} {
				a.must(http.StatusCreated, "POST", "/dbs/d/colls/"+id+"/docs", body+"}", map[string]string{"x-ms-documentdb-partitionkey": `["p"]`})
			}
		}
		where := rapid.SampledFrom([]string{
			"c.v = 1 AND c.w > 0", "c.v = 'a' AND c.w = 'a'", "ARRAY_CONTAINS(c.v, 1) AND c.w = 1", "ARRAY_CONTAINS(c.v, 1) AND ARRAY_CONTAINS(c.w, 1)", "c.v = null AND c.w < 2",
			"c.v IN (1, 2) AND c.w IN ('a', true)", "c.w >= 1", "ARRAY_CONTAINS(c.w, 'a')", "c.v = 1 OR c.w = 1",
			"ST_DISTANCE(c.at, {'type':'Point','coordinates':[1,1]}) < 500", "ST_DISTANCE(c.at, {'type':'Point','coordinates':[1,1]}) < 5",
			"ST_WITHIN(c.at, {'type':'Polygon','coordinates':[[[0,0],[3,0],[3,3],[0,3],[0,0]]]})", "ST_INTERSECTS(c.at, {'type':'LineString','coordinates':[[0,2],[2,0]]})",
			"ST_WITHIN({'type':'Point','coordinates':[1,1]}, c.at) AND c.w = 1",
		}).Draw(rt, "where")
		query := "SELECT VALUE c.n FROM c WHERE " + where + rapid.SampledFrom([]string{"", " ORDER BY c.v, c.w DESC", " ORDER BY c.v DESC, c.w", " ORDER BY c.w"}).Draw(rt, "order")
		size := fmt.Sprint(rapid.IntRange(1, 5).Draw(rt, "size"))
		if got, want := a.allRows(indexed, query, size), a.allRows(plain, query, size); got != want || strings.Contains(want, "code") {
			rt.Fatalf("%s by %s: %s, and %s with indexes", query, size, want, got)
		}
	})
}
