package node

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// benchSet is the primary of a set of one, without disk and sockets, with the documents of
// benchNode.
func benchSet(b *testing.B) *testMember {
	b.Helper()
	s := newSetWith(b, 64<<20, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	m := s.members["a"]
	for at := 0; at < benchDocuments; at += 1000 {
		docs := make([]bson.Doc, 1000)
		for i := range docs {
			docs[i] = benchDocument(at + i)
		}
		benchInsert(b, m.Node, m.client, docs)
	}
	return m
}

// BenchmarkAnswers is what a getMore of one of 100 change streams costs, with events of as many
// inserts.
func BenchmarkAnswers(b *testing.B) {
	for _, events := range []int{1, 20, 200} {
		b.Run(fmt.Sprint(events), func(b *testing.B) {
			m := benchSet(b)
			m.member.SetAnswers(1 << 40) // without a rest
			var more []bson.Doc
			for range 100 {
				body, _ := bson.ParseJSON(`{"aggregate":"docs","pipeline":[{"$changeStream":{}}],"cursor":{}}`)
				r := m.Dispatcher.Dispatch(b.Context(), &command.Request{Client: m.client, Body: benchBody(body)})
				id := r.Body.Lookup("cursor").Doc().Lookup("id").Int64()
				r.Release()
				body, _ = bson.ParseJSON(fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"docs"}`, id))
				more = append(more, benchBody(body))
			}
			next := benchDocuments
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i++ {
				if i%len(more) == 0 {
					b.StopTimer()
					docs := make([]bson.Doc, 0, events)
					for range events {
						docs = append(docs, benchDocument(next))
						next++
					}
					benchInsert(b, m.Node, m.client, docs)
					b.StartTimer()
				}
				benchDispatch(b, m.Node, &command.Request{Client: m.client, Body: more[i%len(more)]})
			}
		})
	}
}

// BenchmarkIdleTransaction is what a transaction takes that has read one document, and then
// waits: heap, and goroutines.
func BenchmarkIdleTransaction(b *testing.B) {
	m := benchSet(b)
	memory := func() (heap uint64, goroutines int) {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc, runtime.NumGoroutine()
	}
	id := make([]byte, 16)
	heap, goroutines := memory()
	b.ResetTimer()
	for i := range b.N {
		binary.BigEndian.PutUint64(id, uint64(i)+1)
		body := new(bson.Builder).String("find", "docs").OpenDoc("filter").Int64("_id", 1).Close().Bool("singleBatch", true).
			OpenDoc("lsid").Binary("id", 4, id).Close().Int64("txnNumber", 1).Bool("autocommit", false).Bool("startTransaction", true).String("$db", "bench").Finish()
		benchDispatch(b, m.Node, &command.Request{Client: m.client, Body: body})
	}
	b.StopTimer()
	if open := m.Dispatcher.Transactions.Counts().Open; open != int64(b.N) {
		b.Fatalf("%d are open", open)
	}
	after, now := memory()
	b.ReportMetric(float64(after-heap)/float64(b.N), "heap-B/open")
	b.ReportMetric(float64(now-goroutines)/float64(b.N), "goroutines/open")
	m.Catalog.EndTransactions(true)
}

// BenchmarkTransfer is a transaction of two updates on a set of one, of clients that do not meet.
func BenchmarkTransfer(b *testing.B) {
	m := benchSet(b)
	var clients atomic.Int64
	b.SetParallelism(4)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		n := clients.Add(1)
		client := &command.Client{ConnectionID: n + 1}
		m.Dispatcher.Clients.Connect(client)
		session := new(bson.Builder).Binary("id", 4, []byte{15: byte(n)}).Finish()
		for number := int64(1); p.Next(); number++ {
			in := func(start bool) *bson.Builder {
				b := new(bson.Builder).Doc("lsid", session).Int64("txnNumber", number).Bool("autocommit", false)
				if start {
					b.Bool("startTransaction", true)
				}
				return b
			}
			for i, by := range []int64{-1, 1} {
				id := (n*600 + (2*number+int64(i))%600) % benchDocuments
				u := new(bson.Builder).OpenDoc("q").Int64("_id", id).Close().OpenDoc("u").OpenDoc("$inc").Int64("n", by).Close().Close().Finish()
				body := new(bson.Builder).String("update", "docs").Bool("ordered", true).Fields(in(i == 0).Finish()).String("$db", "bench").Finish()
				benchDispatch(b, m.Node, &command.Request{Client: client, Body: body, Sequences: []command.Sequence{{ID: "updates", Docs: []bson.Doc{u}}}})
			}
			body := new(bson.Builder).Int32("commitTransaction", 1).Fields(in(false).Finish()).String("$db", "admin").Finish()
			benchDispatch(b, m.Node, &command.Request{Client: client, Body: body})
		}
	})
}
