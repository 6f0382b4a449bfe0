package cosmos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestItemPermissions: a permission of one item, by names or resource ids, is
// one of no other, not even of an item whose id looks like its resource id.
func TestItemPermissions(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	key := func(pk string) map[string]string {
		return map[string]string{"x-ms-documentdb-partitionkey": `["` + pk + `"]`}
	}
	field := func(body, name string) string {
		var d map[string]any
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return d[name].(string)
	}
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
	first := a.do("POST", "/dbs/d/colls/c/docs", `{"id":"first","pk":"p"}`, key("p")).Body.String()
	rid, self := field(first, "_rid"), field(first, "_self")
	twin := a.do("POST", "/dbs/d/colls/c/docs", `{"id":"first","pk":"q"}`, key("q")).Body.String()
	alike := a.do("POST", "/dbs/d/colls/c/docs", `{"id":"`+rid+`","pk":"p"}`, key("p")).Body.String()
	named := "dbs/d/colls/c/docs/"
	type request struct {
		target, pk string
		status     int
	}
	for i, c := range []struct {
		resource string
		requests []request
	}{
		{named + "first", []request{
			{"/" + named + "first", "p", 200}, {"/" + self, "p", 200}, {"/" + named + rid, "p", 403}, {"/" + field(alike, "_self"), "p", 403}, {"/dbs/d/colls/c", "", 403},
		}},
		{named + rid, []request{
			{"/" + named + rid, "p", 200}, {"/" + field(alike, "_self"), "p", 200}, {"/" + self, "p", 403}, {"/" + named + "first", "p", 403},
		}},
		{self, []request{
			{"/" + self, "p", 200}, {"/" + named + "first", "p", 200}, {"/" + named + "first", "q", 403}, {"/" + field(twin, "_self"), "q", 403}, {"/" + named + rid, "p", 403},
		}},
		{"dbs/d/colls/c", []request{{"/" + self, "p", 200}, {"/" + named + rid, "p", 200}, {"/dbs/d/colls/c", "", 200}, {"/dbs/d", "", 403}}},
		{"dbs/d/colls", []request{{"/" + self, "p", 403}, {"/dbs/d/colls/c", "", 403}}},
		{"", nil},
	} {
		w := a.do("POST", "/dbs/d/users/u/permissions", fmt.Sprintf(`{"id":"%d","permissionMode":"All","resource":%q}`, i, c.resource), nil)
		if w.Code != http.StatusCreated {
			if c.requests != nil {
				t.Errorf("%s: %d %s", c.resource, w.Code, w.Body)
			}
			continue
		}
		token := url.QueryEscape(field(w.Body.String(), "_token"))
		for _, q := range c.requests {
			h := map[string]string{"Authorization": token}
			if q.pk != "" {
				h["x-ms-documentdb-partitionkey"] = `["` + q.pk + `"]`
			}
			if w := a.do("GET", q.target, "", h); w.Code != q.status {
				t.Errorf("permission of %s: GET %s of %s: %d, want %d: %s", c.resource, q.target, q.pk, w.Code, q.status, w.Body)
			}
		}
	}
}

