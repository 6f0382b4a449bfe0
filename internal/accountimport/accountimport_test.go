package accountimport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// startAccount starts a server with the endpoint.
func startAccount(t *testing.T, name string) *Account {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	servertest.Start(t, "--cosmos", "--cosmosTls", "off", "--cosmosPort", strconv.Itoa(port))
	return openTest(t, name, fmt.Sprintf("http://127.0.0.1:%d/", port), cosmos.WellKnownKey)
}

func openTest(t *testing.T, name, address, key string) *Account {
	t.Helper()
	a, err := OpenAccount(name, address, key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// send sends a request of a test, which succeeds.
func (a *Account) send(t *testing.T, method, kind, body, key string, path ...string) {
	t.Helper()
	h := map[string]string{}
	if key != "" {
		h["X-Ms-Documentdb-Partitionkey"] = key
	}
	if _, _, err := a.do(t.Context(), request{method: method, kind: kind, path: path, feed: method == http.MethodPost, body: []byte(body), header: h}); err != nil {
		t.Fatalf("%s %s %s: %v", method, path, body, err)
	}
}

// TestRun: the target gets what the source has, a second run writes nothing, and later ones what has
// changed since.
func TestRun(t *testing.T) {
	t.Parallel()
	from, to := startAccount(t, "the source"), startAccount(t, "the target")
	from.send(t, http.MethodPost, "dbs", `{"id":"d b"}`, "")
	db := []string{"dbs", "d b"}
	from.send(t, http.MethodPost, "colls", `{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash","version":2},"defaultTtl":3600}`, "", db...)
	from.send(t, http.MethodPost, "colls", `{"id":"h","partitionKey":{"paths":["/a/b","/c"],"kind":"MultiHash","version":2}}`, "", db...)
	c, h := append(db, "colls", "c"), append(db, "colls", "h")
	for i := range 230 { // more than two pages
		from.send(t, http.MethodPost, "docs", fmt.Sprintf(`{"id":"i%d","p":%d,"n":%d.5,"list":[1,{"x":null}]}`, i, i%7, i), fmt.Sprintf("[%d]", i%7), c...)
	}
	for _, odd := range []struct{ body, key string }{
		{`{"id":"ä b+c","p":"ö𝄞"}`, `["\u00f6\ud834\udd1e"]`}, {`{"id":"none"}`, `[{}]`}, {`{"id":"null","p":null}`, `[null]`}, {`{"id":"true","p":true,"ttl":-1}`, `[true]`},
	} {
		from.send(t, http.MethodPost, "docs", odd.body, odd.key, c...)
	}
	from.send(t, http.MethodPost, "docs", `{"id":"1","a":{"b":"x"},"c":2}`, `["x",2]`, h...)

	var mu sync.Mutex
	var told []string
	run := func(remove bool, want string) {
		t.Helper()
		told = nil
		err := Run(t.Context(), Options{From: from, To: to, Delete: remove, Parallel: DefaultParallel, Tell: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, line)
		}})
		if err != nil && !errors.Is(err, ErrDiffers) {
			t.Fatal(err)
		}
		if differs := strings.Contains(want, "; 1 ") && !remove; errors.Is(err, ErrDiffers) != differs || !strings.Contains(strings.Join(told, "\n"), want) {
			t.Errorf("%q, %v; want %s", told, err, want)
		}
	}
	run(false, "d b/c: 0 items were equal, 234 were written; 0 that the source does not have, of which 0 were deleted")
	run(false, "d b/c: 234 items were equal, 0 were written; 0 that the source does not have, of which 0 were deleted\nd b/h: 1 items were equal")
	d, err := to.definition(t.Context(), containerID{"d b", "c"})
	if err != nil || string(d.fields["defaultTtl"]) != "3600" {
		t.Errorf("the target's container is made with %v, %v", d, err)
	}
	from.send(t, http.MethodDelete, "docs", "", "[0]", append(c, "docs", "i0")...)
	from.send(t, http.MethodPut, "docs", `{"id":"i1","p":1,"n":"changed"}`, "[1]", append(c, "docs", "i1")...)
	from.send(t, http.MethodPost, "docs", `{"id":"new","p":1}`, "[1]", c...)
	run(false, "232 items were equal, 2 were written; 1 that the source does not have, of which 0 were deleted")
	run(true, "234 items were equal, 0 were written; 1 that the source does not have, of which 1 were deleted")
	run(false, "234 items were equal, 0 were written; 0 that the source does not have, of which 0 were deleted")
}

