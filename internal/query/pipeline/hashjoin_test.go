package pipeline

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// all reads an iterator to its end.
func all(it Iterator) (texts []string, err error) {
	defer it.Close()
	for {
		d, err := it.Next(context.Background())
		if err != nil || d == nil {
			return texts, err
		}
		texts = append(texts, string(d.AppendJSON(nil, bson.CanonicalJSON)))
	}
}

// TestHashJoin compares $lookup by a query for each document with $lookup in
// memory.
func TestHashJoin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(name string) (docs []bson.Doc) {
			for i := range rapid.IntRange(0, 30).Draw(rt, name) {
				text := fmt.Sprintf(`{"_id": %d, "v": {"w": %s}}`, i, drawValue(rt, 2))
				if rapid.IntRange(0, 3).Draw(rt, "simple") > 0 {
					text = fmt.Sprintf(`{"_id": %d, "v": [{"w": %d}, {"w": [1, {"$numberDouble": "2.0"}, 1]}]}`, i, rapid.IntRange(0, 4).Draw(rt, "w"))
				}
				docs = append(docs, bson.MustParse(text))
			}
			return docs
		}
		main, world := draw("main"), collections{"other": draw("other")}
		unwind := rapid.SampledFrom([]string{"", `, {"$unwind": "$found"}`}).Draw(rt, "unwind")
		p, err := parsed(`[{"$lookup": {"from": "other", "localField": "v.w", "foreignField": "v.w", "as": "found"}}` + unwind + `]`)
		if err != nil {
			rt.Fatal(err)
		}
		l := p.Optimize().Stages[0]
		run := func(opened int) []string {
			it, err := l.Open(&List{Docs: slices.Clone(main)}, &Run{Env: expr.NewEnv(1), World: world})
			if err != nil {
				rt.Fatal(err)
			}
			it.(*joining).opened = opened
			found, err := all(it)
			if err != nil {
				rt.Fatal(err)
			}
			return found
		}
		if want, got := run(0), run(hashAfter); !slices.Equal(want, got) {
			rt.Fatalf("in memory:\n%q\none by one:\n%q", got, want)
		}
	})
}

