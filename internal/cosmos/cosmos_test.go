package cosmos

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// account is a server over an engine in memory. Tests run it in virtual time.
type account struct {
	t          *testing.T
	server     *Server
	engine     *storage.Engine
	cat        *catalog.Catalog
	exec       *exec.Executor
	dispatcher *command.Dispatcher
	member     *repl.Member // nil on a standalone
	etags      []string     // those of the feed of all versions
}

// epoch is the time of the computer's clock when a test begins, in seconds
// since 1970.
const epoch = 1_700_000_000

func newAccount(t *testing.T) *account {
	t.Helper()
	return newAccountAround(t, func(r *replay.Recorder) catalog.Committer { return r })
}

// newAccountAround is newAccount with another committer.
func newAccountAround(t *testing.T, committer func(*replay.Recorder) catalog.Committer) *account {
	t.Helper()
	a := &account{t: t}
	off := time.Until(time.Unix(epoch, 0))
	a.engine, a.cat = replay.OpenAround(t, storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20, Log: slog.New(slog.DiscardHandler)}, catalog.Options{
		Log: slog.New(slog.DiscardHandler), Clock: catalog.NewClock(func() time.Time { return time.Now().Add(off) }),
	}, committer)
	a.exec = &exec.Executor{Catalog: a.cat}
	a.dispatcher = command.NewDispatcher(slog.New(slog.DiscardHandler))
	a.open()
	return a
}

// newMemberAccount is newAccount on a replica set of one member, which has a log.
func newMemberAccount(t *testing.T) *account {
	t.Helper()
	off := time.Until(time.Unix(epoch, 0))
	wall := func() time.Time { return time.Now().Add(off) }
	log, fs := slog.New(slog.DiscardHandler), storage.NewMemFS()
	m, err := repl.OpenMember(repl.MemberOptions{
		Set: "rs0", FS: fs, Dir: "db", Wall: wall, Catalog: catalog.Options{Log: log, Clock: catalog.NewClock(wall)},
		Open: func(dir string) (*storage.Engine, error) {
			return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 8 << 20, Log: log})
		},
		Network: repl.NetworkOptions{Host: "a:1"}, Fatal: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Initiate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for m.Writable() != nil {
		time.Sleep(time.Millisecond)
	}
	a := &account{t: t, member: m, cat: m.Catalog(), engine: m.Catalog().Engine()}
	a.exec = &exec.Executor{Catalog: a.cat}
	a.dispatcher = command.NewDispatcher(log)
	a.dispatcher.Member, a.dispatcher.Writable = m, m.Writable
	a.open()
	return a
}

func (a *account) close() {
	if a.member != nil {
		if err := a.member.Stop(); err != nil {
			a.t.Error(err)
		}
		return
	}
	if err := a.cat.Close(); err != nil {
		a.t.Error(err)
	}
	if err := a.engine.Close(); err != nil {
		a.t.Error(err)
	}
}

// open starts a server over the catalog as it is, as after a restart.
func (a *account) open() {
	s, err := New(context.Background(), Options{
		Catalog: a.cat, Exec: a.exec, Member: a.member, Dispatcher: a.dispatcher, Log: slog.New(slog.DiscardHandler), Key: WellKnownKey, Region: "here", Consistency: "Session",
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.server = s
}

// do sends a signed request.
func (a *account) do(method, target, body string, headers map[string]string) *httptest.ResponseRecorder {
	return a.doFor(nil, method, target, body, headers)
}

// doFor is do for a client of the server.
func (a *account) doFor(c *command.Client, method, target, body string, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if c != nil {
		r = r.WithContext(command.WithClient(r.Context(), c))
	}
	for name, v := range headers {
		r.Header.Set(name, v)
	}
	date := r.Header.Get("x-ms-date")
	if date == "" {
		date = time.Now().UTC().Format(http.TimeFormat)
		r.Header.Set("x-ms-date", date)
	}
	if r.Header.Get("Authorization") == "" {
		r.Header.Set("Authorization", a.signature(method, r.URL.EscapedPath(), date))
	}
	if r.Header.Get("Authorization") == "none" {
		r.Header.Del("Authorization")
	}
	w := httptest.NewRecorder()
	a.server.Gateway().ServeHTTP(w, r)
	return w
}

// signature signs a request by the account's key.
func (a *account) signature(method, path, date string) string {
	p, err := parsePath(path)
	if err != nil {
		return ""
	}
	sig := base64.StdEncoding.EncodeToString(a.server.sign(method, p.resourceType, p.link, strings.ToLower(date)))
	return url.QueryEscape("type=master&ver=1.0&sig=" + sig)
}

// TestScripts runs testdata/scripts. A request is its method, with its path and
// headers in the input's first lines and its body in the others:
//
//	POST [pk=["a"]] [upsert] [query]
//	/dbs/d/colls/c/docs
//	{"id": "1"}
//
// late, large, deep, nested and giant are requests with hostileBodies.
// `wait seconds=n` lets time pass, `sweep` removes what is expired, `restart`
// opens the server anew, `stored` counts the items that are there, and `mongo`
// works on collections from MongoDB's side. `replicaset`, as the first case, makes
// the server a member of a set. The etags of the feed of all versions are numbered,
// and If-None-Match=#n sends one of them.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			a := newAccount(t)
			defer a.close()
			datadriven.RunTest(t, path, a.step)
		})
	})
}

