package cosmos

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// TestEffectiveKey: hashes are those of the service's SDKs (the package @azure/cosmos).
func TestEffectiveKey(t *testing.T) {
	for _, v := range []struct {
		key  []bson.Value
		want string
	}{
		{[]bson.Value{bson.String("")}, "32E9366E637A71B4E710384B2F4970A0"},
		{[]bson.Value{bson.String("a")}, "3A5381E1114EB8D3FCC90795045B49B7"},
		{[]bson.Value{bson.String("redmond")}, "22E342F38A486A088463DFF7838A5963"},
		{[]bson.Value{bson.String("한글")}, "04C18EE7D7E252CF934C46080EFA1CFB"},
		{[]bson.Value{bson.True}, "0E711127C5B5A8E4726AC6DD306A3E59"},
		{[]bson.Value{bson.False}, "2FE1BE91E90A3439635E0E9E37361EF2"},
		{[]bson.Value{bson.Null}, "378867E4430E67857ACE5C908374FE16"},
		{[]bson.Value{none}, "11622DAA78F835834610ABE56EFF5CB5"},
		{[]bson.Value{bson.Int32(0)}, "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{[]bson.Value{bson.Int32(-1)}, "19938E7A936C1C5B9E3AE842BBC16839"},
		{[]bson.Value{bson.Double(1.5)}, "35C5DDEB6C795D16A9963C73C54E97BC"},
		{[]bson.Value{bson.Int64(42)}, "08E6D561F6FD951DCC25E7E4EA2884B5"},
		{[]bson.Value{bson.String("redmond"), bson.Int32(42)}, "22E342F38A486A088463DFF7838A596308E6D561F6FD951DCC25E7E4EA2884B5"},
	} {
		if got := effectiveKey(v.key); got != v.want {
			t.Errorf("%v: %s, want %s", v.key, got, v.want)
		}
	}
}

// TestPartOfARange: what bounds a part of the range gets the items in it and no others, each part
// its own.
func TestPartOfARange(t *testing.T) {
	a := newMemberAccount(t)
	defer a.close()
	a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2},"changeFeedPolicy":{"retentionDuration":60}}`, nil)
	a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"old","partitionKey":{"paths":["/pk"],"kind":"Hash"}}`, nil)
	begin := a.do("GET", "/dbs/d/colls/c/docs", "", map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": "*"}).Header().Get("Etag")
	for i := range 20 {
		for j := range 3 {
			a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"1","t":"t%d","u":%d}`, i, j), map[string]string{"x-ms-documentdb-partitionkey": fmt.Sprintf(`["t%d",%d]`, i, j)})
		}
	}
	tenant := effectiveKey([]bson.Value{bson.String("t7")})
	feeds := []struct {
		name, method, body string
		headers            map[string]string
	}{
		{"query", "POST", `{"query":"SELECT * FROM c"}`, map[string]string{"Content-Type": "application/query+json"}},
		{"sorted query", "POST", `{"query":"SELECT * FROM c ORDER BY c.u"}`, map[string]string{"Content-Type": "application/query+json"}},
		{"read feed", "GET", "", nil},
		{"change feed", "GET", "", map[string]string{"A-IM": "Incremental Feed"}},
		{"all versions", "GET", "", map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": begin}},
	}
	for _, f := range feeds {
		count := func(from, to string) int {
			h := map[string]string{"x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-start-epk": from, "x-ms-end-epk": to, "x-ms-max-item-count": "-1"}
			for name, v := range f.headers {
				h[name] = v
			}
			w := a.do(f.method, "/dbs/d/colls/c/docs", f.body, h)
			if w.Code == http.StatusNotModified {
				return 0
			}
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s", f.name, w.Code, w.Body)
			}
			v, err := nosql.ParseJSON(w.Body.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			return v.Doc().Lookup("Documents").Doc().Len()
		}
		if n := count(tenant, tenant+"FF"); n != 3 {
			t.Errorf("%s: %d items of the tenant", f.name, n)
		}
		low, high := count("", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"), count("1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "FF")
		if low+high != 60 || low == 0 || high == 0 {
			t.Errorf("%s: %d items and %d", f.name, low, high)
		}
		if n := count("", "FF"); n != 60 {
			t.Errorf("%s: %d items of all", f.name, n)
		}
	}
	a.must(http.StatusBadRequest, "GET", "/dbs/d/colls/old/docs", "", map[string]string{"x-ms-start-epk": tenant, "x-ms-end-epk": tenant + "FF"})
	a.must(http.StatusOK, "GET", "/dbs/d/colls/old/docs", "", map[string]string{"x-ms-start-epk": "", "x-ms-end-epk": "FF"})
}
