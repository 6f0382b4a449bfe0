package server_test

import (
	"bufio"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
	"github.com/mayflydb/mayfly/internal/testkit"
)

// browser calls a console's API as a page does.
type browser struct {
	t      *testing.T
	base   string
	http   http.Client
	header http.Header
}

func newBrowser(t *testing.T, base string) *browser {
	jar, _ := cookiejar.New(nil)
	return &browser{t: t, base: base, http: http.Client{Jar: jar}, header: http.Header{"Content-Type": {"application/json"}}}
}

// call returns the status and the reply of a call; body is "" for a GET.
func (b *browser) call(path, body string) (int, bson.Doc, *http.Response) {
	b.t.Helper()
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header = b.header.Clone()
	r.Host = b.header.Get("Host")
	a, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	d, _ := bson.ParseJSON(string(text))
	return a.StatusCode, d, a
}

func (b *browser) login(body string) {
	b.t.Helper()
	code, d, _ := b.call("/api/login", body)
	if code != http.StatusOK {
		b.t.Fatalf("login: %d %s", code, d)
	}
	b.header.Set("X-Mayfly-Csrf", d.Lookup("csrf").Str())
}

// run returns the code of a command's error, 0 for none.
func (b *browser) run(db, cmd string) (int64, bson.Doc) {
	b.t.Helper()
	code, d, _ := b.call("/api/run", fmt.Sprintf(`{"db": %q, "command": %s}`, db, cmd))
	if code != http.StatusOK {
		b.t.Fatalf("%s: %d %s", cmd, code, d)
	}
	return bson.ClampToInt64(d.Lookup("code")), d
}

