package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/extsort"
)

// shardStates runs the shards' part over the documents of a shard, which passes groups on once they
// take so many bytes, and has so much memory. All documents are read before the first group comes:
// who runs a pipeline counts on that.
func shardStates(t testing.TB, p *Pipeline, docs []bson.Doc, passed, memory int) (out []bson.Doc) {
	t.Helper()
	in := &List{Docs: docs}
	it, err := p.Open(in, &Run{Env: expr.NewEnv(1), SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	g := it.(*grouping)
	g.passed, g.memory = passed, memory
	for {
		d, err := it.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rest, err := in.Next(t.Context()); rest != nil || err != nil {
			t.Fatal("a group is delivered before all documents are read")
		}
		if d == nil {
			if g.apart.bytes != 0 || g.held() < 0 {
				t.Errorf("%d bytes are left", g.apart.bytes)
			}
			return out
		}
		out = append(out, d.Clone())
	}
}

// TestStatesPassedOn holds that groups are those of all documents together, digit by digit, where
// shards pass their states on before they have all of them: whatever the accumulator, and however
// often that happens.
func TestStatesPassedOn(t *testing.T) {
	arg := bson.Document(new(bson.Builder).OpenDoc("_id").String("g", "$g").String("k", "$k").Close().Fields(bson.MustParse(accumulations)).Finish())
	whole := mustStages(t, bson.Document(new(bson.Builder).Value("$group", arg).Finish()))
	shards, router, _ := SplitGroup("$group", arg)
	onShard, joins := mustStages(t, shards), mustStages(t, router...)
	several := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		var docs []bson.Doc
		for range 1 + r.IntN(4) {
			for _, d := range someDocuments(r) {
				docs = append(docs, new(bson.Builder).Fields(d).Int32("k", int32(r.IntN(200))).Finish())
			}
		}
		want := runStages(t, whole, docs)
		var states []bson.Doc
		for rest := docs; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			memory := extsort.MaxMemory
			if seed%2 == 0 {
				memory = 1 << 20
			}
			states = append(states, shardStates(t, onShard, rest[:n], 1+r.IntN(1<<16), memory)...)
			rest = rest[n:]
		}
		if len(states) > len(want) {
			several++
		}
		got := runStages(t, joins, states)
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Fatalf("seed %d: joined\n%s\nwhole\n%s", seed, g, w)
		}
	}
	if several == 0 {
		t.Error("no group was passed on twice")
	}
}

// TestPassedOnWhereKeysAreNew holds that a shard passes documents on as long as nearly all keys are
// new, and has each group once from when they repeat, so that not much more is sent than before.
func TestPassedOnWhereKeysAreNew(t *testing.T) {
	arg := bson.Document(bson.MustParse(`{"_id": "$k", "n": {"$sum": 1}}`))
	shards, _, _ := SplitGroup("$group", arg)
	onShard := mustStages(t, shards)
	const n = 60_000
	for _, c := range []struct{ keys, least, most int }{
		{n, n, n},                    // all new
		{2 * n, n * 3 / 4, n},        // a quarter comes again
		{n / 10, n / 10, n/10*2 - 1}, // each comes ten times
		{100, 100, 100},              // they never take so much
	} {
		r := rand.New(rand.NewPCG(1, uint64(c.keys)))
		docs := make([]bson.Doc, n)
		for i := range docs {
			k := i
			if c.keys != n {
				k = r.IntN(c.keys)
			}
			docs[i] = new(bson.Builder).Int32("k", int32(k)).Finish()
		}
		if got := len(shardStates(t, onShard, docs, passedGroups, extsort.MaxMemory)); got < c.least || got > c.most {
			t.Errorf("%d keys: %d groups are sent, want %d to %d", c.keys, got, c.least, c.most)
		}
	}
}

// BenchmarkManyGroups is a $group of which each group has two documents, which lie on three shards:
// on one server for each, the shards' part, and the router's.
func BenchmarkManyGroups(b *testing.B) {
	const orders = 300_000
	arg := bson.Document(bson.MustParse(`{"_id": "$user", "total": {"$sum": "$amount"}, "orders": {"$sum": 1}}`))
	parse := func(list ...bson.Value) *Pipeline {
		p, err := Parse(list, &Options{Expr: &expr.Options{}, Joins: true})
		if err != nil {
			b.Fatal(err)
		}
		return p.Optimize()
	}
	r := rand.New(rand.NewPCG(1, 1))
	var docs [3][]bson.Doc
	for i := range orders {
		at := i % len(docs)
		docs[at] = append(docs[at], new(bson.Builder).Int32("_id", int32(i)).String("user", fmt.Sprintf("user-%019d", r.IntN(orders/2))).Int32("amount", int32(i%1000)).Finish())
	}
	shards, router, _ := SplitGroup("$group", arg)
	onShard, joins := parse(shards), parse(router...)
	var states []bson.Doc
	for _, d := range docs {
		states = append(states, shardStates(b, onShard, d, passedGroups, extsort.MaxMemory)...)
	}
	drain := func(p *Pipeline, docs []bson.Doc) {
		it, err := p.Open(&List{Docs: docs}, &Run{Env: expr.NewEnv(1), SpillDir: b.TempDir()})
		for err == nil {
			var d bson.Doc
			if d, err = it.Next(b.Context()); d == nil {
				break
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		it.Close()
	}
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"servers", func() {
			for _, d := range docs {
				drain(parse(bson.Document(new(bson.Builder).Value("$group", arg).Finish())), d)
			}
		}},
		{"shards", func() {
			for _, d := range docs {
				drain(onShard, d)
			}
		}},
		{"router", func() { drain(joins, states) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*orders), "ns/order")
		})
	}
}