func (a *account) step(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "replicaset":
		a.close()
		*a = *newMemberAccount(t)
		return ""
	case "wait":
		var n int
		d.ScanArgs(t, "seconds", &n)
		time.Sleep(time.Duration(n) * time.Second)
		return ""
	case "restart":
		a.open()
		if c, err := a.server.registry.container("d", "c"); err == nil {
			return fmt.Sprintf("next number %d\n", c.writes.Latest()+1)
		}
		return ""
	case "sweep", "stored":
		return a.inspect(d.Cmd)
	case "expire":
		// What Tend does in between.
		a.server.results.expire(time.Now())
		return fmt.Sprintf("%d bytes kept\n", a.server.results.size)
	case "byrid":
		return a.byRID()
	case "mongo":
		return a.mongo(d)
	case "fill":
		return a.fill(d)
	case "pages":
		return a.pages(d)
	case "index":
		return a.index()
	}
	return a.request(d)
}

// mongo makes a collection as MongoDB's side does, or drops it, or lists those of
// a database.
func (a *account) mongo(d *datadriven.TestData) string {
	var ns, drop string
	d.MaybeScanArgs(a.t, "create", &ns)
	d.MaybeScanArgs(a.t, "drop", &drop)
	cat := a.server.o.Catalog
	var err error
	switch {
	case ns != "":
		_, err = cat.Create(a.t.Context(), schema.ParseNamespace(ns), nil)
	case drop != "":
		_, err = cat.Drop(a.t.Context(), schema.ParseNamespace(drop))
	default:
		var names []string
		for _, c := range cat.Collections(d.CmdArgs[0].Key) {
			names = append(names, c.Namespace.Coll)
		}
		slices.Sort(names)
		return strings.Join(names, " ") + "\n"
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}

// fill creates items items in container d/c, in partitions by turns: n counts
// them, a is n modulo 100, and tags holds it.
func (a *account) fill(d *datadriven.TestData) string {
	var items, partitions int
	d.ScanArgs(a.t, "items", &items)
	d.ScanArgs(a.t, "partitions", &partitions)
	for i := range items {
		body := fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d,"a":%d,"tags":[%d,"t"],"o":{"b":"b%d"}}`, i, i%partitions, i, i%100, i%100, i%100)
		w := a.do("POST", "/dbs/d/colls/c/docs", body, map[string]string{"x-ms-documentdb-partitionkey": fmt.Sprintf(`["p%d"]`, i%partitions)})
		if w.Code != http.StatusCreated {
			return fmt.Sprintf("%d %s\n", w.Code, w.Body)
		}
	}
	return ""
}

// byRID asks for the container d/c, what it has, and things that there are not,
// by resource ids as the links have them.
func (a *account) byRID() string {
	c, err := a.server.registry.container("d", "c")
	if err != nil {
		return err.Error() + "\n"
	}
	db := strings.TrimSuffix(c.selfLink, "colls/"+c.rid+"/")
	out := ""
	for _, q := range []struct{ target, rid, sign string }{
		{db, "", encodeRID(c.ridBytes[:4])}, {c.selfLink, "", c.rid}, {c.selfLink + "pkranges", "", c.rid},
		{c.selfLink + "docs/", itemRID(c.ridBytes, 1), itemRID(c.ridBytes, 1)}, {c.selfLink + "docs/", itemRID(c.ridBytes, 999), itemRID(c.ridBytes, 999)},
		{c.selfLink + "docs/", "AAAA", "AAAA"}, {db + "colls/AAAAAAAAAAA=", "", "AAAAAAAAAAA="}, {c.selfLink, "", "another"},
	} {
		date := time.Now().UTC().Format(http.TimeFormat)
		p, err := parsePath("/" + q.target + q.rid)
		if err != nil {
			return err.Error() + "\n"
		}
		sig := base64.StdEncoding.EncodeToString(a.server.sign("GET", p.resourceType, strings.ToLower(q.sign), strings.ToLower(date)))
		w := a.do("GET", "/"+q.target+q.rid, "", map[string]string{
			"x-ms-date": date, "Authorization": url.QueryEscape("type=master&ver=1.0&sig=" + sig), "x-ms-documentdb-partitionkey": `["p0"]`,
		})
		out += fmt.Sprintf("%d %s\n", w.Code, visible(w.Body.String()))
	}
	return out
}

// pages runs a query page by page, and says for each whether its rows had been
// kept. Before the second page, an item is written, or time passes.
func (a *account) pages(d *datadriven.TestData) string {
	h := map[string]string{"Content-Type": "application/query+json", "x-ms-documentdb-partitionkeyrangeid": "0"}
	write, wait := 0, 0
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "size":
			h["x-ms-max-item-count"] = arg.Vals[0]
		case "upsert":
			arg.Scan(a.t, 0, &write)
		case "wait":
			arg.Scan(a.t, 0, &wait)
		}
	}
	body := string(nosql.AppendJSONDocument(nil, new(bson.Builder).String("query", d.Input).Finish()))
	out := ""
	for page := 0; ; page++ {
		if page == 1 && write > 0 {
			item := fmt.Sprintf(`{"id":"%d","pk":"p%d","n":%d,"v":"new"}`, write, write%2, write+2)
			a.must(http.StatusOK, "POST", "/dbs/d/colls/c/docs", item, map[string]string{
				"x-ms-documentdb-partitionkey": fmt.Sprintf(`["p%d"]`, write%2), "x-ms-documentdb-is-upsert": "true",
			})
		}
		if page == 1 {
			time.Sleep(time.Duration(wait) * time.Second)
		}
		before := a.server.results.hits
		w := a.do("POST", "/dbs/d/colls/c/docs", body, h)
		out += visible(w.Body.String())
		if a.server.results.hits > before {
			out += " kept"
		}
		out += "\n"
		if h["x-ms-continuation"] = w.Header().Get("x-ms-continuation"); h["x-ms-continuation"] == "" {
			return out
		}
	}
}

// index builds the indexes that queries have asked for, and lists those that
// there are for queries.
func (a *account) index() string {
	for {
		select {
		case w := <-a.server.wanted:
			if err := a.server.buildIndex(context.Background(), w); err != nil {
				return err.Error() + "\n"
			}
			continue
		default:
		}
		break
	}
	c, err := a.server.registry.container("d", "c")
	if err != nil {
		return err.Error() + "\n"
	}
	out := ""
	for _, ix := range pathIndexes(c.collection.Latest()) {
		out += ix.Name + "\n"
	}
	return out
}

// inspect works on the container d/c behind the endpoint's back.
func (a *account) inspect(cmd string) string {
	c, err := a.server.registry.container("d", "c")
	if err != nil {
		return err.Error() + "\n"
	}
	if cmd == "sweep" {
		for _, r := range c.collection.Latest().Rules() {
			if r.Settings.Paused {
				continue
			}
			d := &expire.BatchedDelete{Rule: r, Now: a.cat.Clock.ExpiryTime()}
			if _, err := d.Run(context.Background(), a.exec, c.collection.Latest()); err != nil {
				return err.Error() + "\n"
			}
		}
	}
	return fmt.Sprintf("%d items\n", c.collection.Count())
}

// hostileBodies make requests that scripts cannot hold.
var hostileBodies = map[string]string{
	"late":   `{"id":"2","pk":"a"}`,
	"large":  `{"id":"2","pk":"a","s":"` + strings.Repeat("x", maxBody) + `"}`,
	"deep":   `{"id":"2","pk":"a","o":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	"nested": "SELECT " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000),
	"giant":  "SELECT " + strings.Repeat("1 + ", 100_000) + "1",
}

func (a *account) request(d *datadriven.TestData) string {
	target, body, _ := strings.Cut(d.Input, "\n")
	method := d.Cmd
	if b, ok := hostileBodies[d.Cmd]; ok {
		method, body = http.MethodPost, b
	}
	h := map[string]string{}
	for _, arg := range d.CmdArgs {
		v := strings.Join(arg.Vals, ",")
		switch arg.Key {
		case "pk":
			h["x-ms-documentdb-partitionkey"] = v
		case "upsert":
			h["x-ms-documentdb-is-upsert"] = "true"
		case "query":
			h["Content-Type"], h["x-ms-documentdb-query-enablecrosspartition"] = "application/query+json", "true"
			q := new(bson.Builder).String("query", body).Finish()
			body = string(nosql.AppendJSONDocument(nil, q))
		case "changes":
			h["A-IM"] = "Incremental feed"
		case "versions":
			h["A-IM"] = "Full-Fidelity Feed"
		case "metrics":
			h["x-ms-documentdb-populatequerymetrics"] = "true"
		case "batch":
			h["x-ms-cosmos-is-batch-request"], h["x-ms-cosmos-batch-atomic"] = "true", "true"
		default:
			h[arg.Key] = v
		}
		if n, numbered := strings.CutPrefix(v, "#"); numbered {
			i, err := strconv.Atoi(n)
			if err != nil || i > len(a.etags) {
				a.t.Fatalf("there is no etag %s", n)
			}
			h[arg.Key] = a.etags[i-1]
		}
	}
	if d.Cmd == "late" {
		h["x-ms-date"] = time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)
	}
	w := a.do(method, target, body, h)
	out := fmt.Sprintf("%d", w.Code)
	if s := w.Header().Get("x-ms-substatus"); s != "" {
		out += "/" + s
	}
	out += "\n"
	if w.Body.Len() > 0 {
		out += visible(w.Body.String()) + "\n"
	}
	if m := w.Header().Get("x-ms-documentdb-query-metrics"); m != "" {
		_, m, _ = strings.Cut(m, "retrievedDocumentCount=")
		m, _, _ = strings.Cut(m, ";")
		out += "looked at " + m + "\n"
	}
	if m := w.Header().Get("x-ms-cosmos-index-utilization"); m != "" {
		if text, err := base64.StdEncoding.DecodeString(m); err == nil {
			out += string(text) + "\n"
		} else {
			out += m + "\n"
		}
	}
	if etag := w.Header().Get("Etag"); h["A-IM"] == "Full-Fidelity Feed" && etag != "" {
		a.etags = append(a.etags, etag)
		out += fmt.Sprintf("etag #%d\n", len(a.etags))
	} else if h["A-IM"] != "" {
		out += "etag " + w.Header().Get("Etag") + "\n"
	}
	if c := w.Header().Get("x-ms-continuation"); c != "" {
		out += "continuation " + c + "\n"
	}
	return out
}

// visible leaves out of a body what differs from run to run, and the server's
// fields.
func visible(body string) string {
	v, err := nosql.ParseJSON([]byte(body))
	if err != nil {
		return body
	}
	if v.Type == bson.TypeDocument && v.Doc().Has("message") {
		message, _, _ := strings.Cut(v.Doc().Lookup("message").Str(), "\r\n")
		return strings.TrimPrefix(message, "Message: ")
	}
	return string(nosql.AppendJSON(nil, strip(v)))
}

func strip(v bson.Value) bson.Value {
	switch v.Type {
	case bson.TypeArray:
		var vs []bson.Value
		for e := range v.Doc().Values() {
			vs = append(vs, strip(e))
		}
		return bson.Array(vs...)
	case bson.TypeDocument:
		var b bson.Builder
		for name, e := range v.Doc().All() {
			if !strings.HasPrefix(name, "_") && name != "eTag" && name != "requestCharge" {
				b.Value(name, strip(e))
			}
		}
		return bson.Document(b.Finish())
	}
	return v
}