// TestGroupSpills groups with and without memory, and by parts, with every
// accumulator.
func TestGroupSpills(t *testing.T) {
	var docs []bson.Doc
	for i := range int64(3000) {
		b := new(bson.Builder).Int64("_id", i).Int64("k", i*i%701).Int64("n", i*7919%1000).String("unused", "x")
		docs = append(docs, b.Strings("a", fmt.Sprint(i%5), fmt.Sprint(i%3)).OpenDoc("o").Int64(fmt.Sprint("f", i%4), i).Close().Finish())
	}
	fields := []string{`"max": {"$max": "$n"}, "all": {"$push": "$n"}`}
	for _, name := range []string{"$sum", "$avg", "$min", "$first", "$last", "$stdDevPop", "$stdDevSamp", "$push", "$addToSet"} {
		fields = append(fields, fmt.Sprintf(`"x": {"%s": "$n"}`, name))
	}
	for _, name := range []string{"$firstN", "$lastN", "$minN", "$maxN"} {
		fields = append(fields, fmt.Sprintf(`"x": {"%s": {"n": 2, "input": "$n"}}`, name))
	}
	for _, name := range []string{"$top", "$bottom"} {
		fields = append(fields, fmt.Sprintf(`"x": {"%s": {"sortBy": {"n": 1}, "output": "$_id"}}`, name),
			fmt.Sprintf(`"x": {"%sN": {"n": 2, "sortBy": {"n": 1}, "output": "$_id"}}`, name))
	}
	fields = append(fields, `"x": {"$concatArrays": "$a"}`, `"x": {"$setUnion": "$a"}`, `"x": {"$mergeObjects": "$o"}`, `"x": {"$count": {}}`,
		`"x": {"$sum": {"$toDecimal": "$n"}}`, `"x": {"$median": {"input": "$n", "method": "approximate"}}`,
		`"x": {"$percentile": {"input": "$n", "p": [0.2, 0.9], "method": "approximate"}}`)
	dir := t.TempDir()
	for _, fields := range fields {
		p, err := parsed(`[{"$group": {"_id": "$k", ` + fields + `}}]`)
		if err != nil {
			t.Fatal(err)
		}
		run := func(memory, cached int) ([]string, *grouping) {
			it, err := p.Optimize().Open(&List{Docs: slices.Clone(docs)}, &Run{Env: expr.NewEnv(1), SpillDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			g := it.(*grouping)
			g.memory, g.cached = memory, cached
			found, err := all(it)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(found)
			return found, g
		}
		want, _ := run(100<<20, 16<<20)
		// Memory ends after a hundred groups or so, in each part again.
		got, g := run(100*300, 100*300)
		if !slices.Equal(want, got) || g.space == nil || g.space.stats.Spills == 0 {
			t.Errorf("%s: %d groups, want %d", fields, len(got), len(want))
		}
		got, g = run(100<<20, 100*300)
		if !slices.Equal(want, got) || g.space == nil || g.space.stats.Spills != 0 {
			t.Errorf("%s in parts: %d groups, want %d", fields, len(got), len(want))
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
}

// TestGroupMeta holds that documents whose metadata is read are not set aside
// without it.
func TestGroupMeta(t *testing.T) {
	for _, id := range []string{`"$_id"`, `{"$meta": "recordId"}`} {
		p, err := parsed(`[{"$group": {"_id": ` + id + `}}]`)
		if err != nil {
			t.Fatal(err)
		}
		it, err := p.Open(&List{}, &Run{Env: expr.NewEnv(1), SpillDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		if g := it.(*grouping); (g.dir == "") != strings.Contains(id, "$meta") {
			t.Errorf("%s: %q", id, g.dir)
		}
	}
}

// TestGroupMemory holds that a group that spills again and again has its memory
// once, not once for each time.
func TestGroupMemory(t *testing.T) {
	p, err := parsed(`[{"$group": {"_id": "$k", "all": {"$push": "$s"}}}]`)
	if err != nil {
		t.Fatal(err)
	}
	const memory, groups, documents = 64 << 10, 5000, 40000
	s := strings.Repeat("x", 20)
	var docs []bson.Doc
	for i := range int64(documents) {
		docs = append(docs, new(bson.Builder).Int64("k", i*i%99991%groups).String("s", s).Finish())
	}
	it, err := p.Optimize().Open(&List{Docs: docs}, &Run{Env: expr.NewEnv(1), SpillDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	g := it.(*grouping)
	g.memory = memory
	found, err := all(it)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 || g.most > memory+memory/4 {
		t.Errorf("%d groups held %d bytes of %d; %d spills of %d bytes", len(found), g.most, memory, g.space.stats.Spills, g.space.stats.SpilledBytes)
	}
}

// TestGroupBooksValues holds that values count for as much memory as they take.
func TestGroupBooksValues(t *testing.T) {
	var docs []bson.Doc
	for i := range int64(20) {
		docs = append(docs, new(bson.Builder).Int64("_id", i).String("s", strings.Repeat("x", 4<<10)).Finish())
	}
	for _, name := range []string{"$first", "$last", "$min", "$max"} {
		p, err := parsed(`[{"$group": {"_id": "$_id", "s": {"` + name + `": "$s"}}}]`)
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{t.TempDir(), ""} {
			it, err := p.Optimize().Open(&List{Docs: slices.Clone(docs)}, &Run{Env: expr.NewEnv(1), SpillDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			g := it.(*grouping)
			g.memory = 40 << 10
			found, err := all(it)
			switch {
			case dir == "" && !mongoerr.Is(err, mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed):
				t.Errorf("%s without a disk: %v", name, err)
			case dir != "" && (err != nil || len(found) != len(docs) || g.spilled().Spills == 0):
				t.Errorf("%s: %d groups, %d spills, %v", name, len(found), g.spilled().Spills, err)
			}
		}
	}
}
