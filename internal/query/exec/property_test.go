package exec

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/querytest"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// house is a catalog with an executor over it.
type house struct {
	engine  *storage.Engine
	catalog *catalog.Catalog
	exec    *Executor
}

// opener is a test, of whatever kind.
type opener interface {
	Helper()
	Fatal(...any)
}

func openHouse(t opener, fs *storage.MemFS) *house {
	t.Helper()
	e, c := replay.Open(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, catalog.Options{})
	return &house{e, c, &Executor{Catalog: c}}
}

func (h *house) close(t opener) {
	t.Helper()
	if err := h.catalog.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.engine.Close(); err != nil {
		t.Fatal(err)
	}
}

// asked is a query as it is written.
type asked struct {
	filter, sort, projection, collation, hint string
	skip, limit                               int64
}

func (a asked) String() string {
	return fmt.Sprintf("filter %s sort %s skip %d limit %d projection %s collation %s hint %s", a.filter, a.sort, a.skip, a.limit, a.projection, a.collation, a.hint)
}

type asker interface {
	Helper()
	Fatalf(string, ...any)
}

func parseDoc(t asker, s string) bson.Doc {
	t.Helper()
	if s == "" {
		return nil
	}
	d, err := bson.ParseJSON(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return d
}

// query parses what is asked.
func (a asked) query(t asker) *Query {
	t.Helper()
	q := &Query{}
	var err error
	if a.collation != "" {
		c, cerr := schema.ParseCollation(parseDoc(t, a.collation))
		if cerr != nil {
			t.Fatalf("%v", cerr)
		}
		q.Collation, q.Collator = c.Spec, c.Collator
	}
	if q.Filter, err = match.Parse(parseDoc(t, a.filter), &match.Options{Collator: q.Collator}); err != nil {
		t.Fatalf("%s: %v", a.filter, err)
	}
	if q.Sort, err = sortkey.Parse(parseDoc(t, a.sort)); err != nil {
		t.Fatalf("%s: %v", a.sort, err)
	}
	if a.projection != "" {
		if q.Projection, err = project.ParseFind(parseDoc(t, a.projection), nil); err != nil {
			t.Fatalf("%s: %v", a.projection, err)
		}
		if paths, whole := q.Projection.Fields(); !whole {
			q.Paths = paths
		}
	}
	switch {
	case strings.HasPrefix(a.hint, "{"):
		q.Hint = bson.Document(parseDoc(t, a.hint))
	case a.hint != "":
		q.Hint = bson.String(a.hint)
	}
	q.Skip, q.Limit = a.skip, a.limit
	q.Env = expr.NewEnv(0)
	q.Env.Collator = q.Collator
	return q
}

// tidy copies a document of the answer; what a projection makes has its fields
// in the order of their names, as that of a covered plan is the index's.
func (a asked) tidy(d bson.Doc) bson.Doc {
	if a.projection == "" {
		return d.Clone()
	}
	var names []string
	for name := range d.All() {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bson.Builder
	for _, name := range names {
		b.Value(name, d.Lookup(name))
	}
	return b.Finish()
}

// answer is what a query returned.
type answer struct {
	docs    []bson.Doc // in the order of their bytes
	keys    [][]byte   // sort keys, in the order of the result
	count   int64
	summary string
	some    bool // a limit took some of the documents that have the same place in the order
}

// ask returns the answer, or the error of a query that fails on its way.
func (h *house) ask(t asker, c *catalog.Collection, a asked) (answer, error) {
	t.Helper()
	ctx := context.Background()
	q := a.query(t)
	keys := sortkey.NewGenerator(q.Sort, q.Collator, nil)
	cur, err := h.exec.Find(ctx, c, q)
	if err != nil {
		return answer{}, err
	}
	defer cur.Close()
	out := answer{summary: cur.Summary(), some: a.limit > 0 || a.skip > 0}
	for n := 0; ; n++ {
		d, err := cur.Next(ctx)
		if err != nil {
			return out, err
		}
		if d == nil {
			break
		}
		if a.projection == "" {
			k, err := keys.Append(nil, d)
			if err != nil {
				return out, err
			}
			out.keys = append(out.keys, k)
		}
		out.docs = append(out.docs, a.tidy(d))
		if n == 2 { // a client that comes back for more
			if err := cur.Park(); err != nil {
				t.Fatalf("%s: %v", a, err)
			}
			if err := cur.Unpark(ctx); err != nil {
				t.Fatalf("%s: %v", a, err)
			}
		}
	}
	slices.SortFunc(out.docs, func(a, b bson.Doc) int { return bytes.Compare(a, b) })
	counted, err := h.exec.Count(ctx, c, asked{filter: a.filter, collation: a.collation, hint: a.hint}.query(t))
	if err != nil {
		t.Fatalf("count %s: %v", a, err)
	}
	out.count = counted.N
	return out, nil
}

func (x answer) differs(y answer) string {
	if len(x.docs) != len(y.docs) || !x.some && !slices.EqualFunc(x.docs, y.docs, func(a, b bson.Doc) bool { return bytes.Equal(a, b) }) {
		return fmt.Sprintf("documents (%s, %s):\n%v\n%v", x.summary, y.summary, x.docs, y.docs)
	}
	if !slices.EqualFunc(x.keys, y.keys, bytes.Equal) {
		return fmt.Sprintf("order (%s, %s)", x.summary, y.summary)
	}
	if x.count != y.count {
		return fmt.Sprintf("counts %d, %d", x.count, y.count)
	}
	return ""
}

// distinct collects the values of a path.
func (h *house) distinct(t asker, c *catalog.Collection, a asked, path string) map[string]bool {
	t.Helper()
	values := map[string]bool{}
	_, err := h.exec.Distinct(context.Background(), c, a.query(t), path, func(d bson.Doc) (bool, error) {
		return true, Elements(d, path, func(v bson.Value) error {
			values[string(keystring.Append(nil, v, false, nil))] = true
			return nil
		})
	})
	if err != nil {
		t.Fatalf("distinct %s: %v", a, err)
	}
	return values
}

// indexes are specifications of all kinds but those of geometry and text.
func indexes(n int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		direction := rapid.SampledFrom([]string{"1", "-1"})
		options := ""
		switch rapid.IntRange(0, 7).Draw(t, "option") {
		case 0:
			options = `, "sparse": true`
		case 1:
			options = `, "partialFilterExpression": ` + rapid.SampledFrom([]string{
				`{"a": {"$gt": 1}}`, `{"b": {"$exists": true}}`, `{"$or": [{"a": 1}, {"a": 2}]}`, `{"a": {"$in": [1, "a"]}}`, `{"c": {"$type": "string"}}`,
			}).Draw(t, "filter")
		case 2:
			options = `, "collation": ` + querytest.Caseless
		}
		var key string
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			key = fmt.Sprintf(`{%q: "hashed"}`, rapid.SampledFrom(querytest.Paths).Draw(t, "hashed"))
		case 1:
			key, options = rapid.SampledFrom([]string{`{"$**": 1}`, `{"a.$**": 1}`, `{"$**": -1}`}).Draw(t, "wildcard"), ""
		case 2:
			key, options = `{"b": 1, "$**": 1}`, `, "wildcardProjection": {"b": 0}`
		default:
			var parts []string
			for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(querytest.Paths), 1, 3, rapid.ID).Draw(t, "fields") {
				parts = append(parts, fmt.Sprintf("%q: %s", p, direction.Draw(t, "direction")))
			}
			key = "{" + strings.Join(parts, ", ") + "}"
		}
		return fmt.Sprintf(`{"key": %s, "name": "i%d"%s}`, key, n, options)
	})
}

