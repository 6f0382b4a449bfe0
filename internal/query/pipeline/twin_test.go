package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"pgregory.net/rapid"
)

func drawValue(t *rapid.T, depth int) string {
	switch rapid.IntRange(0, 7+2*depth).Draw(t, "kind") {
	case 0:
		return "null"
	case 1:
		return fmt.Sprintf("%q", rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "string"))
	case 2:
		return fmt.Sprintf("%d.0", rapid.IntRange(0, 3).Draw(t, "double"))
	case 8:
		return "[" + strings.Join(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawValue(t, depth-1) }), 0, 3).Draw(t, "array"), ", ") + "]"
	case 9:
		return "{x: " + drawValue(t, depth-1) + "}"
	}
	return fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "int"))
}

func drawDocs(t *rapid.T) []bson.Doc {
	n := rapid.IntRange(0, 8).Draw(t, "docs")
	docs := make([]bson.Doc, n)
	for i := range docs {
		fields := []string{fmt.Sprintf("_id: %d", i)}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.IntRange(0, 4).Draw(t, "has") > 0 {
				fields = append(fields, name+": "+drawValue(t, 1))
			}
		}
		docs[i] = bson.MustParse("{" + strings.Join(fields, ", ") + "}")
	}
	return docs
}

func drawPath(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "_id", "a.x", "b.x", "d.x"}).Draw(t, "path")
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name")
}

func drawPredicate(t *rapid.T) string {
	path, v := drawPath(t), drawValue(t, 1)
	switch rapid.IntRange(0, 7).Draw(t, "predicate") {
	case 0:
		return fmt.Sprintf("{%q: {$gt: %s}}", path, v)
	case 1:
		return fmt.Sprintf("{%q: {$in: [%s, %s]}}", path, v, drawValue(t, 0))
	case 2:
		return fmt.Sprintf("{%q: {$exists: %t}}", path, rapid.Bool().Draw(t, "exists"))
	case 3:
		return fmt.Sprintf("{%q: {$ne: %s}}", path, v)
	case 4:
		return fmt.Sprintf("{$or: [%s, %s]}", drawPredicate(t), drawPredicate(t))
	case 5:
		return fmt.Sprintf(`{$expr: {$lte: ["$%s", "$%s"]}}`, path, drawPath(t))
	case 6:
		return fmt.Sprintf("{$and: [%s, %s]}", drawPredicate(t), drawPredicate(t))
	}
	return fmt.Sprintf("{%q: {$eq: %s}}", path, v)
}

func drawExpr(t *rapid.T) string {
	return rapid.SampledFrom([]string{`"$a"`, `"$b"`, `"$c"`, `"$d"`, `"$a.x"`, `{$type: "$b"}`, `{$ifNull: ["$c", 7]}`, `{$literal: 5}`, `["$a", "$b"]`, `{x: "$a"}`, `{$eq: ["$a", "$b"]}`}).Draw(t, "expression")
}

func drawStage(t *rapid.T, depth int) string {
	switch rapid.IntRange(0, 16+depth).Draw(t, "stage") {
	case 0, 1, 2, 3:
		return "{$match: " + drawPredicate(t) + "}"
	case 4:
		return fmt.Sprintf("{$addFields: {%s: %s}}", drawName(t), drawExpr(t))
	case 5:
		return fmt.Sprintf("{$project: {%s: 1, %s: %s}}", "_id", drawName(t), drawExpr(t))
	case 6:
		return fmt.Sprintf("{$unset: %q}", drawName(t))
	case 7:
		return fmt.Sprintf("{$sort: {%s: %d}}", drawName(t), rapid.SampledFrom([]int{1, -1}).Draw(t, "direction"))
	case 8:
		return fmt.Sprintf("{$skip: %d}", rapid.IntRange(0, 3).Draw(t, "skip"))
	case 9:
		return fmt.Sprintf("{$limit: %d}", rapid.IntRange(1, 6).Draw(t, "limit"))
	case 10, 11:
		return fmt.Sprintf(`{$unwind: {path: "$%s", preserveNullAndEmptyArrays: %t%s}}`, drawName(t), rapid.Bool().Draw(t, "keep"),
			rapid.SampledFrom([]string{"", `, includeArrayIndex: "i"`}).Draw(t, "index"))
	case 12:
		return fmt.Sprintf("{$group: {_id: %s, n: {$sum: 1}, d: {$first: '$%s'}, l: {$push: '$%s'}}}", drawExpr(t), drawPath(t), drawPath(t))
	case 13:
		return fmt.Sprintf(`{$lookup: {from: "other", localField: %q, foreignField: %q, as: %q}}`, drawName(t), drawName(t), drawName(t))
	case 14:
		return `{$count: "a"}`
	case 15:
		return fmt.Sprintf("{$replaceWith: {_id: 1, %s: %s}}", drawName(t), drawExpr(t))
	case 16:
		return fmt.Sprintf("{$project: {%s: 0}}", drawName(t))
	}
	inner := func() string { return drawStages(t, depth-1, 3) }
	kind := rapid.IntRange(0, 2).Draw(t, "nested")
	switch {
	case kind == 0:
		return fmt.Sprintf(`{$unionWith: {coll: "other", pipeline: %s}}`, inner())
	case kind == 1 && depth == 2:
		return fmt.Sprintf(`{$facet: {a: %s, b: %s}}`, drawStages(t, 0, 3), drawStages(t, 0, 3))
	}
	return fmt.Sprintf(`{$lookup: {from: "other", let: {v: %s}, pipeline: [{$match: {$expr: {$eq: [%s, "$$v"]}}}, {$addFields: {w: "$$v"}}], as: %q}}`, drawExpr(t), drawExpr(t), drawName(t))
}

func drawStages(t *rapid.T, depth, n int) string {
	list := make([]string, rapid.IntRange(0, n).Draw(t, "stages"))
	for i := range list {
		list[i] = drawStage(t, depth)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// TestTwin compares optimized pipelines with the dumb twin.
func TestTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := collections{"main": drawDocs(t), "other": drawDocs(t)}
		text := drawStages(t, 2, 6)
		list := bson.MustParseValue(text).Doc().Slice()
		want, err := world.dumb(world["main"], list, nil, nil)
		if err != nil {
			return // which documents meet the error is open
		}
		opts := &expr.Options{}
		p, err := Parse(list, &Options{Expr: opts, Match: &match.Options{Expr: opts}, DB: "db", NS: Namespace{"db", "main"}})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		r := &Run{Env: expr.NewEnv(1), World: world}
		it, err := world.Read(context.Background(), Namespace{"db", "main"}, p.Optimize(), r)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		defer it.Close()
		var got []string
		for {
			d, err := it.Next(context.Background())
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if d == nil {
				break
			}
			got = append(got, string(d.AppendJSON(nil, bson.CanonicalJSON)))
		}
		var dumb []string
		for _, d := range want {
			dumb = append(dumb, string(d.AppendJSON(nil, bson.CanonicalJSON)))
		}
		if strings.Join(got, "\n") != strings.Join(dumb, "\n") {
			t.Fatalf("%s\noptimized %v\ngot\n%s\nwant\n%s", text, p.Optimize().Serialize(), strings.Join(got, "\n"), strings.Join(dumb, "\n"))
		}
	})
}
