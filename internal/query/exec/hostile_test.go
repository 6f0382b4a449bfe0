package exec

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Hostile filters: planned and run over a few documents in a moderate amount of
// memory, or refused; that it ends in time is the test's own time limit.
func TestHostileFilters(t *testing.T) {
	list := func(n int, f func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = f(i)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	nest := func(n int, open, leaf, end string) string {
		return strings.Repeat(open, n) + leaf + strings.Repeat(end, n)
	}
	filters := map[string]string{
		"and 95 deep":        nest(95, `{$and: [`, `{a: 1}`, `]}`),
		"nor 95 deep":        nest(95, `{$nor: [`, `{a: 1}`, `]}`),
		"or and nor":         nest(30, `{$or: [{b: "2"}, {$and: [{a: 1}, {$nor: [`, `{a: 2}`, `]}]}]}`),
		"ands of ors":        nest(45, `{$and: [{$or: [{a: 3}, `, `{a: 2}`, `]}, {$or: [{b: "1"}, {a: 5}]}]}`),
		"elemMatch deep":     nest(90, `{a: {$elemMatch: `, `{x: 1}`, `}}`),
		"not deep":           `{a: ` + nest(90, `{$not: `, `{$gt: 1}`, `}`) + `}`,
		"a megabyte of $or":  `{$or: ` + list(30000, func(i int) string { return fmt.Sprintf("{f%d: %d}", i, i) }) + `}`,
		"$or of ranges":      `{$or: ` + list(5000, func(i int) string { return fmt.Sprintf("{a: {$gt: %d, $lt: %d}}", i, i+1) }) + `}`,
		"$or of two":         `{$or: ` + list(10000, func(i int) string { return fmt.Sprintf(`{a: %d, b: "%d"}`, i, i) }) + `}`,
		"$and of $ne":        `{$and: ` + list(10000, func(i int) string { return fmt.Sprintf("{a: {$ne: %d}}", i) }) + `}`,
		"$and of $or":        `{$and: ` + list(500, func(i int) string { return fmt.Sprintf(`{$or: [{a: %d}, {b: "%d"}]}`, i, i) }) + `}`,
		"huge $in":           `{a: {$in: ` + list(60000, func(i int) string { return fmt.Sprint(i) }) + `}}`,
		"huge $nin":          `{a: {$nin: ` + list(60000, func(i int) string { return fmt.Sprint(i) }) + `}}`,
		"huge $in of text":   `{b: {$in: ` + list(100000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}}`,
		"huge $all":          `{a: {$all: ` + list(50000, func(i int) string { return fmt.Sprint(i) }) + `}}`,
		"two $ins":           `{a: {$in: ` + list(2000, func(i int) string { return fmt.Sprint(i) }) + `}, b: {$in: ` + list(2000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `}}`,
		"long path":          `{"` + strings.Repeat("a.", 50000) + `a": 1}`,
		"backtracking":       `{s: {$regex: "(a+)+\\1$"}}`,
		"backtracking ahead": `{s: {$regex: "^(?=(a|aa)+$)x"}}`,
		"nested quantifiers": `{s: {$regex: "(a{1,1000}){1,1000}b"}}`,
		"many groups":        `{s: {$regex: "` + strings.Repeat("(", 1000) + "a" + strings.Repeat(")", 1000) + `"}}`,
		"numbers twice":      `{"` + strings.Repeat("0.", 89) + `0": 7}`,
		"schema enum":        `{$jsonSchema: {properties: {a: {enum: ` + list(100000, func(i int) string { return fmt.Sprint(-i) }) + `}}}}`,
		"schema unique":      `{$jsonSchema: {properties: {big: {uniqueItems: true}}}}`,
		"huge $all of many":  `{big: {$all: ` + list(50000, func(i int) string { return fmt.Sprint(i) }) + `}}`,
		"many lookaheads":    `{s: {$regex: "` + strings.Repeat("(?=a)", 2000) + `"}}`,
	}
	x := newExecutor(t)
	var docs []bson.Doc
	for i := range 50 {
		docs = append(docs, new(bson.Builder).Int64("_id", int64(i)).Int64("a", int64(i)).String("b", fmt.Sprint(i)).
			String("s", strings.Repeat("a", 60)+"!").Finish())
	}
	var big bson.Builder
	big.Int64("_id", 50).OpenArray("big")
	for i := range 50000 {
		big.Int32(bson.Index(i), int32(i))
	}
	big.Close().Value("0", bson.MustParseValue(nest(45, "[{'0': ", "1", "}]")))
	docs = append(docs, big.Finish())
	w := newGeoWorld(t, x, `{key: {a: 1, b: 1}, name: "ab"}`, docs)
	for name, text := range filters {
		t.Run(name, func(t *testing.T) {
			filter := bson.MustParse(text)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			f, err := match.Parse(filter, nil)
			if err == nil {
				q := &Query{}
				q.Filter = f
				q.Env = expr.NewEnv(0)
				err = drain(x, w, q)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 2<<30 {
				t.Errorf("allocated %d MB for a filter of %d KB", used>>20, len(filter)>>10)
			}
			t.Logf("%v, %d MB, %v", time.Since(start), (after.TotalAlloc-before.TotalAlloc)>>20, err)
		})
	}
}

// hostileTime is what a query gets, as its maxTimeMS.
const hostileTime = 300 * time.Millisecond

func drain(x *Executor, w *geoWorld, q *Query) error {
	ctx, cancel := context.WithTimeout(context.Background(), hostileTime)
	defer cancel()
	cur, err := x.Find(ctx, w.coll, q)
	if err != nil {
		return err
	}
	defer cur.Close()
	for range math.MaxInt32 {
		if d, err := cur.Next(ctx); d == nil || err != nil {
			return err
		}
	}
	return nil
}
