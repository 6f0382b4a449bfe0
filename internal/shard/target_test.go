package shard

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// someValues are what documents and filters hold; many are equal, or hash alike.
var someValues = func() (out []bson.Value) {
	for _, text := range []string{`0`, `1`, `1.0`, `NumberLong(1)`, `2`, `2.5`, `NumberDecimal("2.5")`, `3.5`, `NumberDecimal("3.5")`, `-3.5`, `NumberDecimal("-3.5")`,
		`3`, `4`, `7`, `-4`, `NaN`, `Infinity`, `9223372036854775808.0`, `NumberDecimal("9223372036854775808")`, `NumberDecimal("1E+30")`,
		`"a"`, `"A"`, `"b"`, `""`, `null`, `true`, `false`, `{y: 1}`, `{y: 3.5}`, `{y: NumberDecimal("3.5")}`, `{y: null}`, `{}`, `{z: 1}`,
		`ObjectId("010203040506070809101112")`, `ISODate("2020-01-01")`, `MinKey`, `MaxKey`} {
		out = append(out, bson.MustParseValue(text))
	}
	return out
}()

func drawValue(t *rapid.T) bson.Value { return rapid.SampledFrom(someValues).Draw(t, "value") }

// drawDoc draws a document with some of the fields that keys name.
func drawDoc(t *rapid.T) bson.Doc {
	var b bson.Builder
	for _, name := range []string{"_id", "x", "a", "s"} {
		if rapid.IntRange(0, 4).Draw(t, "has") > 0 {
			b.Value(name, drawValue(t))
		}
	}
	return b.Finish()
}

// drawFilter draws a filter over these fields.
func drawFilter(t *rapid.T, depth int) bson.Doc {
	var b bson.Builder
	for _, path := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "a", "s", "x.y", "_id"}), 0, 3, rapid.ID[string]).Draw(t, "paths") {
		switch rapid.IntRange(0, 8).Draw(t, "operator") {
		case 0, 1, 2:
			b.Value(path, drawValue(t))
		case 3:
			b.OpenDoc(path).OpenArray("$in")
			for i := range rapid.IntRange(0, 4).Draw(t, "n") {
				b.Value(bson.Index(i), drawValue(t))
			}
			b.Close().Close()
		case 4:
			b.OpenDoc(path).Value("$gte", drawValue(t)).Value("$lt", drawValue(t)).Close()
		case 5:
			b.OpenDoc(path).Value("$gt", drawValue(t)).Value("$lte", drawValue(t)).Close()
		case 6:
			b.OpenDoc(path).Value(rapid.SampledFrom([]string{"$ne", "$lte", "$gt"}).Draw(t, "one"), drawValue(t)).Close()
		case 7:
			b.OpenDoc(path).Bool("$exists", rapid.Bool().Draw(t, "exists")).Close()
		case 8:
			b.Value(path, bson.Regex(rapid.SampledFrom([]string{"^a", "b", "^A"}).Draw(t, "pattern"), ""))
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "expr") == 0 {
		b.OpenDoc("$expr").OpenArray(rapid.SampledFrom([]string{"$eq", "$lt", "$gte"}).Draw(t, "compare")).String("0", "$x").
			OpenDoc("1").Value("$literal", drawValue(t)).Close().Close().Close()
	}
	if depth > 0 {
		for _, op := range []string{"$or", "$and", "$nor"} {
			if rapid.IntRange(0, 3).Draw(t, "branches") == 0 {
				b.OpenArray(op)
				for i := range rapid.IntRange(1, 3).Draw(t, "n") {
					b.Doc(bson.Index(i), drawFilter(t, depth-1))
				}
				b.Close()
			}
		}
	}
	return b.Finish()
}

