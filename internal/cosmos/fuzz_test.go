package cosmos

import (
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// FuzzPath throws paths at the parser: what it takes names resources whose
// names it has found, and signs a link that leads to them.
func FuzzPath(f *testing.F) {
	for _, s := range []string{
		"/", "/dbs", "//dbs//d/", "/dbs/d/colls/c/docs/a%2Fb", "/dbs/d/users/u/permissions/p", "/offers/AbC=", "/dbs/d/colls/c/operations/partitionkeydelete",
		"/dbs/d/colls/c/sprocs/s", "/dbs/%zz", "/dbs/d/colls/c/pkranges/0", "/dbs/d/colls/c/docs/a/b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := parsePath(s)
		if err != nil {
			return
		}
		if p.kind >= kindItems && p.kind <= kindRanges && (p.db == "" || p.container == "") {
			t.Fatalf("%q: %+v has no container", s, p)
		}
		if p.kind == kindItem && p.item == "" {
			t.Fatalf("%q: %+v has no item", s, p)
		}
		if p.db != "" && !strings.HasPrefix(p.link, "dbs/"+p.db) {
			t.Fatalf("%q: %+v is signed by another link", s, p)
		}
	})
}

// FuzzPatch throws patches at the parser and applies what it takes.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{
		`[{"op":"add","path":"/a/-","value":1},{"op":"move","from":"/b","path":"/a/0"}]`,
		`{"condition":"from c where c.n = 1","operations":[{"op":"incr","path":"/n","value":1.5},{"op":"remove","path":"/o/k"}]}`,
		`[{"op":"replace","path":"/a~1b","value":null}]`,
	} {
		f.Add(s)
	}
	item, err := parseObject([]byte(`{"id":"1","pk":"a","n":1,"a":[1,2],"b":"x","o":{"k":1},"a/b":2}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := nosql.ParseJSON([]byte(s))
		if err != nil {
			return
		}
		p, err := parsePatch(v)
		if err != nil {
			return
		}
		if changed, err := p.apply(item, epoch, func(*nosql.Run) {}); err == nil && changed.Lookup("id").Str() != "1" {
			t.Fatalf("%q changed the id: %s", s, changed)
		}
	})
}