// startConsole starts a server with access control and a console: with the users root, who may do all and
// has the connection, and reader, who may read shop. base is the console's address.
func startConsole(t *testing.T) (s *servertest.Server, root *client.Conn, base string) {
	t.Helper()
	port := servertest.FreePort(t)
	s = servertest.Start(t, "--auth", "--console", "--consolePort", fmt.Sprint(port))
	connect := func(o client.Options) *client.Conn {
		o.Address = s.Address
		c, err := client.Connect(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	run(t, connect(client.Options{}), `{"createUser": "root", "pwd": "p", "roles": ["root"]}`)
	root = connect(client.Options{Login: &client.Login{User: "root", Password: "p"}})
	run(t, root, `{"createUser": "reader", "pwd": "r", "roles": [{"role": "read", "db": "shop"}]}`)
	return s, root, fmt.Sprintf("http://localhost:%d", port)
}

// The console runs commands with its user's rights, for who shows both secrets of a session,
// from its own page, at its own address.
func TestConsole(t *testing.T) {
	_, root, base := startConsole(t)
	b := newBrowser(t, base)
	const list = `{"db": "shop", "command": {"find": "c"}}`
	for _, w := range []struct {
		what, path, body string
		code             int
	}{
		{"no session", "/api/run", list, 401}, {"no session", "/api/parse", `{"text": "1"}`, 401}, {"no session", "/api/logout", `{}`, 401},
		{"no session", "/api/operators", "", 401},
		{"a wrong password", "/api/login", `{"user": "reader", "password": "x"}`, 401},
		{"no user", "/api/login", `{"user": "nobody", "password": "x"}`, 401}, {"nobody", "/api/login", `{}`, 401},
		{"no login", "/api/login", `[]`, 400}, {"a long login", "/api/login", `{"user": "` + strings.Repeat("x", 5000) + `"}`, 413},
		{"nothing there", "/api/none", "", 404},
	} {
		if code, d, _ := b.call(w.path, w.body); code != w.code {
			t.Errorf("%s, %s: %d %s", w.what, w.path, code, d)
		}
	}
	if code, d, _ := b.call("/api/session", ""); code != 200 || !d.Lookup("accessControl").Truthy() || !d.Lookup("version").IsMissing() {
		t.Errorf("who has no session is told %d %s", code, d)
	}

	b.login(`{"user": "reader", "password": "r", "db": "admin"}`)
	if code, d := b.run("shop", `{"find": "c"}`); code != 0 {
		t.Errorf("a reader reads: %s", d)
	}
	if code, d := b.run("shop", `{"insert": "c", "documents": [{"_id": 1}]}`); code != 13 {
		t.Errorf("a reader writes: %s", d)
	}
	if code, d := b.run("shop", `{"none": 1}`); code != 59 {
		t.Errorf("no command: %s", d)
	}
	_, d := b.run("admin", `{"connectionStatus": 1}`)
	if users := d.Lookup("authInfo").Doc().Lookup("authenticatedUsers").Doc(); !strings.Contains(string(users.AppendJSON(nil, bson.RelaxedJSON)), `"reader"`) {
		t.Errorf("the client is %s", d)
	}
	for _, cmd := range []string{`{"saslStart": 1}`, `{"logout": 1}`, `{}`, `[]`, `{"a": `} {
		if code, d, _ := b.call("/api/run", fmt.Sprintf(`{"db": "admin", "command": %s}`, cmd)); code != 400 {
			t.Errorf("%s: %d %s", cmd, code, d)
		}
	}
	if _, d, _ := b.call("/api/parse", `{"text": "{at: ISODate('2026-01-01'), n: 1}"}`); string(d.AppendJSON(nil, bson.CanonicalJSON)) != `{"value":{"at":{"$date":{"$numberLong":"1767225600000"}},"n":{"$numberInt":"1"}}}` {
		t.Errorf("parsed %s", d.AppendJSON(nil, bson.CanonicalJSON))
	}
	if _, d, _ := b.call("/api/parse", `{"text": "{é: ]"}`); bson.ClampToInt64(d.Lookup("code")) != 9 || bson.ClampToInt64(d.Lookup("at")) != 5 {
		t.Errorf("not parsed: %s", d)
	}
	_, d, _ = b.call("/api/operators", "")
	for of, name := range map[string]string{"stages": "$lookup", "match": "$elemMatch", "expressions": "$dateAdd", "accumulators": "$push", "windows": "$rank"} {
		if !slices.ContainsFunc(d.Lookup(of).Doc().Slice(), func(v bson.Value) bool { return v.Str() == name }) {
			t.Errorf("no %s among %s", name, of)
		}
	}

	// From elsewhere.
	for _, w := range []struct {
		what, name, value string
		code              int
	}{
		{"another origin", "Origin", "http://evil.example", 403}, {"another site", "Sec-Fetch-Site", "cross-site", 403}, {"another port", "Sec-Fetch-Site", "same-site", 403},
		{"another name", "Host", "evil.example", 421}, {"a name that begins well", "Host", "localhost.evil.example:27080", 421},
		{"a form", "Content-Type", "text/plain", 415}, {"the cookie alone", "X-Mayfly-Csrf", "", 401}, {"the own page", "Origin", base, 200},
	} {
		before := b.header.Clone()
		b.header.Set(w.name, w.value)
		if code, d, _ := b.call("/api/run", list); code != w.code {
			t.Errorf("%s: %d %s", w.what, code, d)
		}
		b.header = before
	}
	_, _, a := b.call("/", "")
	if policy := a.Header.Get("Content-Security-Policy"); a.StatusCode != 200 || !strings.Contains(policy, "default-src 'self';") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the page: %d %s", a.StatusCode, policy)
	}

	// A login takes the place of the one before it, whose secrets are worth nothing then.
	old := b.http.Jar.Cookies(a.Request.URL)[0]
	token := b.header.Get("X-Mayfly-Csrf")
	b.login(`{"user": "root", "password": "p"}`)
	stale := newBrowser(t, base)
	stale.header.Set("X-Mayfly-Csrf", token)
	stale.http.Jar.SetCookies(a.Request.URL, []*http.Cookie{old})
	if code, d, _ := stale.call("/api/run", list); code != 401 {
		t.Errorf("a session that another login took the place of: %d %s", code, d)
	}
	// Rights are those of now.
	other := newBrowser(t, base)
	other.login(`{"user": "reader", "password": "r"}`)
	run(t, root, `{"grantRolesToUser": "reader", "roles": [{"role": "readWrite", "db": "shop"}]}`)
	if code, d := other.run("shop", `{"insert": "c", "documents": [{"_id": 1}]}`); code != 0 {
		t.Errorf("a writer writes: %s", d)
	}
	run(t, root, `{"dropUser": "reader"}`)
	for range 2 {
		if code, d, _ := other.call("/api/run", list); code != 401 || bson.ClampToInt64(d.Lookup("code")) != 13 {
			t.Errorf("the session of a user that is gone: %d %s", code, d)
		}
	}
	if code, _, _ := b.call("/api/logout", `{}`); code != 200 {
		t.Errorf("logout: %d", code)
	}
	if code, _, _ := b.call("/api/run", list); code != 401 {
		t.Errorf("after logout: %d", code)
	}
}

// stream opens the stream of samples, until the end of the test.
func (b *browser) stream(path string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.base+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header = b.header.Clone()
	a, err := b.http.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = a.Body.Close() })
	return a
}