// TestTokensOfDropped: a token is for the container and the database that there were when it was
// given, and not for others that get their names.
func TestTokensOfDropped(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	define := func() {
		a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"i","pk":"p"}`, map[string]string{"x-ms-documentdb-partitionkey": `["p"]`})
	}
	var links []string
	give := func() (tokens []string) {
		t.Helper()
		a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
		for i, of := range links {
			w := a.do("POST", "/dbs/d/users/u/permissions", fmt.Sprintf(`{"id":"%d","permissionMode":"All","resource":%q}`, i, of), nil)
			var d map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusCreated {
				t.Fatalf("%d %v: %s", w.Code, err, w.Body)
			}
			tokens = append(tokens, url.QueryEscape(d["_token"].(string)))
		}
		return tokens
	}
	opens := func(tokens []string, want ...int) {
		t.Helper()
		targets := []string{"/dbs/d/colls/c/docs/i", "/dbs/d/colls/c", "/dbs/d/colls"}
		for i, token := range tokens {
			for j, target := range targets {
				status := want[i]
				if status == http.StatusOK && (i == 1 && j > 0 || i == 0 && j > 1) {
					status = http.StatusForbidden // more than the token is for
				}
				w := a.do("GET", target, "", map[string]string{"Authorization": token, "x-ms-documentdb-partitionkey": `["p"]`})
				if w.Code != status {
					t.Errorf("token of %s: GET %s: %d, want %d: %s", links[i], target, w.Code, status, w.Body)
				}
			}
		}
	}
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	links = []string{"dbs/d/colls/c", "dbs/d/colls/c/docs/i", "dbs/d"}
	early := give()
	define()
	opens(early[:2], 403, 403) // given before there was a container
	a.must(http.StatusNoContent, "DELETE", "/dbs/d/users/u", "", nil)
	old := give()
	opens(old, 200, 200, 200)
	a.must(http.StatusNoContent, "DELETE", "/dbs/d/colls/c", "", nil)
	define()
	opens(old, 403, 403, 200)
	a.must(http.StatusNoContent, "DELETE", "/dbs/d", "", nil)
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	define()
	opens(old, 403, 403, 403)
	opens(give(), 200, 200, 200)
}

// TestPermissionModes: a permission to read changes nothing, whatever headers
// say, and one of a partition neither other partitions nor the container.
func TestPermissionModes(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
	token := func(permission string) string {
		w := a.do("POST", "/dbs/d/users/u/permissions", permission, nil)
		var d map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusCreated {
			t.Fatalf("%d %v: %s", w.Code, err, w.Body)
		}
		return url.QueryEscape(d["_token"].(string))
	}
	for _, key := range []string{`"p"`, `5`, `{}`, `null`, `true`, `[]`, `[["p"]]`, `[{"a":1}]`, `[1,2,3,4]`} {
		body := `{"id":"bad","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":` + key + `}`
		if w := a.do("POST", "/dbs/d/users/u/permissions", body, nil); w.Code != http.StatusBadRequest {
			t.Errorf("a permission of the partition %s: %d %s", key, w.Code, w.Body)
		}
	}
	reads := token(`{"id":"r","permissionMode":"Read","resource":"dbs/d/colls/c"}`)
	whole := token(`{"id":"d","permissionMode":"All","resource":"dbs/d"}`)
	part := token(`{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c","resourcePartitionKey":["p"]}`)
	const docs, query, bulk = "/dbs/d/colls/c/docs", "x-ms-documentdb-isquery", "x-ms-cosmos-is-batch-request"
	create := func(pk string) string {
		return `[{"operationType":"Create","partitionKey":"[\"` + pk + `\"]","resourceBody":{"id":"` + pk + `","pk":"` + pk + `"}}]`
	}
	for _, c := range []struct {
		token, method, target, body, header string
		status                              int
		says                                string
	}{
		{reads, "POST", docs, `{"query":"SELECT * FROM c"}`, query, 200, `"_count":0`},
		{reads, "POST", docs, create("p"), query + " " + bulk, 403, ""},
		{reads, "POST", docs, `{"id":"1","pk":"p"}`, "", 403, ""},
		{reads, "POST", "/dbs/d/colls/c/operations/partitionkeydelete", "", query, 403, ""},
		{part, "POST", docs, create("p"), bulk, 200, `"statusCode":201`},
		{part, "POST", docs, create("q"), bulk, 207, `"statusCode":403`},
		{part, "GET", "/dbs/d/colls/c", "", "", 200, ""},
		{part, "DELETE", "/dbs/d/colls/c", "", "", 403, ""},
		{whole, "GET", "/dbs/d/users", "", "", 403, ""},
		{whole, "GET", "/dbs/d/colls/c", "", "", 200, ""},
	} {
		h := map[string]string{"Authorization": c.token, "x-ms-documentdb-partitionkey": `["p"]`}
		for name := range strings.FieldsSeq(c.header) {
			h[name] = "true"
		}
		w := a.do(c.method, c.target, c.body, h)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %s %s (%s): %d %s, want %d %s", c.method, c.target, c.body, c.header, w.Code, w.Body, c.status, c.says)
		}
	}
}

// TestTokensOfPrefixes: a token for a prefix of a hierarchical key opens what is below it and
// nothing else; a permission names nothing of another database.
func TestTokensOfPrefixes(t *testing.T) {
	a := newAccount(t)
	defer a.close()
	for _, db := range []string{"d", "other"} {
		a.must(http.StatusCreated, "POST", "/dbs", `{"id":"`+db+`"}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/"+db+"/colls", `{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}`, nil)
	}
	a.must(http.StatusCreated, "POST", "/dbs/d/users", `{"id":"u"}`, nil)
	item := func(id, key string, headers map[string]string) int {
		h := map[string]string{"x-ms-documentdb-partitionkey": key}
		for name, v := range headers {
			h[name] = v
		}
		return a.do("GET", "/dbs/d/colls/c/docs/"+id, "", h).Code
	}
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","t":"a","u":1}`, map[string]string{"x-ms-documentdb-partitionkey": `["a",1]`})
	a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"1","t":"b","u":1}`, map[string]string{"x-ms-documentdb-partitionkey": `["b",1]`})
	token := a.must(http.StatusCreated, "POST", "/dbs/d/users/u/permissions", `{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c","resourcePartitionKey":["a"]}`, nil).Lookup("_token").Str()
	with := map[string]string{"Authorization": url.QueryEscape(token)}
	for key, want := range map[string]int{`["a",1]`: 200, `["a",2]`: 404, `["b",1]`: 403, `[1,"a"]`: 403, `[]`: 403, `["ab",1]`: 403} {
		if got := item("1", key, with); got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
	for resource, want := range map[string]int{"dbs/other/colls/c": 400, "dbs/other": 400, "dbs": 400, "colls/c": 400, "/dbs/d/colls/c/": 201, "dbs/d": 201} {
		body := fmt.Sprintf(`{"id":"r%d%d","permissionMode":"All","resource":%q}`, want, len(resource), resource)
		if w := a.do("POST", "/dbs/d/users/u/permissions", body, nil); w.Code != want {
			t.Errorf("%s: %d %s", resource, w.Code, w.Body)
		}
	}
}
