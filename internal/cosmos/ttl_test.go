package cosmos

import (
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// must sends a request that has to have a status, and returns the body.
func (a *account) must(status int, method, target, body string, headers map[string]string) bson.Doc {
	a.t.Helper()
	w := a.do(method, target, body, headers)
	if w.Code != status {
		a.t.Fatalf("%s %s: %d %s", method, target, w.Code, w.Body)
	}
	if w.Body.Len() == 0 {
		return bson.Empty
	}
	v, err := nosql.ParseJSON(w.Body.Bytes())
	if err != nil {
		a.t.Fatal(err)
	}
	return v.Doc()
}

// rows runs a query over the container d/c.
func (a *account) rows(query string) []bson.Value {
	a.t.Helper()
	h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkeyrangeid": "0", "x-ms-max-item-count": "-1"}
	body := new(bson.Builder).String("query", query).Finish()
	return a.must(http.StatusOK, "POST", "/dbs/d/colls/c/docs", string(nosql.AppendJSONDocument(nil, body)), h).Lookup("Documents").Doc().Slice()
}

// monitor runs the server's TTL monitor over the account's catalog.
func (a *account) monitor() (stop func()) {
	d := command.NewDispatcher(slog.New(slog.DiscardHandler))
	m := expire.New(expire.Options{Catalog: a.cat, Exec: a.exec, Dispatcher: d, Log: slog.New(slog.DiscardHandler)})
	m.Start()
	return m.Stop
}

const (
	countedItems = 1500
	countedLife  = 30 // seconds
)

// TestCountWhileExpiring: COUNT, the ids and the change feed are right at every
// instant while items expire and the monitor removes them, and the feed of all
// versions tells of each expiry once, in pages that are cut anywhere.
func TestCountWhileExpiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemberAccount(t)
		defer a.close()
		defer a.monitor()()
		a.must(201, "POST", "/dbs", `{"id":"d"}`, nil)
		a.must(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":20,"changeFeedPolicy":{"retentionDuration":60}}`, nil)
		begin := a.do("GET", "/dbs/d/colls/c/docs", "", map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": "*"}).Header().Get("Etag")
		ends := make([]int, countedItems) // second in which the item goes
		for i := range ends {
			ttl := fmt.Sprintf(`,"ttl":%d`, 1+i%countedLife)
			ends[i] = 1 + i%countedLife
			switch i % 10 {
			case 0:
				ttl, ends[i] = `,"ttl":-1`, 1<<30
			case 1:
				ttl, ends[i] = "", 20
			}
			body := fmt.Sprintf(`{"id":"%d","pk":"p%d"%s}`, i, i%7, ttl)
			a.must(201, "POST", "/dbs/d/colls/c/docs", body, map[string]string{"x-ms-documentdb-partitionkey": fmt.Sprintf(`["p%d"]`, i%7)})
		}
		for second := 0; second <= countedLife+1; second++ {
			alive := 0
			for _, end := range ends {
				if end > second {
					alive++
				}
			}
			if n := a.rows("SELECT VALUE COUNT(1) FROM c")[0]; bson.ToDouble(n) != float64(alive) {
				t.Fatalf("second %d: COUNT is %s, alive are %d", second, n, alive)
			}
			if n := len(a.rows("SELECT VALUE c.id FROM c WHERE c.id >= '0'")); n != alive {
				t.Fatalf("second %d: %d ids, alive are %d", second, n, alive)
			}
			feed := map[string]string{"A-IM": "Incremental Feed", "x-ms-max-item-count": "-1"}
			if n := a.must(200, "GET", "/dbs/d/colls/c/docs", "", feed).Lookup("Documents").Doc().Len(); n != alive {
				t.Fatalf("second %d: %d items in the change feed, alive are %d", second, n, alive)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Minute) // more than the monitor's sleep
		c, err := a.server.registry.container("d", "c")
		if err != nil {
			t.Fatal(err)
		}
		if n := c.collection.Count(); n != countedItems/10 {
			t.Errorf("%d items are left, %d never expire", n, countedItems/10)
		}
		gone := map[string]int{}
		h := map[string]string{"A-IM": "Full-Fidelity Feed", "If-None-Match": begin, "x-ms-max-item-count": "7"}
		for {
			w := a.do("GET", "/dbs/d/colls/c/docs", "", h)
			if w.Code == http.StatusNotModified {
				break
			}
			page, err := nosql.ParseJSON(w.Body.Bytes())
			if err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s, %v", w.Code, w.Body, err)
			}
			for v := range page.Doc().Lookup("Documents").Doc().Values() {
				if m := v.Doc().Lookup("metadata").Doc(); m.Lookup("timeToLiveExpired").Truthy() {
					gone[m.Lookup("id").Str()]++
				}
			}
			h["If-None-Match"] = w.Header().Get("Etag")
		}
		for i, end := range ends {
			if want := 1 - end>>30; gone[strconv.Itoa(i)] != want {
				t.Errorf("the expiry of %d is told %d times, not %d", i, gone[strconv.Itoa(i)], want)
			}
		}
	})
}