// drawMap cuts the space of a key at where some documents begin.
func drawMap(t *rapid.T, k *Key) *Map {
	ends := []Bound{k.Max()}
	for range rapid.IntRange(0, 12).Draw(t, "chunks") {
		if b, err := k.BoundOf(drawDoc(t)); err == nil && b.Compare(k.Min()) > 0 && b.Compare(k.Max()) < 0 {
			ends = append(ends, b)
		}
	}
	slices.SortFunc(ends, Bound.Compare)
	ends = slices.CompactFunc(ends, func(a, b Bound) bool { return a.Compare(b) == 0 })
	var chunks []Chunk
	at := k.Min()
	for i, end := range ends {
		c := Chunk{Range: Range{Min: at, Max: end}, Shard: fmt.Sprintf("s%d", rapid.IntRange(0, 5).Draw(t, "shard")), Version: testGeneration.At(1<<32 + uint64(i))}
		binary.BigEndian.PutUint32(c.ID[:], uint32(i))
		chunks = append(chunks, c)
		at = end
	}
	m, err := NewMap("d.c", k, testGeneration, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTargetNeverMisses is the dumb twin: a document that a filter matches is on
// one of the shards that the filter is sent to (invariant superset), and where
// the filter names the whole key it is sent to one.
func TestTargetNeverMisses(t *testing.T) {
	keys := []*Key{
		mustKey(`{x: 1}`), mustKey(`{x: "hashed"}`), mustKey(`{a: 1, x: "hashed"}`), mustKey(`{x: "hashed", a: 1}`), mustKey(`{x: 1, a: 1, s: 1}`),
		mustKey(`{"x.y": 1}`), mustKey(`{"x.y": "hashed"}`), mustKey(`{_id: "hashed"}`), mustKey(`{a: 1, s: "hashed", x: 1}`),
	}
	english, err := schema.ParseCollation(bson.MustParse(`{locale: "en", strength: 2}`))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.SampledFrom(keys).Draw(t, "key")
		m := drawMap(t, k)
		q := &plan.Query{}
		if rapid.IntRange(0, 3).Draw(t, "collated") == 0 {
			q.Collation, q.Collator = english.Spec, english.Collator
		}
		for range 6 {
			filter := drawFilter(t, 2)
			f, err := match.Parse(filter, &match.Options{Collator: q.Collator})
			if err != nil {
				t.Fatal(err)
			}
			q.Filter = f
			targets := m.Target(q)
			if len(targets.Shards) == 0 || targets.Reason == ByKey && len(targets.Shards) != 1 {
				t.Fatalf("%v: %v", filter, targets)
			}
			for range 12 {
				doc := drawDoc(t)
				at, err := k.Append(nil, doc)
				if err != nil {
					continue
				}
				if ok, err := f.Match(doc); err == nil && ok && !slices.Contains(targets.Shards, m.ShardOf(at)) {
					t.Fatalf("key %v: %v on %s matches %v (collation %v), which goes to %v by %v", k, doc, m.ShardOf(at), filter, q.Collation, targets.Shards, targets.Reason)
				}
			}
		}
	})
}

// TestPublishedDistribution: userId 0 to 19,999 over two shards, as a cluster of
// MongoDB spreads them.
func TestPublishedDistribution(t *testing.T) {
	k := mustKey(`{userId: "hashed"}`)
	r := Initial{Key: k, Empty: true, Primary: "s0", Shards: []string{"s0", "s1"}, Generation: testGeneration, NewID: bson.NewObjectID}
	chunks, err := r.Chunks()
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMap("d.c", k, testGeneration, chunks)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for i := range 20_000 {
		shard, err := m.TargetInsert(new(bson.Builder).Int("userId", int64(i)).Finish())
		if err != nil {
			t.Fatal(err)
		}
		counts[shard]++
	}
	if counts["s0"] != 10_140 || counts["s1"] != 9_860 {
		t.Errorf("%v", counts)
	}
}

// TestOwnersAgree: exactly one shard owns each document, and it is the one that
// the document is sent to.
func TestOwnersAgree(t *testing.T) {
	k := mustKey(`{a: 1, x: "hashed"}`)
	rapid.Check(t, func(t *rapid.T) {
		m := drawMap(t, k)
		owners := map[string]*Owner{}
		for _, s := range append(slices.Clone(m.Owners()), "nobody") {
			owners[s] = m.Owner(s)
		}
		for range 20 {
			doc := drawDoc(t)
			to, err := m.TargetInsert(doc)
			for s, o := range owners {
				if owns, ownErr := o.Owns(doc); (err == nil) != (ownErr == nil) || owns != (err == nil && s == to) {
					t.Fatalf("%v goes to %s; %s owns it: %v", doc, to, s, owns)
				}
			}
		}
	})
}

