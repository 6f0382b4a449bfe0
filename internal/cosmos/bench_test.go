package cosmos

import (
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// benchClient is whose requests they are.
var benchClient = &command.Client{ConnectionID: 1, Protocol: Protocol}

// nowhere is a ResponseWriter that keeps only the status.
type nowhere struct {
	header http.Header
	status int
}

func (w *nowhere) Header() http.Header         { return w.header }
func (w *nowhere) WriteHeader(status int)      { w.status = status }
func (w *nowhere) Write(b []byte) (int, error) { return len(b), nil }

// benchItems is how many items a benchmark's container has, 20 a partition.
const benchItems = 2000

func benchServer(b *testing.B) *Server {
	engine, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 64 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	cat, err := catalog.Open(engine, catalog.Options{Committer: repl.Local{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cat.Close()
		_ = engine.Close()
	})
	s, err := New(b.Context(), Options{Catalog: cat, Exec: &exec.Executor{Catalog: cat}, Dispatcher: command.NewDispatcher(slog.New(slog.DiscardHandler)), Log: slog.New(slog.DiscardHandler), Key: WellKnownKey, Consistency: "Session"})
	if err != nil {
		b.Fatal(err)
	}
	benchDo(b, s, "POST", "/dbs", `{"id":"d"}`, nil)
	benchDo(b, s, "POST", "/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":3600}`, nil)
	for i := range benchItems {
		benchDo(b, s, "POST", "/dbs/d/colls/c/docs", benchItem(i), benchKey(i))
	}
	return s
}

func benchItem(i int) string {
	return fmt.Sprintf(`{"id":"item%d","pk":"p%d","n":%d,"name":"a name of some length","tags":["a","b","c"],"address":{"street":"Long street 17","zip":12345},"text":"%s"}`,
		i, i/20, i, strings.Repeat("x", 200))
}

func benchKey(i int) http.Header {
	return http.Header{"X-Ms-Documentdb-Partitionkey": {fmt.Sprintf(`["p%d"]`, i/20)}}
}

// benchDo sends one request past the network.
func benchDo(b *testing.B, s *Server, method, target, body string, h http.Header) {
	u := &url.URL{Path: target}
	p, err := parsePath(target)
	if err != nil {
		b.Fatal(err)
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	header := http.Header{
		"X-Ms-Date":     {date},
		"Authorization": {url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(s.sign(method, p.resourceType, p.link, strings.ToLower(date))))},
	}
	for name, v := range h {
		header[name] = v
	}
	r := &http.Request{Method: method, URL: u, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
	w := &nowhere{header: http.Header{}}
	s.serve(w, r.WithContext(command.WithClient(b.Context(), benchClient)), false)
	if w.status >= 300 {
		b.Fatalf("%s %s: %d", method, target, w.status)
	}
}

func BenchmarkRead(b *testing.B) {
	s := benchServer(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % benchItems {
		benchDo(b, s, "GET", fmt.Sprintf("/dbs/d/colls/c/docs/item%d", i), "", benchKey(i))
	}
}

func BenchmarkCreate(b *testing.B) {
	s := benchServer(b)
	b.ReportAllocs()
	for i := benchItems; b.Loop(); i++ {
		benchDo(b, s, "POST", "/dbs/d/colls/c/docs", benchItem(i), benchKey(i))
	}
}

func BenchmarkUpsert(b *testing.B) {
	s := benchServer(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % benchItems {
		h := benchKey(i)
		h["X-Ms-Documentdb-Is-Upsert"] = []string{"true"}
		benchDo(b, s, "POST", "/dbs/d/colls/c/docs", benchItem(i), h)
	}
}

func BenchmarkPartitionQuery(b *testing.B) {
	s := benchServer(b)
	q := new(bson.Builder).String("query", "SELECT * FROM c WHERE c.n >= @n").OpenArray("parameters").OpenDoc("0").String("name", "@n").Int32("value", 0).Finish()
	body := string(nosql.AppendJSONDocument(nil, q))
	b.ReportAllocs()
	for i := 0; b.Loop(); i = (i + 1) % benchItems {
		h := benchKey(i)
		h["Content-Type"] = []string{"application/query+json"}
		benchDo(b, s, "POST", "/dbs/d/colls/c/docs", body, h)
	}
}