func questions() *rapid.Generator[asked] {
	return rapid.Map(querytest.Questions(), func(q querytest.Question) asked {
		return asked{filter: q.Filter, sort: q.Sort, projection: q.Projection, collation: q.Collation, skip: q.Skip, limit: q.Limit}
	})
}

// TestSameAnswer asks random questions of random documents: through whatever
// plan the indexes offer, through each index by itself, without an index, and
// after the store was closed and opened again, the answer is the same.
func TestSameAnswer(t *testing.T) {
	fs := storage.NewMemFS()
	h := openHouse(t, fs)
	defer func() { h.close(t) }()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		ns := schema.Namespace{DB: "d", Coll: fmt.Sprintf("c%d", n)}
		ctx := context.Background()
		c := h.create(rt, ns)
		early := rapid.Bool().Draw(rt, "indexes first")
		var specs []string
		for i := range rapid.IntRange(1, 4).Draw(rt, "indexes") {
			specs = append(specs, indexes(i).Draw(rt, "index"))
		}
		specs = append(specs, onShardKey(rt, c)...)
		if early {
			h.index(rt, ns, specs)
		}
		w := h.exec.NewWriter(storage.Buffered)
		for i, d := range rapid.SliceOfN(querytest.Fields([]string{"a", "b", "c"}, 2), 0, 30).Draw(rt, "documents") {
			doc := new(bson.Builder).Int32("_id", int32(i)).Fields(parseDoc(rt, d)).Finish()
			// Parallel arrays, and arrays under a hashed index, are refused.
			_ = w.Insert(ctx, h.catalog.Lookup(ns), doc)
		}
		if err := w.Commit(ctx); err != nil {
			rt.Fatalf("%v", err)
		}
		if !early {
			h.index(rt, ns, specs)
		}
		for range 4 {
			h.compare(rt, ns, questions().Draw(rt, "question"))
		}
		if n%10 == 0 {
			h.close(t)
			h = openHouse(t, fs)
			h.compare(rt, ns, questions().Draw(rt, "question"))
		}
		if _, err := h.catalog.Drop(ctx, c.Namespace); err != nil {
			rt.Fatalf("%v", err)
		}
	})
}

