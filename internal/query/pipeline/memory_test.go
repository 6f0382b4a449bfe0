package pipeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// operations is what a budget of MinBudget has for operations, in bytes: less is
// left in these tests.
const operations = memory.MinBudget - 2*48_000_000 - 16<<20

// TestStagesUnderAScarceBudget runs stages over 10 MB of documents where other
// operations leave 2 MB: those that can spill give the results that they give
// with plenty, the others fail with 146, and all give back what they took.
func TestStagesUnderAScarceBudget(t *testing.T) {
	var docs []bson.Doc
	pad := strings.Repeat("x", 10_000)
	for i := range int32(1000) {
		docs = append(docs, new(bson.Builder).Int32("_id", i).Int32("a", i*7919%1000).String("pad", pad).Finish())
	}
	for _, c := range []struct {
		stages string
		spills bool
	}{
		{`[{"$sort": {"a": 1}}]`, true},
		{`[{"$group": {"_id": "$a", "all": {"$push": "$pad"}}}, {"$sort": {"_id": 1}}]`, true},
		{`[{"$bucketAuto": {"groupBy": "$a", "buckets": 100}}]`, true},
		{`[{"$setWindowFields": {"sortBy": {"a": 1}, "output": {"n": {"$sum": 1, "window": {"documents": ["unbounded", "unbounded"]}}}}}]`, true},
		{`[{"$group": {"_id": null, "all": {"$push": "$pad"}}}]`, false},
		{`[{"$group": {"_id": null, "all": {"$addToSet": "$$ROOT"}}}]`, false},
		{`[{"$facet": {"a": [{"$match": {}}]}}]`, false},
		{`[{"$setWindowFields": {"sortBy": {"a": 1}, "output": {"n": {"$push": "$pad", "window": {"documents": ["unbounded", "unbounded"]}}}}}, {"$limit": 1}]`, false},
	} {
		for _, disk := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s disk %t", c.stages, disk), func(t *testing.T) {
				dir := ""
				if disk {
					dir = t.TempDir()
				}
				want, err := under(t, c.stages, docs, dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				b := memory.NewBudget(memory.MinBudget)
				var others memory.Account
				others.Open(b)
				h := others.Hold(nil)
				if err := h.Set(operations - 2<<20); err != nil {
					t.Fatal(err)
				}
				before := b.Stats().Operations.Held
				var got string
				synctest.Test(t, func(t *testing.T) { // some wait for memory that does not come
					got, err = under(t, c.stages, docs, dir, b)
				})
				switch {
				case c.spills && disk && (err != nil || got != want):
					t.Errorf("%v, results as with plenty: %t", err, got == want)
				case !(c.spills && disk) && mongoerr.From(err).Code != mongoerr.ExceededMemoryLimit:
					t.Errorf("got %v, want 146", err)
				}
				st := b.Stats().Operations
				if st.Held != before {
					t.Errorf("%d bytes are still held", st.Held-before)
				}
				if st.Peak > operations+1<<20 {
					t.Errorf("%d bytes more than there are", st.Peak-operations)
				}
			})
		}
	}
}

// under runs stages with the memory of b, and returns a digest of the results.
func under(t *testing.T, stages string, docs []bson.Doc, dir string, b *memory.Budget) (string, error) {
	t.Helper()
	var list []bson.Value
	for v := range bson.MustParseValue(stages).Doc().Values() {
		list = append(list, v)
	}
	p, err := Parse(list, &Options{Expr: &expr.Options{}})
	if err != nil {
		t.Fatal(err)
	}
	var account memory.Account
	account.Open(b)
	defer account.Close()
	env := expr.NewEnv(1)
	env.Memory = &account
	it, err := p.Open(&List{Docs: docs}, &Run{Env: env, SpillDir: dir})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		d, err := it.Next(context.Background())
		if err != nil || d == nil {
			it.Close()
			env.WithRoot(bson.Empty)
			return out.String(), err
		}
		out.Write(d)
	}
}
