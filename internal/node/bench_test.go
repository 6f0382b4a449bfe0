package node

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/telemetry"
	"github.com/mayflydb/mayfly/internal/telemetry/telemetrytest"
)

// benchDocuments is how many documents the benchmarks' collection has.
const benchDocuments = 10000

// benchNode is a node with a collection of 300-byte documents {_id, k, n, pad}
// and an index on k.
func benchNode(b *testing.B) (*Node, *command.Client) {
	b.Helper()
	n, client := withData(b)
	benchRun(b, n, client, `{"createIndexes": "docs", "indexes": [{"key": {"k": 1}, "name": "k_1"}]}`)
	for at := 0; at < benchDocuments; at += 1000 {
		docs := make([]bson.Doc, 1000)
		for i := range docs {
			docs[i] = benchDocument(at + i)
		}
		benchInsert(b, n, client, docs)
	}
	if err := n.Catalog.Engine().Flush(); err != nil {
		b.Fatal(err)
	}
	return n, client
}

var benchPad = strings.Repeat("x", 245)

func benchDocument(id int) bson.Doc {
	return new(bson.Builder).Int64("_id", int64(id)).Int64("k", int64(id)).Int64("n", 0).String("pad", benchPad).Finish()
}

// benchSession is the lsid of the benchmarks.
var benchSession = new(bson.Builder).Binary("id", 4, make([]byte, 16)).Finish()

func benchRun(b *testing.B, n *Node, client *command.Client, body string) {
	b.Helper()
	d, err := bson.ParseJSON(body)
	if err != nil {
		b.Fatal(err)
	}
	benchDispatch(b, n, &command.Request{Client: client, Body: benchBody(d)})
}

// benchBody adds what a driver sends with each command.
func benchBody(d bson.Doc) bson.Doc {
	return new(bson.Builder).Fields(d).Doc("lsid", benchSession).String("$db", "bench").Finish()
}

func benchDispatch(b *testing.B, n *Node, req *command.Request) {
	r := n.Dispatcher.Dispatch(b.Context(), req)
	defer r.Release()
	if r.Body.Lookup("ok").Double() != 1 || r.Body.Has("writeErrors") {
		b.Fatal(r.Body)
	}
}

func benchInsert(b *testing.B, n *Node, client *command.Client, docs []bson.Doc) {
	body := benchBody(new(bson.Builder).String("insert", "docs").Bool("ordered", true).Finish())
	benchDispatch(b, n, &command.Request{Client: client, Body: body, Sequences: []command.Sequence{{ID: "documents", Docs: docs}}})
}

// benchCommand measures one command again and again; next makes its body.
func benchCommand(b *testing.B, next func(i int64) *command.Request) {
	n, client := benchNode(b)
	benchOn(b, n, client, next)
}

func benchOn(b *testing.B, n *Node, client *command.Client, next func(i int64) *command.Request) {
	all := make([]*command.Request, b.N)
	for i := range all {
		all[i] = next(int64(i))
		all[i].Client = client
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, req := range all {
		benchDispatch(b, n, req)
	}
}

func benchFind(filter func(b *bson.Builder, i int64), limit int64) func(i int64) *command.Request {
	return func(i int64) *command.Request {
		b := new(bson.Builder).String("find", "docs").OpenDoc("filter")
		filter(b, i*7919%(benchDocuments-100))
		b.Close()
		if limit > 0 {
			b.Int64("limit", limit).Bool("singleBatch", true)
		}
		return &command.Request{Body: benchBody(b.Finish())}
	}
}

func BenchmarkFindByID(b *testing.B) {
	benchCommand(b, benchFind(func(d *bson.Builder, i int64) { d.Int64("_id", i) }, 1))
}

// BenchmarkTracedFindByID is BenchmarkFindByID where one find of a hundred, or each, is traced and
// sent to a collector in this process, which takes processor time, too.
func BenchmarkTracedFindByID(b *testing.B) {
	for _, rate := range []float64{0.01, 1} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			n, client := benchNode(b)
			t, err := telemetry.Open(b.Context(), telemetry.Options{Endpoint: telemetrytest.New(b).URL, SampleRate: rate, Metrics: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			n.Dispatcher.Tracer = t
			benchOn(b, n, client, benchFind(func(d *bson.Builder, i int64) { d.Int64("_id", i) }, 1))
		})
	}
}