// Samples go to who may see the server, to no more pages than there is room for, until their session
// or the server ends.
func TestConsoleLive(t *testing.T) {
	s, _, base := startConsole(t)
	if a := newBrowser(t, base).stream("/api/live"); a.StatusCode != 401 {
		t.Errorf("without a session: %d", a.StatusCode)
	}
	reader := newBrowser(t, base)
	reader.login(`{"user": "reader", "password": "r"}`)
	if _, d, _ := reader.call("/api/live", ""); bson.ClampToInt64(d.Lookup("code")) != 13 {
		t.Errorf("a reader sees %s", d)
	}

	left := newBrowser(t, base)
	left.login(`{"user": "root", "password": "p"}`)
	ended := left.stream("/api/live")
	b := newBrowser(t, base)
	b.login(`{"user": "root", "password": "p"}`)
	open := []*http.Response{}
	for range 63 {
		open = append(open, b.stream("/api/live"))
	}
	if a := b.stream("/api/live"); a.StatusCode != 503 {
		t.Errorf("the 65th stream: %d", a.StatusCode)
	}
	first := make([]byte, 4096)
	n, err := io.ReadAtLeast(open[0].Body, first, 200)
	if text := string(first[:n]); err != nil || !strings.HasPrefix(text, "event: series\ndata: {\"series\":[\"insert\",") {
		t.Errorf("a stream begins with %q, %v", text, err)
	}
	if code, _, _ := left.call("/api/logout", `{}`); code != 200 {
		t.Fatalf("logout: %d", code)
	}
	if _, err := io.Copy(io.Discard, ended.Body); err != nil { // it ends with the next sample
		t.Errorf("the stream of a session that has ended: %v", err)
	}
	began := time.Now()
	s.Stop()
	for _, a := range open {
		_, _ = io.Copy(io.Discard, a.Body)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the server stopped after %v", took)
	}
}

// Changes go to who may see them, as they happen, to no more pages of a session than there is room
// for. Their cursor ends when the page hangs up, though nothing changes, when the session ends and
// when the server stops.
func TestConsoleTail(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("c2VjcmV0c2VjcmV0"), 0o600); err != nil {
		t.Fatal(err)
	}
	port := servertest.FreePort(t)
	s := servertest.Start(t, "--replSet", "rs0", "--initiate", "--keyFile", key, "--console", "--consolePort", fmt.Sprint(port))
	c := primary(t, s)
	run(t, c, `{"createUser": "root", "pwd": "p", "roles": ["root"]}`)
	_ = c.Close()
	root, err := client.Connect(t.Context(), client.Options{Address: s.Address, Login: &client.Login{User: "root", Password: "p"}})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	run(t, root, `{"createUser": "reader", "pwd": "r", "roles": [{"role": "read", "db": "shop"}]}`)
	cursors := func(want int64) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			m := run(t, root, `{"serverStatus": 1}`).Lookup("metrics").Doc()
			streams, all := bson.ClampToInt64(m.Lookup("changeStreams").Doc().Lookup("open")), bson.ClampToInt64(m.Lookup("cursor").Doc().Lookup("open").Doc().Lookup("total"))
			if streams == want && all == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d change streams and %d cursors are open, want %d", streams, all, want)
			}
		}
	}
	base := fmt.Sprintf("http://localhost:%d", port)
	const path = "/api/tail?db=shop&coll=c"
	if a := newBrowser(t, base).stream(path); a.StatusCode != 401 {
		t.Errorf("without a session: %d", a.StatusCode)
	}
	b := newBrowser(t, base)
	b.login(`{"user": "reader", "password": "r"}`)
	for _, other := range []string{"/api/tail", "/api/tail?db=other", "/api/tail?db=other&coll=c"} {
		if _, d, _ := b.call(other, ""); bson.ClampToInt64(d.Lookup("code")) != 13 {
			t.Errorf("%s: a reader of another database gets %s", other, d)
		}
	}
	cursors(0)

	first := b.stream(path)
	lines := bufio.NewScanner(first.Body)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if text := lines.Text(); text == want || len(want) > 1 && strings.Contains(text, want) {
				return
			}
		}
		t.Fatalf("the stream ends before %q: %v", want, lines.Err())
	}
	next("event: open")
	if _, err := root.Run(t.Context(), "shop", bson.MustParse(`{"insert": "c", "documents": [{"_id": "one"}]}`)); err != nil {
		t.Fatal(err)
	}
	next("event: change")
	next(`"_id":"one"`)
	for range 3 {
		next(":") // nothing changes, and the page is told so
	}
	cursors(1)
	var seen, batch bson.Doc
	for end := time.Now().Add(10 * time.Second); batch.Len() != 1 && time.Now().Before(end); { // until a getMore waits
		seen = run(t, root, `{"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": true}}, {"$match": {"cursor.originatingCommand.pipeline.0.$changeStream": {"$exists": true}}}], "cursor": {}}`)
		batch = seen.Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	}
	if err := bson.Validate(seen, bson.MaxDepth); err != nil || !strings.Contains(batch.String(), `appName: "Mayfly console"`) {
		t.Errorf("currentOp shows of the stream %s, %v", batch, err)
	}
	_ = first.Body.Close()
	cursors(0) // nothing has changed since

	var open []*http.Response
	for range 4 {
		open = append(open, b.stream(path))
	}
	if a := b.stream(path); a.StatusCode != 503 {
		t.Errorf("the 5th of a session: %d", a.StatusCode)
	}
	other := newBrowser(t, base)
	other.login(`{"user": "root", "password": "p"}`)
	last := other.stream("/api/tail")
	cursors(5)
	if code, _, _ := b.call("/api/logout", `{}`); code != 200 {
		t.Fatalf("logout: %d", code)
	}
	for _, a := range open {
		if _, err := io.Copy(io.Discard, a.Body); err != nil {
			t.Errorf("the stream of a session that has ended: %v", err)
		}
	}
	cursors(1)
	began := time.Now()
	s.Stop()
	_, _ = io.Copy(io.Discard, last.Body)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the server stopped after %v", took)
	}
}

