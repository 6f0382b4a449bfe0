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

// TestHashedSide compares $lookup by a query for each document with $lookup in
// memory.
func TestHashedSide(t *testing.T) {
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

// TestGroupSpills groups with and without memory: with accumulators that grow
// and without.
func TestGroupSpills(t *testing.T) {
	var docs []bson.Doc
	for i := range int64(3000) {
		docs = append(docs, new(bson.Builder).Int64("_id", i).Int64("k", i*i%701).Int64("n", i).String("unused", "x").Finish())
	}
	for _, fields := range []string{`"sum": {"$sum": "$n"}, "max": {"$max": "$n"}`, `"all": {"$push": "$n"}, "first": {"$first": "$n"}`} {
		p, err := parsed(`[{"$group": {"_id": "$k", ` + fields + `}}]`)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		run := func(already int) []string {
			it, err := p.Optimize().Open(&List{Docs: slices.Clone(docs)}, &Run{Env: expr.NewEnv(1), SpillDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			it.(*grouping).reserved = already
			found, err := all(it)
			if err != nil {
				t.Fatal(err)
			}
			if spilled := it.(*grouping).stats.Spills > 0; spilled != (already > 0) {
				t.Errorf("%s: spilled: %v", fields, spilled)
			}
			slices.Sort(found)
			return found
		}
		// Memory ends after a hundred groups or so, in each part again.
		if want, got := run(0), run(100<<20-100*300); !slices.Equal(want, got) {
			t.Errorf("%s: %d groups, want %d", fields, len(got), len(want))
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%d files are left", len(left))
		}
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
			g.reserved = 100<<20 - 40<<10
			found, err := all(it)
			switch {
			case dir == "" && !mongoerr.Is(err, mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed):
				t.Errorf("%s without a disk: %v", name, err)
			case dir != "" && (err != nil || len(found) != len(docs) || g.stats.Spills == 0):
				t.Errorf("%s: %d groups, %d spills, %v", name, len(found), g.stats.Spills, err)
			}
		}
	}
}