// TestRefused: what cannot be, is named.
func TestRefused(t *testing.T) {
	t.Parallel()
	from, to := startAccount(t, "the source"), startAccount(t, "the target")
	for i, a := range []*Account{from, to} {
		a.send(t, http.MethodPost, "dbs", `{"id":"d"}`, "")
		a.send(t, http.MethodPost, "colls", fmt.Sprintf(`{"id":"c","partitionKey":{"paths":["/p%d"],"kind":"Hash"}}`, i), "", "dbs", "d")
	}
	o := Options{From: from, To: to, Parallel: 1, Tell: func(string) {}}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "d/c: the target has it already, with the partition key") {
		t.Errorf("another partition key: %v", err)
	}
	for _, other := range []struct{ source, target, want string }{
		{`"defaultTtl":3600`, `"defaultTtl":60`, `with the defaultTtl "60" and not "3600"`},
		{`"defaultTtl":3600`, `"defaultTtl":null`, `with the defaultTtl "none" and not "3600"`},
		{`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]},{"paths":["/b","/c"]}]}`, `"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/b","/c"]}]}`,
			`with the unique keys ["/b,/c"] and not ["/a" "/b,/c"]`},
	} {
		for a, part := range map[*Account]string{from: other.source, to: other.target} {
			a.send(t, http.MethodDelete, "colls", "", "", "dbs", "d", "colls", "c")
			a.send(t, http.MethodPost, "colls", `{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"},`+part+`}`, "", "dbs", "d")
		}
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), other.want) {
			t.Errorf("%s at the target, and %s at the source: %v", other.target, other.source, err)
		}
	}
	o.From = openTest(t, "the source", from.base, "AAAA")
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "listing the source's databases: status 401") {
		t.Errorf("another key: %v", err)
	}
	for _, wrong := range [][2]string{{"mongodb://h/", cosmos.WellKnownKey}, {"https://h/", "no base64!"}} {
		if _, err := OpenAccount("the source", wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// TestOthers: databases and containers that only the target has are told, and are a difference.
func TestOthers(t *testing.T) {
	t.Parallel()
	from, to := startAccount(t, "the source"), startAccount(t, "the target")
	from.send(t, http.MethodPost, "dbs", `{"id":"d"}`, "")
	for _, db := range []string{"d", "old"} {
		to.send(t, http.MethodPost, "dbs", fmt.Sprintf(`{"id":%q}`, db), "")
	}
	to.send(t, http.MethodPost, "colls", `{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}`, "", "dbs", "d")
	var told []string
	o := Options{From: from, To: to, Delete: true, Parallel: 1, Tell: func(line string) { told = append(told, line) }}
	if err := Run(t.Context(), o); !errors.Is(err, ErrDiffers) || !slices.Equal(told, []string{"old: the source does not have this database", "d/c: the source does not have this container"}) {
		t.Errorf("%q, %v", told, err)
	}
}

// TestSplit: a container whose ranges are split while it is read is read anew, and counted once.
func TestSplit(t *testing.T) {
	t.Parallel()
	from, to := startAccount(t, "the source"), startAccount(t, "the target")
	for _, a := range []*Account{from, to} {
		a.send(t, http.MethodPost, "dbs", `{"id":"d"}`, "")
		a.send(t, http.MethodPost, "colls", `{"id":"c","partitionKey":{"paths":["/p"],"kind":"Hash"}}`, "", "dbs", "d")
		for i := range pageItems + 1 {
			a.send(t, http.MethodPost, "docs", fmt.Sprintf(`{"id":"i%d","p":1}`, i), "[1]", "dbs", "d", "colls", "c")
		}
	}
	for _, want := range []struct {
		line string
		err  error
	}{{"d/c: 101 items were equal, 0 were written; 0 that", nil}, {"d/c: 100 items were equal, 0 were written; 1 that", ErrDiffers}} {
		for _, a := range []*Account{from, to} {
			split := false
			a.http.Transport = roundTrip(func(q *http.Request) (*http.Response, error) {
				if q.Header.Get("X-Ms-Continuation") != "" && !split {
					split = true
					return &http.Response{StatusCode: http.StatusGone, Header: http.Header{}, Body: http.NoBody}, nil
				}
				return http.DefaultTransport.RoundTrip(q)
			})
		}
		var told []string
		err := Run(t.Context(), Options{From: from, To: to, Parallel: 1, Tell: func(line string) { told = append(told, line) }})
		if !errors.Is(err, want.err) || len(told) < 2 || !strings.HasPrefix(told[len(told)-1], want.line) {
			t.Errorf("%q, %v; want %s", told, err, want.line)
		}
		if want.err == nil { // the next one finds it at the target only
			from.send(t, http.MethodDelete, "docs", "", "[1]", "dbs", "d", "colls", "c", "docs", "i0")
		}
	}
}

// roundTrip answers the requests of an account.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// TestNotRepeated: an error that does not go away ends the import at once.
func TestNotRepeated(t *testing.T) {
	t.Parallel()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	untrusted.StartTLS()
	defer untrusted.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	nobody := openTest(t, "the source", "https://nobody/", cosmos.WellKnownKey)
	nobody.http.Transport = roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "nobody", IsNotFound: true}}
	})
	for want, a := range map[string]*Account{
		"certificate signed by unknown authority": openTest(t, "the source", untrusted.URL, cosmos.WellKnownKey),
		"no such host":                       nobody,
		"gave HTTP response to HTTPS client": openTest(t, "the source", strings.Replace(plain.URL, "http:", "https:", 1), cosmos.WellKnownKey),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := Run(ctx, Options{From: a, To: a, Parallel: 1, Tell: func(string) {}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
