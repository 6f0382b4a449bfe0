package pipeline

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// accumulations has an accumulator of each kind that shards and a router can divide.
const accumulations = `{"sum": {"$sum": "$v"}, "avg": {"$avg": "$v"}, "min": {"$min": "$v"}, "max": {"$max": "$v"}, "n": {"$count": {}},
	"first": {"$first": "$v"}, "last": {"$last": "$v"}, "push": {"$push": "$v"}, "set": {"$addToSet": "$v"},
	"firstN": {"$firstN": {"n": 3, "input": "$v"}}, "lastN": {"$lastN": {"n": {"$add": ["$g", 2]}, "input": "$v"}},
	"minN": {"$minN": {"n": 2, "input": "$v"}}, "maxN": {"$maxN": {"n": 4, "input": "$v"}},
	"top": {"$top": {"sortBy": {"s": 1}, "output": "$v"}}, "bottom": {"$bottom": {"sortBy": {"s": -1}, "output": ["$s", "$v"]}},
	"topN": {"$topN": {"n": 3, "sortBy": {"s": 1}, "output": "$s"}}, "bottomN": {"$bottomN": {"n": 2, "sortBy": {"s": 1}, "output": "$_id"}},
	"merged": {"$mergeObjects": "$o"}, "joined": {"$concatArrays": "$a"}, "union": {"$setUnion": "$a"},
	"median": {"$median": {"input": "$v", "method": "approximate"}}, "parts": {"$percentile": {"input": "$v", "p": [0, 0.25, 0.9, 1], "method": "approximate"}}}`

// TestGroupStates holds that groups whose states were joined are those of all documents
// together, digit by digit, in whatever parts the documents lie.
func TestGroupStates(t *testing.T) {
	spec := bson.MustParse(accumulations)
	arg := bson.Document(new(bson.Builder).OpenDoc("_id").String("g", "$g").Close().Fields(spec).Finish())
	whole := mustStages(t, bson.Document(new(bson.Builder).Value("$group", arg).Finish()))
	shards, router, ok := SplitGroup("$group", arg)
	if !ok || len(router) != 1 {
		t.Fatal("the group is not divided")
	}
	onShard, joins := mustStages(t, shards), mustStages(t, router...)
	for seed := range uint64(200) {
		docs := someDocuments(rand.New(rand.NewPCG(seed, 1)))
		want := runStages(t, whole, docs)
		r := rand.New(rand.NewPCG(seed, 2))
		var states []bson.Doc
		for rest := docs; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			states = append(states, runStages(t, onShard, rest[:n])...)
			rest = rest[n:]
		}
		got := runStages(t, joins, states)
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			t.Fatalf("seed %d: joined\n%s\nwhole\n%s", seed, g, w)
		}
	}
}

// TestDeviationStates is the same for standard deviations, which are joined by another
// formula: up to rounding.
func TestDeviationStates(t *testing.T) {
	arg := bson.Document(bson.MustParse(`{"_id": null, "p": {"$stdDevPop": "$v"}, "s": {"$stdDevSamp": "$v"}}`))
	whole := mustStages(t, bson.Document(new(bson.Builder).Value("$group", arg).Finish()))
	shards, router, _ := SplitGroup("$group", arg)
	onShard, joins := mustStages(t, shards), mustStages(t, router...)
	var docs []bson.Doc
	for i := range 100 {
		docs = append(docs, new(bson.Builder).Int32("_id", int32(i)).Double("v", float64(i*i%37)+0.25).Finish())
	}
	var states []bson.Doc
	for _, at := range [][2]int{{0, 1}, {1, 1}, {1, 40}, {40, 100}} {
		states = append(states, runStages(t, onShard, docs[at[0]:at[1]])...)
	}
	got, want := runStages(t, joins, states)[0], runStages(t, whole, docs)[0]
	for _, name := range []string{"p", "s"} {
		g, w := got.Lookup(name).Double(), want.Lookup(name).Double()
		if math.Abs(g-w) > 1e-12*w {
			t.Errorf("%s is %v, want %v", name, g, w)
		}
	}
}