func BenchmarkFindByIndex(b *testing.B) {
	benchCommand(b, benchFind(func(d *bson.Builder, i int64) { d.Int64("k", i) }, 1))
}

func BenchmarkRange100(b *testing.B) {
	benchCommand(b, benchFind(func(d *bson.Builder, i int64) { d.OpenDoc("_id").Int64("$gte", i).Int64("$lt", i+100).Close() }, 0))
}

func BenchmarkRange100Index(b *testing.B) {
	benchCommand(b, benchFind(func(d *bson.Builder, i int64) { d.OpenDoc("k").Int64("$gte", i).Int64("$lt", i+100).Close() }, 0))
}

func BenchmarkInsertOne(b *testing.B) {
	body := benchBody(new(bson.Builder).String("insert", "docs").Bool("ordered", true).Finish())
	benchCommand(b, func(i int64) *command.Request {
		return &command.Request{Body: body, Sequences: []command.Sequence{{ID: "documents", Docs: []bson.Doc{benchDocument(benchDocuments + int(i))}}}}
	})
}

func BenchmarkUpdateOne(b *testing.B) {
	body := benchBody(new(bson.Builder).String("update", "docs").Bool("ordered", true).Finish())
	benchCommand(b, func(i int64) *command.Request {
		u := new(bson.Builder).OpenDoc("q").Int64("_id", i*7919%benchDocuments).Close().OpenDoc("u").OpenDoc("$inc").Int32("n", 1).Close().Close().Finish()
		return &command.Request{Body: body, Sequences: []command.Sequence{{ID: "updates", Docs: []bson.Doc{u}}}}
	})
}

func BenchmarkDeleteOne(b *testing.B) {
	body := benchBody(new(bson.Builder).String("delete", "docs").Bool("ordered", true).Finish())
	benchCommand(b, func(i int64) *command.Request {
		q := new(bson.Builder).OpenDoc("q").Int64("_id", i).Close().Int32("limit", 1).Finish()
		return &command.Request{Body: body, Sequences: []command.Sequence{{ID: "deletes", Docs: []bson.Doc{q}}}}
	})
}

func BenchmarkPing(b *testing.B) {
	benchCommand(b, func(int64) *command.Request {
		return &command.Request{Body: benchBody(new(bson.Builder).Int32("ping", 1).Finish())}
	})
}

// BenchmarkTouch gives documents of a collection with a TTL index a later date,
// with windows of expiry and without.
func BenchmarkTouch(b *testing.B) {
	for _, plain := range []bool{false, true} {
		b.Run(map[bool]string{false: "windows", true: "ordinary"}[plain], func(b *testing.B) { benchTouch(b, plain) })
	}
}

func benchTouch(b *testing.B, plain bool) {
	const n, hour = 10 * benchDocuments, 3_600_000
	node, client := withCache(b, 1<<30)
	node.Catalog.NoWindows.Store(plain)
	benchRun(b, node, client, `{"createIndexes": "docs", "indexes": [{"key": {"k": 1}, "name": "k_1"}, {"key": {"due": 1}, "name": "due_1", "expireAfterSeconds": 3600}]}`)
	for at := 0; at < n; at += 1000 {
		docs := make([]bson.Doc, 1000)
		for i := range docs {
			id := int64(at + i)
			docs[i] = new(bson.Builder).Int64("_id", id).Int64("k", id*7919%n).Date("due", 100*hour+id*hour/n).String("pad", benchPad[:100]).Finish()
		}
		benchInsert(b, node, client, docs)
	}
	if err := node.Catalog.Engine().Flush(); err != nil {
		b.Fatal(err)
	}
	body := benchBody(new(bson.Builder).String("update", "docs").Bool("ordered", true).Finish())
	all := make([]*command.Request, b.N)
	for i := range all {
		id := int64(i) * 7919 % n
		u := new(bson.Builder).OpenDoc("q").Int64("_id", id).Close().OpenDoc("u").OpenDoc("$set").Date("due", int64(200+i/n)*hour+id*hour/n).Close().Close().Finish()
		all[i] = &command.Request{Client: client, Body: body, Sequences: []command.Sequence{{ID: "updates", Docs: []bson.Doc{u}}}}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for _, req := range all {
		benchDispatch(b, node, req)
	}
}
