package exec

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// tester is a test, of whatever kind.
type tester interface {
	asker
	Context() context.Context
	Fatal(...any)
}

// twins are a time-series collection and an ordinary one with the same
// documents, which answer every question the same.
type twins struct {
	h            *house
	series, dumb *catalog.Collection
	ids          int64
}

func newTwins(t tester, h *house, n int) *twins {
	make := func(name, options string) *catalog.Collection {
		c, err := h.catalog.Create(t.Context(), schema.Namespace{DB: "db", Coll: fmt.Sprint(name, n)}, parseDoc(t, options))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	w := &twins{
		h: h,
		series: make("series", `{timeseries: {timeField: "t", metaField: "m", bucketMaxSpanSeconds: 100, bucketRoundingSeconds: 100},
			expireAfterSeconds: 100, storageEngine: {mayfly: {expiry: {exact: true}}}}`),
		dumb: make("dumb", `{}`),
	}
	if n%2 == 1 {
		specs := []bson.Doc{parseDoc(t, `{v: 2, key: {"m.x": 1, t: -1}, name: "xt"}`), parseDoc(t, `{v: 2, key: {m: 1, t: -1}, name: "mt"}`), parseDoc(t, `{v: 2, key: {u: 1}, name: "u"}`),
			parseDoc(t, `{v: 2, key: {v: -1, t: 1}, name: "vt"}`), parseDoc(t, `{v: 2, key: {"m.x": 1, "v.a": 1}, name: "xva"}`)}
		if _, _, err := h.catalog.CreateIndexes(t.Context(), w.series.Namespace, specs); err != nil {
			t.Fatal(err)
		}
		w.latest()
	}
	return w
}

var (
	metaPool  = []string{`1`, `1.0`, `2`, `"a"`, `{x: 1}`, `{x: 1, y: "b"}`, `{x: [1, 2]}`, `null`, ``, `["a", 2]`, `[{x: 1}, 1]`, `[]`, `[[1]]`}
	valuePool = []string{`1`, `2.5`, `-3`, `"s"`, `[1, 9]`, `{a: 1}`, `{a: "z"}`, `null`, `NumberLong("7")`, ``}
)

func (w *twins) insert(t *rapid.T) {
	n := rapid.SampledFrom([]int{1, 3, 20, 150}).Draw(t, "n")
	base := rapid.Int64Range(-500, 500).Draw(t, "base")
	var docs []bson.Doc
	for i := range n {
		var b bson.Builder
		w.ids++
		b.Int64("_id", w.ids).Date("t", (base+int64(i))*1000+int64(rapid.IntRange(0, 3).Draw(t, "ms")))
		for _, f := range []struct {
			name string
			pool []string
		}{{"m", metaPool}, {"v", valuePool}, {"u", valuePool}} {
			if s := rapid.SampledFrom(f.pool).Draw(t, f.name); s != "" {
				b.Value(f.name, parseDoc(t, "{x: "+s+"}").Lookup("x"))
			}
		}
		b.Double("d", rapid.SampledFrom([]float64{1.5, -2.25, 0, 7.5, math.NaN()}).Draw(t, "d"))
		docs = append(docs, b.Finish())
	}
	w.add(t, docs)
}

// add inserts documents into both.
func (w *twins) add(t tester, docs []bson.Doc) {
	var ms []timeseries.Measurement
	u := w.h.exec.NewWriter(storage.Buffered)
	for _, d := range docs {
		m, err := timeseries.NewMeasurement(d, w.series.Settings.Timeseries)
		if err != nil {
			t.Fatal(err)
		}
		ms = append(ms, m)
		if err := u.Insert(t.Context(), w.dumb, m.Doc); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.InsertMeasurements(t.Context(), w.series, ms); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (w *twins) seal(t tester) {
	if err := w.h.catalog.SealAll(t.Context(), w.series); err != nil {
		t.Fatal(err)
	}
}

func (w *twins) move(t *rapid.T) {
	if err := w.h.catalog.FlushStaged(t.Context(), w.series); err != nil {
		t.Fatal(err)
	}
}

// latest looks the collections up anew.
func (w *twins) latest() {
	w.series, w.dumb = w.h.catalog.Lookup(w.series.Namespace), w.h.catalog.Lookup(w.dumb.Namespace)
}

var measuredFilters = []string{
	`{}`, `{m: 1}`, `{m: "a"}`, `{m: [1]}`, `{m: {x: 1}}`, `{"m.x": 1}`, `{m: null}`, `{m: {$exists: false}}`, `{m: {$in: [2, "a"]}}`, `{$or: [{m: 2}, {"m.y": "b"}]}`,
	`{v: 1}`, `{v: {$gt: 0}}`, `{v: {$lt: -3}}`, `{v: {$gte: 7}, u: {$lte: 2}}`, `{v: 9}`, `{d: {$gt: 0}}`, `{"v.a": 1}`, `{v: null}`, `{u: {$exists: true}, m: 1}`, `{$or: [{m: 1}, {v: 1}]}`, `{m: {$ne: 1}}`, `{"m.x": {$gt: 1}}`,
	`{u: {$gt: 5}}`, `{u: {$lte: -3}}`, `{u: "s"}`, `{u: {$in: [7, -3]}}`, `{u: {$gte: "a"}}`, `{u: {$gt: 1, $lt: 2.7}}`, `{u: {$in: [null, 1]}}`, `{"m.x": 1, "v.a": {$lt: 5}}`, `{"v.a": {$gte: "y"}}`, `{"u.a": 1}`,
	`{$nor: [{m: "a"}]}`, `{$expr: {$eq: ["$m", 2]}}`,
}

func (w *twins) filter(t *rapid.T) string {
	f := rapid.SampledFrom(measuredFilters).Draw(t, "filter")
	if !rapid.Bool().Draw(t, "timed") {
		return f
	}
	lo := rapid.Int64Range(-600, 600).Draw(t, "lo") * 1000
	hi := lo + rapid.Int64Range(-100, 400).Draw(t, "span")*1000
	date := func(ms int64) string { return fmt.Sprintf(`{$date: {$numberLong: "%d"}}`, ms) }
	t1 := rapid.SampledFrom([]string{
		`{$gte: ` + date(lo) + `, $lt: ` + date(hi) + `}`, `{$gt: ` + date(lo) + `}`, `{$lte: ` + date(hi) + `}`, date(lo),
	}).Draw(t, "times")
	return fmt.Sprintf(`{$and: [%s, {t: %s}]}`, f, t1)
}

// run collects the answer of a collection, each document with its fields by
// name.
func (w *twins) run(t tester, c *catalog.Collection, a asked) []bson.Doc {
	cur, err := w.h.exec.Find(t.Context(), c, a.query(t))
	if err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	defer cur.Close()
	var docs []bson.Doc
	for {
		d, err := cur.Next(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if d == nil {
			return docs
		}
		docs = append(docs, asked{projection: "any"}.tidy(d))
	}
}

func (w *twins) ask(t *rapid.T) {
	a := asked{filter: w.filter(t)}
	a.sort = rapid.SampledFrom([]string{``, `{t: 1}`, `{t: -1}`, `{m: 1, t: 1, _id: 1}`, `{_id: 1}`}).Draw(t, "sort")
	if a.sort != "" {
		a.limit = int64(rapid.SampledFrom([]int{0, 0, 1, 7}).Draw(t, "limit"))
		a.skip = int64(rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "skip"))
	}
	w.compare(t, a)
}

// compare asks both the same.
func (w *twins) compare(t tester, a asked) {
	got, want := w.run(t, w.series, a), w.run(t, w.dumb, a)
	if a.sort == `{t: 1}` || a.sort == `{t: -1}` {
		// Those of one time come in any order.
		if len(got) != len(want) {
			t.Fatalf("%s limit %d: %d documents, want %d", a, a.limit, len(got), len(want))
		}
		for i := range got {
			if got[i].Lookup("t").Date() != want[i].Lookup("t").Date() {
				t.Fatalf("%s: %s at %d, want %s", a, got[i], i, want[i])
			}
		}
		if a.limit != 0 || a.skip != 0 {
			return
		}
	}
	if a.sort == "" || a.sort == `{t: 1}` || a.sort == `{t: -1}` {
		slices.SortFunc(got, func(x, y bson.Doc) int { return bytes.Compare(x, y) })
		slices.SortFunc(want, func(x, y bson.Doc) int { return bytes.Compare(x, y) })
	}
	if !slices.EqualFunc(got, want, func(x, y bson.Doc) bool { return bytes.Equal(x, y) }) {
		t.Fatalf("%s limit %d skip %d:\n%s\nwant\n%s", a, a.limit, a.skip, got, want)
	}
	a = asked{filter: a.filter}
	x, err := w.h.exec.Count(t.Context(), w.series, a.query(t))
	if err != nil {
		t.Fatal(err)
	}
	y, err := w.h.exec.Count(t.Context(), w.dumb, a.query(t))
	if err != nil || x.N != y.N {
		t.Fatalf("count %s: %d, want %d, %v", a, x.N, y.N, err)
	}
}

var measuredGroups = []string{
	`{_id: null, n: {$sum: 1}, s: {$sum: "$v"}, lo: {$min: "$v"}, hi: {$max: "$v"}, first: {$min: "$t"}, last: {$max: "$t"}}`,
	`{_id: "$m", a: {$avg: "$v"}, n: {$count: {}}, hi: {$max: "$u"}}`,
	`{_id: {$dateTrunc: {date: "$t", unit: "second", binSize: 30}}, n: {$sum: 1}, lo: {$min: "$u"}}`,
	`{_id: {x: "$m.x", at: {$dateTrunc: {date: "$t", unit: "minute"}}}, s: {$sum: "$u"}, hi: {$max: "$v"}}`,
	`{_id: {at: {$dateTrunc: {date: "$t", unit: "second", binSize: 7}}}, a: {$avg: "$u"}, lo: {$min: "$t"}, hi: {$max: "$t"}}`,
	`{_id: "$m", s: {$sum: "$d"}, a: {$avg: "$d"}, lo: {$min: "$d"}, hi: {$max: "$d"}, n: {$sum: 3}, i: {$sum: "$_id"}}`,
	`{_id: "$v", n: {$sum: 2}}`, `{_id: {$mod: [{$toLong: "$t"}, 7000]}, n: {$sum: 1}}`,
}

// group asks both for groups of what a filter finds.
func (w *twins) group(t *rapid.T) {
	w.same(t, fmt.Sprintf(`{x: [{$match: %s}, {$group: %s}]}`, w.filter(t), rapid.SampledFrom(measuredGroups).Draw(t, "group")))
}

// same asks both for what a pipeline makes of them.
func (w *twins) same(t *rapid.T, stages string) {
	var answers [2][]bson.Doc
	for i, c := range []*catalog.Collection{w.series, w.dumb} {
		p, err := pipeline.Parse(parseDoc(t, stages).Lookup("x").Doc().Slice(), &pipeline.Options{Expr: &expr.Options{}, Match: &match.Options{}, DB: "db"})
		if err != nil {
			t.Fatal(err)
		}
		q := asked{filter: `{}`}.query(t)
		a, err := w.h.exec.Aggregate(t.Context(), c, q, p, &pipeline.Run{Env: q.Env})
		if err != nil {
			t.Fatal(err)
		}
		for {
			d, err := a.Next(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", stages, err)
			}
			if d == nil {
				break
			}
			answers[i] = append(answers[i], d.Clone())
		}
		a.Close()
		slices.SortFunc(answers[i], func(x, y bson.Doc) int { return bson.CompareDocs(x, y, nil) })
	}
	if !slices.EqualFunc(answers[0], answers[1], func(x, y bson.Doc) bool { return bson.CompareDocs(x, y, nil) == 0 }) {
		t.Fatalf("%s:\n%s\nwant\n%s", stages, answers[0], answers[1])
	}
}

var measuredEnds = []string{
	`{$sort: {m: 1, t: -1}}, {$group: {_id: "$m", t: {$first: "$t"}, v: {$first: "$v"}}}`,
	`{$sort: {m: -1, t: 1}}, {$group: {_id: "$m", t: {$last: "$t"}, hi: {$max: "$t"}}}`,
	`{$sort: {t: 1}}, {$group: {_id: "$m.x", t: {$first: "$t"}, lo: {$min: "$t"}}}`,
	`{$group: {_id: {x: "$m.x", y: "$m.y"}, t: {$top: {sortBy: {t: -1}, output: "$t"}}}}`,
	`{$group: {_id: "$m", t: {$bottom: {sortBy: {m: 1, t: -1}, output: "$t"}}}}`,
	`{$group: {_id: null, t: {$max: "$t"}}}`, `{$group: {_id: "$m", t: {$min: "$t"}, u: {$max: "$t"}}}`,
	`{$sort: {"m.x": 1, t: -1}}, {$group: {_id: "$m", t: {$first: "$t"}}}`,
}

// ends asks both for the ends of groups. Of several measurements of one time
// any may be the first, so the values of other fields must be those of one.
func (w *twins) ends(t *rapid.T) {
	stages := fmt.Sprintf(`{x: [{$match: %s}, %s, {$project: {v: 0}}]}`, w.filter(t), rapid.SampledFrom(measuredEnds).Draw(t, "ends"))
	w.same(t, stages)
}

func (w *twins) remove(t *rapid.T) {
	w.removeBy(t, w.filter(t))
}

// removeBy deletes from both what a filter finds.
func (w *twins) removeBy(t tester, filter string) {
	a := asked{filter: filter}
	var n [2]int64
	for i, c := range []*catalog.Collection{w.series, w.dumb} {
		u := w.h.exec.NewWriter(storage.Buffered)
		out, err := u.Delete(t.Context(), c, &Delete{Query: a.query(t), Multi: true})
		if err == nil {
			err = u.Commit(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		n[i] = out.Deleted
	}
	if n[0] != n[1] {
		t.Fatalf("%s: %d deleted, want %d", a, n[0], n[1])
	}
}

func (w *twins) removeOne(t *rapid.T) {
	a := asked{filter: w.filter(t), sort: `{_id: -1}`}
	for _, c := range []*catalog.Collection{w.series, w.dumb} {
		u := w.h.exec.NewWriter(storage.Buffered)
		if _, err := u.Delete(t.Context(), c, &Delete{Query: a.query(t)}); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		if err := u.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *twins) update(t *rapid.T) {
	a := asked{filter: rapid.SampledFrom([]string{`{}`, `{m: 2}`, `{"m.x": 1}`, `{m: "a"}`, `{m: 77}`}).Draw(t, "filter")}
	change := rapid.SampledFrom([]string{`{$set: {m: 2}}`, `{$set: {m: {x: 1}}}`, `{$unset: {m: 1}}`, `{$set: {m: 77}}`}).Draw(t, "change")
	for _, c := range []*catalog.Collection{w.series, w.dumb} {
		q := a.query(t)
		mod, err := update.Parse(bson.Document(parseDoc(t, change)), &update.Options{})
		if err != nil {
			t.Fatal(err)
		}
		u := w.h.exec.NewWriter(storage.Buffered)
		if _, err = u.Update(t.Context(), c, &Update{Query: q, Update: mod, Multi: true}); err == nil {
			err = u.Commit(t.Context())
		}
		if err != nil {
			t.Fatalf("%s %s: %v", a, change, err)
		}
	}
}

// expire removes what is due at an instant, as ranges where that is drawn; what
// is inserted later may be older.
func (w *twins) expire(t *rapid.T) {
	upTo := rapid.Int64Range(-700, 700).Draw(t, "upTo") * 1000
	rule := w.series.BucketRules()[0]
	now := rule.DueAt(upTo)
	if rapid.Bool().Draw(t, "range") {
		if _, err := w.h.catalog.DropBuckets(t.Context(), w.series, &rule, now, nil, func(time.Duration) error { return nil }, func(time.Duration) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if first, err := FirstBucketDue(t.Context(), w.h.exec, w.series, &rule, math.MinInt64, now); err != nil || first > now && first != schema.Never {
		t.Fatalf("due at %d: %v", first, err)
	}
	if more, err := ExpireBuckets(t.Context(), w.h.exec, w.series, rule, now); err != nil || more {
		t.Fatalf("%t: %v", more, err)
	}
	if first, err := FirstBucketDue(t.Context(), w.h.exec, w.series, &rule, math.MinInt64, now); err != nil || first != schema.Never {
		t.Fatalf("still due at %d: %v", first, err)
	}
	u := w.h.exec.NewWriter(storage.Buffered)
	a := asked{filter: fmt.Sprintf(`{t: {$lte: {$date: {$numberLong: "%d"}}}}`, upTo)}
	if _, err := u.Delete(t.Context(), w.dumb, &Delete{Query: a.query(t), Multi: true}); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (w *twins) sweep(t *rapid.T) {
	if _, err := w.h.catalog.Sweep(t.Context(), w.series, func(time.Duration) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, any := w.series.SweepDue(); any {
		t.Fatal("a sweep left something")
	}
}

func (w *twins) check(t tester) {
	if x, y := w.series.Count(), w.dumb.Count(); x != y {
		t.Fatalf("the count is %d, want %d", x, y)
	}
	v, err := w.h.catalog.Validate(t.Context(), w.series, true)
	if err != nil || !v.Valid {
		t.Fatalf("not valid: %+v %v", v, err)
	}
}

// TestTimeSeriesTwin does the same to both twins, and asks both.
func TestTimeSeriesTwin(t *testing.T) {
	fs := storage.NewMemFS()
	h := openHouse(t, fs)
	defer func() { h.close(t) }()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := newTwins(t, h, n)
		t.Repeat(map[string]func(*rapid.T){
			"insert": w.insert, "insert again": w.insert, "seal": func(t *rapid.T) { w.seal(t) }, "move": w.move, "move again": w.move, "ask": w.ask, "ask again": w.ask, "ask more": w.ask,
			"group": w.group, "group again": w.group, "ends": w.ends, "ends again": w.ends,
			"expire": w.expire, "sweep": w.sweep, "remove": w.remove, "remove one": w.removeOne, "update": w.update, "": func(t *rapid.T) { w.check(t) },
		})
		for _, c := range []*catalog.Collection{w.series, w.dumb} {
			if _, err := h.catalog.Drop(t.Context(), c.Namespace); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestTimeSeriesAnswersOnce asks what a time series once answered otherwise than an
// ordinary collection: while the measurements are open, and when they are sealed.
func TestTimeSeriesAnswersOnce(t *testing.T) {
	h := openHouse(t, storage.NewMemFS())
	defer h.close(t)
	for n, c := range []struct {
		docs []string
		asked
	}{
		// A value is found as an element of a meta value, too.
		{[]string{`{m: ["a", "b"]}`, `{m: "a"}`, `{m: "b"}`}, asked{filter: `{m: "a"}`}},
		{[]string{`{m: [{x: 1}]}`, `{m: {x: 1}}`, `{m: [[{x: 1}]]}`}, asked{filter: `{m: {x: 1}}`}},
		{[]string{`{m: [{$maxKey: 1}]}`, `{m: {$maxKey: 1}}`, `{m: [2]}`}, asked{filter: `{m: {$maxKey: 1}}`}},
		// No time is in a range that ends before it begins.
		{[]string{`{m: 1}`, `{m: 1}`, `{m: 1}`, `{m: 1}`, `{m: 1}`}, asked{filter: `{t: {$gte: {$date: 3000}, $lte: {$date: 1000}}}`, sort: `{t: 1}`, limit: 3}},
		{[]string{`{m: 1}`, `{m: 1}`, `{m: 1}`, `{m: 1}`, `{m: 1}`}, asked{filter: `{m: 1, t: {$gte: {$date: 3000}, $lte: {$date: 1000}}}`, sort: `{t: -1}`}},
	} {
		t.Run(c.String(), func(t *testing.T) {
			w := newTwins(t, h, 2*n)
			var docs []bson.Doc
			for i, d := range c.docs {
				doc := parseDoc(t, d)
				b := new(bson.Builder).Int32("_id", int32(i))
				if !doc.Has("t") {
					b.Date("t", int64(i)*1000)
				}
				docs = append(docs, b.Fields(doc).Finish())
			}
			w.add(t, docs)
			w.compare(t, c.asked)
			w.seal(t)
			w.compare(t, c.asked)
			w.removeBy(t, c.filter)
			w.check(t)
		})
	}
}

// TestTimeSeriesReopens finds open and packed measurements again after a
// restart, and goes on with them.
func TestTimeSeriesReopens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fs := storage.NewMemFS()
		h := openHouse(t, fs)
		w := newTwins(t, h, 0)
		for range 2 {
			w.insert(t)
			if rapid.Bool().Draw(t, "seal") {
				w.seal(t)
			}
			w.insert(t)
			if rapid.Bool().Draw(t, "move") {
				w.move(t)
				w.insert(t)
			}
			w.h.close(t)
			w.h = openHouse(t, fs)
			w.latest()
			w.ask(t)
			w.check(t)
		}
		w.h.close(t)
	})
}

// TestTimeSeriesConcurrent reads while others insert, delete and seal: what was
// acknowledged before a read began is in it, once.
func TestTimeSeriesConcurrent(t *testing.T) {
	const writers, batches, batch = 3, 60, 40
	h := openHouse(t, storage.NewMemFS())
	defer h.close(t)
	c, err := h.catalog.Create(t.Context(), schema.Namespace{DB: "db", Coll: "c"}, parseDoc(t, `{timeseries: {timeField: "t", metaField: "m", granularity: "seconds"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var acked [writers]atomic.Int64
	var busy sync.WaitGroup
	for w := range writers {
		busy.Go(func() {
			for i := range batches {
				var ms []timeseries.Measurement
				for k := range batch {
					id := int64(i*batch + k)
					doc := new(bson.Builder).Int64("_id", id).Int32("w", int32(w)).Int32("m", int32(id%3)).Date("t", id*1000).Finish()
					m, err := timeseries.NewMeasurement(doc, c.Settings.Timeseries)
					if err != nil {
						t.Error(err)
						return
					}
					ms = append(ms, m)
				}
				u := h.exec.NewWriter(storage.Buffered)
				err := u.InsertMeasurements(t.Context(), c, ms)
				if err == nil {
					err = u.Commit(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				acked[w].Store(int64((i + 1) * batch))
				if i%20 == 19 {
					if err := h.catalog.SealAll(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
				if i%5 == 2 {
					if err := h.catalog.FlushStaged(t.Context(), c); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	read := func() (all int64) {
		var want [writers]int64
		for w := range writers {
			want[w] = acked[w].Load()
			all += want[w]
		}
		cur, err := h.exec.Find(t.Context(), c, asked{filter: `{}`}.query(t))
		if err != nil {
			t.Fatal(err)
		}
		defer cur.Close()
		seen := map[int64]bool{}
		for {
			d, err := cur.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d == nil {
				break
			}
			key := d.Lookup("_id").Int64()*writers + int64(d.Lookup("w").Int32())
			if seen[key] {
				t.Fatalf("%s twice", d)
			}
			seen[key] = true
		}
		for w := range writers {
			for id := range want[w] {
				if !seen[id*writers+int64(w)] {
					t.Fatalf("measurement %d of writer %d is not seen, of %d", id, w, want[w])
				}
			}
		}
		return all
	}
	for read() < writers*batches*batch && !t.Failed() {
	}
	busy.Wait()
}