// TestMatrix is the page's matrix of containers and items, for each way to see
// an item, from the second before an expiry to the one in which it happens,
// whether the item is still there or not.
func TestMatrix(t *testing.T) {
	containers := map[string]int{"off": 0, "on": -1, "n": 10}
	items := map[string]struct {
		body string
		life map[string]int // by container; 0 is for ever
	}{
		"absent":  {"", map[string]int{"n": 10}},
		"never":   {`,"ttl":-1`, nil},
		"shorter": {`,"ttl":5`, map[string]int{"on": 5, "n": 5}},
		"longer":  {`,"ttl":20`, map[string]int{"on": 20, "n": 20}},
	}
	for name, ttl := range containers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAccount(t)
				defer a.close()
				a.must(201, "POST", "/dbs", `{"id":"d"}`, nil)
				def := ""
				if ttl != 0 {
					def = fmt.Sprintf(`,"defaultTtl":%d`, ttl)
				}
				a.must(201, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]}`+def+`}`, nil)
				for id, item := range items {
					a.must(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"%s","pk":"a"%s}`, id, item.body), onA)
				}
				for second := range 25 {
					for id, item := range items {
						life := item.life[name]
						a.checkSeen(id, life == 0 || second < life)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

var onA = map[string]string{"x-ms-documentdb-partitionkey": `["a"]`}

// checkSeen looks for an item in every way that writes nothing.
func (a *account) checkSeen(id string, alive bool) {
	a.t.Helper()
	n := 0
	status := http.StatusNotFound
	if alive {
		n, status = 1, http.StatusOK
	}
	target := "/dbs/d/colls/c/docs/" + id
	a.must(status, "GET", target, "", onA)
	for _, query := range []string{
		"SELECT * FROM c WHERE c.id = '" + id + "'", "SELECT * FROM c WHERE c.pk = 'a' AND STARTSWITH(c.id, '" + id + "')",
		"SELECT VALUE x FROM c JOIN (SELECT VALUE 1) AS x WHERE c.id = '" + id + "'",
	} {
		if got := len(a.rows(query)); got != n {
			a.t.Fatalf("%s: %d rows, want %d", query, got, n)
		}
	}
	if got := a.rows("SELECT VALUE COUNT(1) FROM c WHERE c.id = '" + id + "'")[0]; bson.ToDouble(got) != float64(n) {
		a.t.Fatalf("COUNT of %s is %s, want %d", id, got, n)
	}
	for _, mode := range []string{"", "Incremental Feed"} {
		w := a.do("GET", "/dbs/d/colls/c/docs", "", map[string]string{"A-IM": mode, "x-ms-max-item-count": "-1"})
		if got := strings.Count(w.Body.String(), `"id":"`+id+`"`); got != n {
			a.t.Fatalf("feed %q has %s %d times, want %d", mode, id, got, n)
		}
	}
	if !alive {
		a.must(404, "PUT", target, `{"id":"`+id+`","pk":"a"}`, onA)
		a.must(404, "PATCH", target, `[{"op":"set","path":"/x","value":1}]`, onA)
		a.must(404, "DELETE", target, "", onA)
	}
}