// TestSameAnswerOnce asks what once had another answer through an index than
// without one.
func TestSameAnswerOnce(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer func() { h.close(t) }()
	for n, c := range []struct {
		index string
		docs  []string
		asked
	}{
		// The elements of an array within an array have no keys in a wildcard index.
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[0]]}`}, asked{filter: `{"a.0": {"$elemMatch": {"$type": "number"}}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[{"x": 1}]]}`}, asked{filter: `{"a.0": {"$elemMatch": {"x": 1}}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[0]]}`}, asked{filter: `{"a.0": 0}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[0]]}`}, asked{filter: `{"a.0": {"$in": [0, 1]}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [["ab"]]}`}, asked{filter: `{"a.0": {"$regex": "^a"}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [["ab"]]}`}, asked{filter: `{"a.0": {"$type": "string"}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [["ab"]]}`}, asked{filter: `{"a.0": {"$type": "array"}}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[4]]}`}, asked{filter: `{"a.0": {"$mod": [2, 0]}}`}},
		// An element that a number in a path picks may lack what the filter looks for.
		{`{"key": {"a.0": 1}, "name": "i"}`, []string{`{"a": [{}]}`}, asked{filter: `{"a.0": null}`}},
		// A filter of a partial index is compared in the collation of the query.
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a": "x"}}`, []string{`{"a": "X", "b": 1}`}, asked{filter: `{"a": "x", "b": 1}`, collation: querytest.Caseless}},
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a": {"$in": ["x", "y"]}}}`, []string{`{"a": "X", "b": 1}`}, asked{filter: `{"a": {"$in": ["x", "y"]}, "b": 1}`, collation: querytest.Caseless}},
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a": {"$gt": "B"}}, "collation": ` + querytest.Caseless + `}`, []string{`{"a": "aa", "b": 1}`}, asked{filter: `{"a": {"$gt": "a"}, "b": 1}`, collation: querytest.Caseless}},
		// MinKey and MaxKey compare with what is missing, and a symbol equals a string.
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a": {"$exists": true}}}`, []string{`{"b": 1}`}, asked{filter: `{"a": {"$lt": {"$maxKey": 1}}, "b": 1}`}},
		{`{"key": {"a": 1}, "name": "i", "partialFilterExpression": {"a": {"$type": "string"}}}`, []string{`{"a": {"$symbol": "x"}}`}, asked{filter: `{"a": "x"}`}},
		// What is not null need not be there at the end of a path through an array.
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a.x": {"$exists": true}}}`, []string{`{"a": [], "b": 1}`}, asked{filter: `{"a.x": {"$ne": null}, "b": 1}`}},
		{`{"key": {"b": 1}, "name": "i", "partialFilterExpression": {"a": {"$exists": true}}}`, []string{`{"a": [], "b": 1}`, `{"b": 1}`}, asked{filter: `{"a": {"$ne": null}, "b": 1}`}},
		// A name with a dot in it, or an empty one, is no path.
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a.b": 5}`, `{"a": {"b": 5}}`, `{"a": {"b.c": 5}}`}, asked{filter: `{"a.b": 5}`, projection: `{"_id": 0, "a.b": 1}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"": {"x": 5}}`, `{"x": 5}`}, asked{filter: `{"x": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"": {"x": 5}}`, `{"x": 5}`}, asked{filter: `{".x": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"": 5}`, `{"x": 5}`}, asked{filter: `{"": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": {"": {"x": 5}}}`, `{"a": {"x": 5}}`, `{"a": {"": 5}}`}, asked{filter: `{"a..x": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": {"": {"x": 5}}}`, `{"a": {"x": 5}}`, `{"a": {"": 5}}`}, asked{filter: `{"a.": 5}`}},
		// A number in a path is also a name, of a field that a wildcard may not cover.
		{`{"key": {"x.$**": 1}, "name": "i"}`, []string{`{"0": {"x": 5}}`, `{"x": 5}`}, asked{filter: `{"0.x": 5}`}},
		{`{"key": {"a.x.$**": 1}, "name": "i"}`, []string{`{"a": {"0": {"x": 5}}}`, `{"a": [{"x": 5}]}`}, asked{filter: `{"a.0.x": 5}`}},
		{`{"key": {"$**": 1}, "name": "i", "wildcardProjection": {"a.0": 0}}`, []string{`{"a": {"0": {"x": 5}}}`, `{"a": [{"x": 5}]}`}, asked{filter: `{"a.0.x": 5}`}},
		// A number picks an array within an array, which has no keys below.
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[5, 6]]}`}, asked{filter: `{"a.0.1": 6}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[{"b": 5}]]}`}, asked{filter: `{"a.0.b": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[{"b": 5}]]}`}, asked{filter: `{"a.b": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [{"b": [[{"c": 5}]]}]}`}, asked{filter: `{"a.b.0.c": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [[[5]]]}`}, asked{filter: `{"a.0.0": 5}`}},
		{`{"key": {"$**": 1}, "name": "i"}`, []string{`{"a": [{"0": 5}]}`, `{"a": {"0": 5}}`, `{"a": [[5]]}`}, asked{filter: `{"a.0": {"$gt": 4}}`}},
		// Characters without a next one, or before a gap, end the strings that begin with them, too.
		{`{"key": {"a": 1}, "name": "i"}`, []string{`{"a": "x\uFFFD"}`, `{"a": "x\uFFFDy"}`, `{"a": "x\uFFFE"}`, `{"a": "z"}`}, asked{filter: `{"a": {"$regex": "^x\uFFFD"}}`}},
		{`{"key": {"a": 1}, "name": "i"}`, []string{`{"a": "x\uD7FF"}`, `{"a": "x\uD7FFy"}`, `{"a": "x\uE000"}`, `{"a": "z"}`}, asked{filter: `{"a": {"$regex": "^x\uD7FF"}}`}},
		{`{"key": {"a": 1}, "name": "i"}`, []string{`{"a": "x\uDBFF\uDFFF"}`, `{"a": "x\uDBFF\uDFFFy"}`, `{"a": "y"}`, `{"a": "z"}`}, asked{filter: `{"a": {"$regex": "^x\uDBFF\uDFFF"}}`}},
	} {
		t.Run(c.index+c.filter, func(t *testing.T) {
			ctx := context.Background()
			ns := schema.Namespace{DB: "d", Coll: fmt.Sprintf("c%d", n)}
			if _, err := h.catalog.Create(ctx, ns, nil); err != nil {
				t.Fatal(err)
			}
			h.index(t, ns, []string{c.index})
			if len(h.catalog.Lookup(ns).Indexes()) != 2 {
				t.Fatal("the index is refused")
			}
			w := h.exec.NewWriter(storage.Buffered)
			for i, d := range c.docs {
				if err := w.Insert(ctx, h.catalog.Lookup(ns), new(bson.Builder).Int32("_id", int32(i)).Fields(parseDoc(t, d)).Finish()); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			h.compare(t, ns, c.asked)
			rest := c.asked
			rest.filter, rest.hint = fmt.Sprintf(`{"$nor": [%s]}`, c.filter), `{"$natural": 1}`
			want, err := h.ask(t, h.catalog.Lookup(ns), rest)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.run(t, ns, change{filter: c.filter, collation: c.collation, multi: true}); err != nil {
				t.Fatal(err)
			}
			if got, err := h.ask(t, h.catalog.Lookup(ns), rest); err != nil || want.differs(got) != "" {
				t.Fatalf("a deletion left %v, %v, not %v", got.docs, err, want.docs)
			}
			for _, q := range []asked{{filter: c.filter, collation: c.collation, hint: `{"$natural": 1}`}, c.asked} {
				if a, err := h.ask(t, h.catalog.Lookup(ns), q); err != nil || len(a.docs) > 0 {
					t.Fatalf("%s after all were deleted: %v %v", q, a.docs, err)
				}
			}
		})
	}
}

// index creates the indexes that the documents allow.
func (h *house) index(t asker, ns schema.Namespace, specs []string) {
	for _, s := range specs {
		spec, err := schema.ParseIndexSpec(ns, parseDoc(t, s), false)
		if err != nil {
			continue
		}
		_, _, _ = h.catalog.CreateIndexes(context.Background(), ns, []bson.Doc{spec})
	}
}

// compare asks one question in all the ways there are.
func (h *house) compare(t asker, ns schema.Namespace, a asked) {
	c := h.catalog.Lookup(ns)
	natural := a
	natural.hint = `{"$natural": 1}`
	want, err := h.ask(t, c, natural)
	if err != nil { // parallel arrays have no order
		return
	}
	check := func(a asked) {
		got, err := h.ask(t, c, a)
		if err != nil {
			t.Fatalf("%s: %v\nindexes %s", a, err, describeIndexes(c))
		}
		if diff := want.differs(got); diff != "" {
			t.Fatalf("%s: %s\nindexes %s", a, diff, describeIndexes(c))
		}
	}
	h.eachCandidate(t, c, a, want)
	for range 3 { // the second and the third may be from the plan cache
		check(a)
	}
	for _, ix := range c.Indexes() {
		if ix.Sparse || ix.Filter != nil || ix.Plugin == "wildcard" {
			continue
		}
		hinted := a
		hinted.hint = ix.Name
		check(hinted)
	}
	plain := asked{filter: a.filter, collation: a.collation}
	slow := plain
	slow.hint = natural.hint
	for _, path := range []string{"a", "a.x"} {
		if x, y := h.distinct(t, c, slow, path), h.distinct(t, c, plain, path); !equalSets(x, y) {
			t.Fatalf("distinct %s of %s: %v %v\nindexes %s", path, a, x, y, describeIndexes(c))
		}
	}
	if plan.MatchesAll(a.query(t).Filter) {
		return
	}
	if x, y := h.distinct(t, c, asked{filter: "{}", hint: natural.hint}, "a"), h.distinct(t, c, asked{filter: "{}"}, "a"); !equalSets(x, y) {
		t.Fatalf("distinct a: %v %v\nindexes %s", x, y, describeIndexes(c))
	}
}

// eachCandidate runs every plan that there is for a question, also those that
// a trial would not choose.
func (h *house) eachCandidate(t asker, c *catalog.Collection, a asked, want answer) {
	ctx := context.Background()
	r, err := h.exec.prepare(ctx, c, a.query(t), nil)
	if err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	defer r.close()
	for _, cand := range append([]*candidate{r.winner}, r.rejected...) {
		var docs []bson.Doc
		run := runner{candidate: cand}
		var row stage.Row
		for {
			ok, err := run.next(ctx, &row)
			if err != nil {
				t.Fatalf("%s: %s: %v", a, Summary(cand.node), err)
			}
			if !ok {
				break
			}
			docs = append(docs, a.tidy(row.Doc))
		}
		slices.SortFunc(docs, func(a, b bson.Doc) int { return bytes.Compare(a, b) })
		if want.some && len(docs) == len(want.docs) {
			continue
		}
		if !slices.EqualFunc(docs, want.docs, func(a, b bson.Doc) bool { return bytes.Equal(a, b) }) {
			t.Fatalf("%s: %s: %v, not %v\nindexes %s", a, plan.Signature(cand.node), docs, want.docs, describeIndexes(c))
		}
	}
	for _, cand := range r.rejected {
		_ = cand.stage.Close()
	}
}

func equalSets(x, y map[string]bool) bool {
	if len(x) != len(y) {
		return false
	}
	for k := range x {
		if !y[k] {
			return false
		}
	}
	return true
}

func describeIndexes(c *catalog.Collection) string {
	var s []string
	for _, ix := range c.Indexes() {
		s = append(s, ix.Spec.String())
	}
	return strings.Join(s, "\n")
}
