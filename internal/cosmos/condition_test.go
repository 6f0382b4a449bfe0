package cosmos

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestDateBinOfAnySize: a size that no step can hold is undefined, in a query and in a patch's
// condition, after which its item and its container can be changed.
func TestDateBinOfAnySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newObserved(t)
		defer a.close()
		for _, bin := range []string{"'year', 4611686018427387904", "'second', 144115188075855872", "'week', 9007199254740992", "'ns', 9223372036854774784"} {
			body := `{"condition":"from c where DateTimeBin('2020-01-01',` + bin + `) != ''","operations":[{"op":"set","path":"/a","value":1}]}`
			a.must(http.StatusPreconditionFailed, "PATCH", "/dbs/d/colls/c/docs/1", body, inA)
		}
		a.must(http.StatusOK, "PUT", "/dbs/d/colls/c/docs/1", `{"id":"1","pk":"a"}`, inA)
		a.must(http.StatusOK, "PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`, nil)
	})
}

// TestConditionIsBounded: a condition that combines too much is refused, and its item can be
// written then; killOp ends one before that.
func TestConditionIsBounded(t *testing.T) {
	a, _ := newObserved(t)
	defer a.close()
	const patch = `{"condition":"from c where EXISTS(SELECT 1 FROM a IN c.list JOIN b IN c.list JOIN d IN c.list JOIN e IN c.list WHERE a = 'no')","operations":[{"op":"set","path":"/a","value":1}]}`
	if w := a.do("PATCH", "/dbs/d/colls/c/docs/1", patch, inA); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "steps") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	a.must(http.StatusOK, "PATCH", "/dbs/d/colls/c/docs/1", `{"condition":"from c where EXISTS(SELECT 1 FROM a IN c.list WHERE a = 1)","operations":[{"op":"set","path":"/a","value":1}]}`, inA)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("PATCH", "/", nil)
	ended := &request{Request: r, s: a.server, ctx: ctx}
	ended.held.Open(nil)
	p, err := parsePatch(bson.Document(bson.MustParse(patch)))
	if err != nil {
		t.Fatal(err)
	}
	item := bson.MustParse(`{id: "1", list: [` + strings.TrimSuffix(strings.Repeat("1, ", 1000), ", ") + `]}`)
	if _, err := p.apply(item, epoch, ended.bound); !errors.Is(err, context.Canceled) {
		t.Errorf("an operation that has ended: %v", err)
	}
}

// TestTimesAreThoseOfTheWrite: who waits, for a gate or for its body, writes the time at which it
// goes on, and takes for expired what has expired by then.
func TestTimesAreThoseOfTheWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t)
		defer a.close()
		a.must(http.StatusCreated, "POST", "/dbs", `{"id":"d"}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1}`, nil)
		a.must(http.StatusCreated, "POST", "/dbs/d/colls/c/docs", `{"id":"old","pk":"a","ttl":30}`, inA)
		if _, err := a.dispatcher.Gate.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		created, patched := make(chan int, 1), make(chan int, 1)
		go func() { created <- a.do("POST", "/dbs/d/colls/c/docs", `{"id":"new","pk":"a","ttl":30}`, inA).Code }()
		go func() {
			patched <- a.do("PATCH", "/dbs/d/colls/c/docs/old", `{"operations":[{"op":"set","path":"/a","value":1}]}`, inA).Code
		}()
		time.Sleep(time.Minute)
		if _, err := a.dispatcher.Gate.Unlock(); err != nil {
			t.Fatal(err)
		}
		if status := <-created; status != http.StatusCreated {
			t.Errorf("the create: %d", status)
		}
		if status := <-patched; status != http.StatusNotFound {
			t.Errorf("a patch of what has expired: %d", status)
		}
		item := a.must(http.StatusOK, "GET", "/dbs/d/colls/c/docs/new", "", inA)
		if ts := bson.ClampToInt64(item.Lookup("_ts")); ts != epoch+60 {
			t.Errorf("_ts is %d seconds after the beginning", ts-epoch)
		}
		a.must(http.StatusNotFound, "GET", "/dbs/d/colls/c/docs/old", "", inA)
	})
}
