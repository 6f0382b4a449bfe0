package cosmos

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// askedCluster counts what a router asks the config servers for.
type askedCluster struct {
	Cluster
	reads int
}

func (c *askedCluster) ReadConfig(context.Context, string, bson.Doc) ([]bson.Doc, error) {
	c.reads++
	return nil, nil
}

func (c *askedCluster) AskConfig(context.Context, string, bson.Doc, bool) (bson.Doc, error) {
	return nil, errNotFound
}

// TestStrangersAskNobody: a router asks no other server what a resource id names for who has no key.
func TestStrangersAskNobody(t *testing.T) {
	c := &askedCluster{}
	s, err := New(t.Context(), Options{Cluster: c, Dispatcher: command.NewDispatcher(slog.New(slog.DiscardHandler)), Key: WellKnownKey, Consistency: "Session"})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(authorization string) int {
		c.reads = 0
		r := httptest.NewRequest("GET", "/dbs/AAAAAA==/colls/AAAAAIAAAAA=", nil)
		r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
		if authorization != "" {
			r.Header.Set("Authorization", url.QueryEscape(authorization))
		}
		w := httptest.NewRecorder()
		s.Gateway().ServeHTTP(w, r)
		return w.Code
	}
	signed := func(link string) string {
		date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat))
		return "type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(s.sign("GET", "colls", link, date))
	}
	for _, stranger := range []string{"", "type=master&ver=1.0&sig=AAAA", signed("dbs/x"), "type=resource&ver=1.0&sig=AAAA;e30=;", "type=aad&ver=1.0&sig=a.b.c"} {
		if status := ask(stranger); status != http.StatusUnauthorized || c.reads > 0 {
			t.Errorf("%q: %d, and the config servers were asked %d times", stranger, status, c.reads)
		}
	}
	for _, link := range []string{"dbs/AAAAAA==/colls/AAAAAIAAAAA=", "aaaaaiaaaaa="} {
		if ask(signed(link)); c.reads == 0 {
			t.Errorf("%s: nobody was asked", link)
		}
	}
}

// shardsOfTest are what a config server runs commands on: collections with their indexes.
type shardsOfTest struct {
	sharded map[string]bool
	indexes []string
	asked   []string
	fail    error // of the next createIndexes, which goes on all the same
}

func newConfigOfTest(t *testing.T) (s *shardsOfTest, ask func(method, path, body string) int) {
	a := newAccount(t)
	t.Cleanup(a.close)
	s = &shardsOfTest{sharded: map[string]bool{}}
	_, err := NewConfig(Options{Catalog: a.cat, Exec: a.exec, Dispatcher: a.dispatcher, Log: slog.New(slog.DiscardHandler)}, Config{
		Key: func(ns string) (bson.Doc, error) {
			if s.sharded[ns] {
				return containerKey, nil
			}
			return nil, nil
		},
		Names:   func(context.Context, string) ([]string, error) { return nil, nil },
		Indexes: func(context.Context, string) ([]string, error) { return slices.Clone(s.indexes), nil },
		Retain:  func(context.Context, time.Duration) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(op *command.Op) error{
		"_configsvrShardCollection": func(op *command.Op) error { s.sharded[op.Body.Lookup(op.Name).Str()] = true; return nil },
		"_configsvrDrop":            func(op *command.Op) error { delete(s.sharded, op.Body.Lookup(op.Name).Str()); return nil },
		"_configsvrCreateIndexes": func(op *command.Op) error {
			for spec := range op.Body.Lookup("command").Doc().Lookup("indexes").Doc().Values() {
				s.indexes = append(s.indexes, spec.Doc().Lookup("name").Str())
			}
			err := s.fail
			s.fail = nil
			return err
		},
		"_configsvrCollMod":     func(*command.Op) error { return nil },
		"_configsvrDropIndexes": func(*command.Op) error { return nil },
	} {
		a.dispatcher.Registry.Register(&command.Command{Name: name, Run: func(_ context.Context, op *command.Op) error {
			s.asked = append(s.asked, name+" "+op.Body.Lookup("command").String())
			return run(op)
		}})
	}
	return s, func(method, path, body string) int {
		s.asked = nil
		b := new(bson.Builder).Int32(onConfig, 1).String("method", method).String("path", path).Doc("headers", bson.Empty).Binary("body", 0, []byte(body))
		r := a.dispatcher.Dispatch(t.Context(), &command.Request{Client: inside, DB: adminDB, Body: b.Finish()})
		defer r.Release()
		if !r.Body.Lookup("ok").Truthy() {
			t.Logf("%s %s: %s", method, path, r.Body)
			return 0
		}
		return int(r.Body.Lookup("status").Int32())
	}
}

// TestRuleOnShardsIsTheDefinitions: in a cluster a time to live that a change has switched on which
// ended before its definition was stored can be switched off, and changed; and a creation that
// follows one that ended early takes over no indexes of that.
func TestRuleOnShardsIsTheDefinitions(t *testing.T) {
	s, ask := newConfigOfTest(t)
	has := func(what ...string) bool {
		return slices.ContainsFunc(s.asked, func(asked string) bool {
			for _, w := range what {
				if !strings.Contains(asked, w) {
					return false
				}
			}
			return true
		})
	}
	if ask("POST", "/dbs", `{"id":"d"}`) != http.StatusCreated || ask("POST", "/dbs/d/colls", testContainer) != http.StatusCreated {
		t.Fatalf("no container: %q", s.asked)
	}
	if ask("PUT", "/dbs/d/colls/c", testContainer) != http.StatusOK || has("CollMod", ruleName) {
		t.Errorf("where there was no rule: %q", s.asked)
	}
	s.fail = mongoerr.New(mongoerr.Interrupted, "interrupted")
	if status := ask("PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`); status == http.StatusOK {
		t.Fatalf("%d", status)
	}
	if status := ask("PUT", "/dbs/d/colls/c", testContainer); status != http.StatusOK || !has("_configsvrCollMod", ruleName, "paused: true") {
		t.Errorf("switched off: %d %q", status, s.asked)
	}
	if status := ask("PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":70}`); status != http.StatusOK || !has("_configsvrCollMod", "70", "paused: false") {
		t.Errorf("changed: %d %q", status, s.asked)
	}
	s.sharded["d.left"], s.indexes = true, []string{"_id_", "_id.p_hashed", fieldNumber, ruleName, "unique/mail", pathIndexPrefix + "n"}
	if status := ask("POST", "/dbs/d/colls", `{"id":"left","partitionKey":{"paths":["/pk"]}}`); status != http.StatusCreated || !has("_configsvrDropIndexes", `"ttl", "unique/mail"`) {
		t.Errorf("a creation after one that ended early: %d %q", status, s.asked)
	}
}

// TestRangeOfAKey: each key is in one of the ranges.
func TestRangeOfAKey(t *testing.T) {
	bound := int64(0)
	low, high := keyRange{min: lowest, max: boundText(bound), high: &bound}, keyRange{min: boundText(bound), max: highest, low: &bound}
	seen := 0
	for i := range 100 {
		key := []bson.Value{bson.Int32(int32(i))}
		if low.has(key) == high.has(key) || !(keyRange{}).has(key) {
			t.Errorf("%d is in %v, %v", i, low.has(key), high.has(key))
		}
		if low.has(key) {
			seen++
		}
	}
	if seen < 20 || seen > 80 {
		t.Errorf("%d of 100 keys are in the lower half", seen)
	}
}