// Without access control a browser needs a session all the same, so that pages of others get
// nothing.
func TestConsoleWithoutAccessControl(t *testing.T) {
	port := servertest.FreePort(t)
	servertest.Start(t, "--console", "--consolePort", fmt.Sprint(port))
	b := newBrowser(t, fmt.Sprintf("http://127.0.0.1:%d", port))
	if code, _, _ := b.call("/api/run", `{"db": "shop", "command": {"find": "c"}}`); code != 401 {
		t.Errorf("without a session: %d", code)
	}
	b.header.Set("Sec-Fetch-Site", "cross-site")
	if code, _, _ := b.call("/api/login", `{}`); code != 403 {
		t.Errorf("a session for another site: %d", code)
	}
	b.header.Del("Sec-Fetch-Site")
	b.login(`{}`)
	if code, d := b.run("shop", `{"insert": "c", "documents": [{"_id": 1}]}`); code != 0 {
		t.Errorf("%s", d)
	}
}

// The console examines the server with the rights of its user: what one may not ask is told as not
// looked at.
func TestConsoleHealth(t *testing.T) {
	s, _, base := startConsole(t)
	b := newBrowser(t, base)
	if code, _, _ := b.call("/api/health", "{}"); code != 401 {
		t.Errorf("without a session: %d", code)
	}
	examined := func(login string) string {
		t.Helper()
		b.login(login)
		code, d, _ := b.call("/api/health", "{}")
		if code != 200 || d.Lookup("findings").Type != bson.TypeArray {
			t.Fatalf("%d %s", code, d)
		}
		return string(d.AppendJSON(nil, bson.RelaxedJSON))
	}
	b.login(`{"user": "root", "password": "p"}`)
	if code, d := b.run("shop", `{"createIndexes": "c", "indexes": [{"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 60, "storageEngine": {"mayfly": {"expiry": {"paused": true}}}}]}`); code != 0 {
		t.Fatal(d)
	}
	_, port, _ := net.SplitHostPort(s.Address)
	if got := examined(`{"user": "root", "password": "p"}`); !strings.Contains(got, `"check":"rule-removes-nothing"`) || !strings.Contains(got, ":"+port+`"`) || strings.Contains(got, "not-examined") {
		t.Errorf("root is told %s", got)
	}
	if got := examined(`{"user": "reader", "password": "r"}`); !strings.Contains(got, "not-examined") || !strings.Contains(got, "clusterMonitor") || strings.Contains(got, "rule-removes-nothing") {
		t.Errorf("a reader is told %s", got)
	}
}

// With TLS the cookie is for TLS alone, and the console answers by any name, which the browser
// has checked.
func TestConsoleTLS(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	cert := a.Sign("server.pem", pkix.Name{CommonName: "db1"}, time.Now().AddDate(1, 0, 0))
	port := servertest.FreePort(t)
	servertest.Start(t, "--tlsMode", "allowTLS", "--tlsCertificateKeyFile", cert.File, "--tlsCAFile", a.CAFile, "--console", "--consolePort", fmt.Sprint(port), "--consoleTls")
	b := newBrowser(t, fmt.Sprintf("https://localhost:%d", port))
	b.http.Transport = &http.Transport{TLSClientConfig: a.Trusting(nil)}
	b.header.Set("Host", "db1.example.com")
	code, d, answer := b.call("/api/login", `{}`)
	if code != 200 {
		t.Fatalf("%d %s", code, d)
	}
	if c := answer.Cookies()[0]; !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("the cookie is %v", c)
	}
}