// TestTargetLimits: filters beyond the bounds of work go to all shards.
func TestTargetLimits(t *testing.T) {
	k := mustKey(`{a: 1, x: 1}`)
	var chunks []Chunk
	at := k.Min()
	for i, end := range []Bound{intsBound(k, 0), intsBound(k, 1_000_000), k.Max()} { // all values below are in the second
		chunks = append(chunks, Chunk{Range: Range{Min: at, Max: end}, Shard: fmt.Sprintf("s%d", i), Version: testGeneration.At(1<<32 + uint64(i))})
		at = end
	}
	m, err := NewMap("d.c", k, testGeneration, chunks)
	if err != nil {
		t.Fatal(err)
	}
	in := func(n int) bson.Doc {
		var b bson.Builder
		for _, path := range []string{"a", "x"} {
			b.OpenDoc(path).OpenArray("$in")
			for i := range n {
				b.Int32(bson.Index(i), int32(i+1))
			}
			b.Close().Close()
		}
		return b.Finish()
	}
	if got := m.Target(mustQuery(in(300), bson.Value{})); len(got.Shards) != 1 {
		t.Errorf("90,000 points: %v", got)
	}
	if got := m.Target(mustQuery(in(400), bson.Value{})); got.Reason != TooMany || len(got.Shards) != 3 {
		t.Errorf("160,000 points: %v", got)
	}
	var b bson.Builder
	b.OpenArray("$and")
	for i := range 12 { // 4^12 ways
		b.OpenDoc(bson.Index(i)).OpenArray("$or")
		for j := range 4 {
			b.OpenDoc(bson.Index(j)).OpenDoc("z"+bson.Index(i)).Int32("$gt", int32(j)).Close().Int32("w"+bson.Index(j), 1).Close()
		}
		b.Close().Close()
	}
	if got := m.Target(mustQuery(b.Finish(), bson.Value{})); len(got.Shards) != 3 {
		t.Errorf("branches: %v", got)
	}
}

func intsBound(k *Key, i int32) Bound {
	b, _ := k.ParseBound(new(bson.Builder).Int32("a", i).Int32("x", 0).Finish())
	return b
}

// TestTargetEachValue compares every comparison of every two values with every
// document, on a map in which each value that differs has a chunk and a shard of
// its own.
func TestTargetEachValue(t *testing.T) {
	var docs []bson.Doc
	for _, v := range someValues {
		docs = append(docs, new(bson.Builder).Value("x", v).Finish())
	}
	docs = append(docs, bson.Empty)
	var filters []bson.Doc
	for _, v := range someValues {
		filters = append(filters, new(bson.Builder).Value("x", v).Finish())
		for _, w := range someValues {
			for _, ops := range [][2]string{{"$gte", "$lte"}, {"$gt", "$lt"}, {"$gte", "$lt"}, {"$gt", "$lte"}} {
				filters = append(filters, new(bson.Builder).OpenDoc("x").Value(ops[0], v).Value(ops[1], w).Close().Finish())
			}
		}
	}
	for _, pattern := range []string{`{x: 1}`, `{x: "hashed"}`, `{"x.y": 1}`, `{"x.y": "hashed"}`} {
		k := mustKey(pattern)
		m := chunkForEach(t, k, docs)
		single := 0
		for _, filter := range filters {
			q := mustQuery(filter, bson.Value{})
			targets := m.Target(q)
			if len(targets.Shards) == 1 {
				single++
			}
			for _, doc := range docs {
				ok, err := q.Filter.Match(doc)
				if err != nil {
					t.Fatal(err)
				}
				at, _ := k.Append(nil, doc)
				if ok && !slices.Contains(targets.Shards, m.ShardOf(at)) {
					t.Errorf("key %v: %v matches %v, which goes to %d shards by %v", k, doc, filter, len(targets.Shards), targets.Reason)
				}
			}
		}
		if k.Has("x") && single < len(someValues)/2 {
			t.Errorf("key %v: only %d of %d filters go to one shard", k, single, len(filters))
		}
	}
}

// chunkForEach cuts the space at each document.
func chunkForEach(t *testing.T, k *Key, docs []bson.Doc) *Map {
	ends := []Bound{k.Max()}
	for _, doc := range docs {
		if b, err := k.BoundOf(doc); err == nil && b.Compare(k.Min()) > 0 && b.Compare(k.Max()) < 0 {
			ends = append(ends, b)
		}
	}
	slices.SortFunc(ends, Bound.Compare)
	ends = slices.CompactFunc(ends, func(a, b Bound) bool { return a.Compare(b) == 0 })
	var chunks []Chunk
	at := k.Min()
	for i, end := range ends {
		chunks = append(chunks, Chunk{Range: Range{Min: at, Max: end}, Shard: fmt.Sprintf("s%02d", i), Version: testGeneration.At(1<<32 + uint64(i))})
		at = end
	}
	m, err := NewMap("d.c", k, testGeneration, chunks)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