// TestManyPercentileStates is the same for percentiles of more numbers than are kept as they are:
// up to what their estimates are off.
func TestManyPercentileStates(t *testing.T) {
	arg := bson.Document(bson.MustParse(`{"_id": null, "p": {"$percentile": {"input": "$v", "p": [0, 0.01, 0.5, 0.99, 1], "method": "approximate"}}}`))
	shards, router, _ := SplitGroup("$group", arg)
	onShard, joins := mustStages(t, shards), mustStages(t, router...)
	const n = 120_000
	var docs []bson.Doc
	for i := range n { // a permutation of what is below n
		docs = append(docs, new(bson.Builder).Int32("v", int32(i*7919%n)).Finish())
	}
	for _, ends := range [][]int{{40_000, 80_000, n}, {10, 20_000, n}, {n - 10, n}, {10_000, 20_000, 50_000, n}} {
		var states []bson.Doc
		from := 0
		for _, to := range ends {
			states = append(states, runStages(t, onShard, docs[from:to])...)
			from = to
		}
		got := runStages(t, joins, states)[0].Lookup("p").Doc().Slice()
		for i, want := range []float64{0, 0.01 * n, 0.5 * n, 0.99 * n, n - 1} {
			off := 0.002 * n
			if i == 0 || i == 4 {
				off = 0
			}
			if math.Abs(got[i].Double()-want) > off {
				t.Errorf("%v: number %d of the percentiles is %v, want %v", ends, i, got[i], want)
			}
		}
	}
}

// TestJoinIsTheRouters holds that clients cannot have states of their own joined.
func TestJoinIsTheRouters(t *testing.T) {
	_, router, _ := SplitGroup("$sortByCount", bson.String("$a"))
	if _, err := Parse(router, &Options{Expr: &expr.Options{}}); err == nil || !strings.Contains(err.Error(), "Unrecognized pipeline stage name") {
		t.Error(err)
	}
	for _, text := range []string{`{"$_internalGroupStates": 1}`, `{"$_internalGroupStates": {"version": 2, "group": {"_id": null}}}`} {
		if _, err := Parse([]bson.Value{bson.Document(bson.MustParse(text))}, &Options{Expr: &expr.Options{}}); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	for _, text := range []string{`{"$group": {"_id": null, "a": {"$none": {}}}}`, `{"$group": {"_id": null, "a": 1}}`, `{"$group": 5}`, `{"$match": {}}`} {
		name, arg := bson.MustParse(text).First()
		if _, _, ok := SplitGroup(name, arg); ok {
			t.Errorf("%s is divided", text)
		}
	}
}

func mustStages(t *testing.T, list ...bson.Value) *Pipeline {
	t.Helper()
	p, err := Parse(list, &Options{Expr: &expr.Options{}, Joins: true})
	if err != nil {
		t.Fatal(err)
	}
	return p.Optimize()
}

func runStages(t *testing.T, p *Pipeline, docs []bson.Doc) (out []bson.Doc) {
	t.Helper()
	world := collections{"main": docs}
	it, err := world.Read(t.Context(), Namespace{"db", "main"}, p, &Run{Env: expr.NewEnv(1), World: world})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for {
		d, err := it.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if d == nil {
			return out
		}
		out = append(out, d.Clone())
	}
}

// someDocuments are documents of two groups, with values of all kinds.
func someDocuments(r *rand.Rand) (docs []bson.Doc) {
	for i := range 1 + r.IntN(60) {
		b := new(bson.Builder).Int32("_id", int32(i)).Int32("g", int32(r.IntN(2))).Int32("s", int32(r.IntN(10)))
		switch r.IntN(10) {
		case 0: // missing
		case 1:
			b.Null("v")
		case 2:
			b.String("v", fmt.Sprint(r.IntN(4)))
		case 3:
			b.Double("v", float64(r.IntN(1<<30))/1024) // all sums of them are exact
		case 4:
			b.Double("v", []float64{math.Inf(1), math.Inf(-1), math.NaN(), 0.5}[r.IntN(4)])
		case 5:
			b.Int64("v", math.MaxInt64-int64(r.IntN(3)))
		case 6:
			b.Value("v", bson.Decimal(bson.DecimalFromInt64(int64(r.IntN(100)))))
		default:
			b.Int32("v", int32(r.IntN(20)-10))
		}
		b.OpenDoc("o").Int32(string(rune('a'+r.IntN(3))), int32(i)).Close()
		b.OpenArray("a")
		for j := range r.IntN(3) {
			b.Int32(bson.Index(j), int32(r.IntN(6)))
		}
		docs = append(docs, b.Close().Finish())
	}
	return docs
}
