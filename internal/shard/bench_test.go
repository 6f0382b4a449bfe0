package shard

import (
	"runtime"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

const benchChunks = 1_000_000

// hashedMillion is a map of a million chunks of a hashed key over a hundred
// shards.
func hashedMillion(b *testing.B) (*Map, []Chunk) {
	b.Helper()
	k := mustKey(`{x: "hashed"}`)
	chunks := make([]Chunk, 0, benchChunks)
	at := k.Min()
	for i, end := range append(k.HashPoints(nil, benchChunks), k.Max()) {
		shard := "shard" + bson.Index(i%100)
		chunks = append(chunks, Chunk{ID: bson.NewObjectID(), Range: Range{Min: at, Max: end}, Shard: shard, Version: testGeneration.At(1<<32 + uint64(i)), History: []Placement{{1, shard}}})
		at = end
	}
	m, err := NewMap("d.c", k, testGeneration, chunks)
	if err != nil {
		b.Fatal(err)
	}
	return m, chunks
}

func BenchmarkBuild(b *testing.B) {
	m, chunks := hashedMillion(b)
	key := m.key
	var before, after runtime.MemStats
	for b.Loop() {
		m = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		m, _ = NewMap("d.c", key, testGeneration, chunks)
		runtime.GC()
		runtime.ReadMemStats(&after)
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB")
	runtime.KeepAlive(m)
}

func BenchmarkRefresh(b *testing.B) {
	m, _ := hashedMillion(b)
	at := 0
	for b.Loop() {
		at = (at + 1_000_003) % (1 << 30)
		key, _ := m.key.Append(nil, new(bson.Builder).Int("x", int64(at)).Finish())
		c := m.Find(key)
		to := "shard0"
		if c.Shard == to {
			to = "shard1"
		}
		change, err := m.Move(c.Range, to, 9, 5, bson.NewObjectID)
		if err == nil {
			m, err = m.With(change.Put)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchTarget(b *testing.B, text string) {
	m, _ := hashedMillion(b)
	f, err := match.Parse(bson.MustParse(text), nil)
	if err != nil {
		b.Fatal(err)
	}
	q := &plan.Query{Filter: f}
	b.ReportAllocs()
	for b.Loop() {
		m.Target(q)
	}
}

func BenchmarkTargetEquality(b *testing.B) { benchTarget(b, `{x: 12345, y: {$gt: 5}}`) }
func BenchmarkTargetIn(b *testing.B)       { benchTarget(b, `{x: {$in: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}`) }
func BenchmarkTargetNone(b *testing.B)     { benchTarget(b, `{y: 5}`) }

func BenchmarkTargetInsert(b *testing.B) {
	m, _ := hashedMillion(b)
	docs := make([]bson.Doc, 1000)
	for i := range docs {
		docs[i] = new(bson.Builder).ObjectID("_id", bson.NewObjectID()).Int("x", int64(i)).Finish()
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := m.TargetInsert(docs[i%len(docs)]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkTargetRange: a range over half of a million ranged chunks, which two
// shards of a hundred do not own.
func BenchmarkTargetRange(b *testing.B) {
	k := mustKey(`{x: 1}`)
	m, err := NewMap("d.c", k, testGeneration, evenChunks(k, benchChunks, 98))
	if err != nil {
		b.Fatal(err)
	}
	f, err := match.Parse(bson.MustParse(`{x: {$gte: 100, $lt: 5000000}}`), nil)
	if err != nil {
		b.Fatal(err)
	}
	m, err = m.With([]Chunk{{Range: Range{Min: intBound(k, 9_000_000), Max: intBound(k, 9_000_010)}, Shard: "other", Version: m.next(1)}})
	if err != nil {
		b.Fatal(err)
	}
	q := &plan.Query{Filter: f}
	b.ReportAllocs()
	for b.Loop() {
		m.Target(q)
	}
}
