package node

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// measured are a time series and an ordinary collection, plain, with the same measurements. What
// rules of the series hide is removed from plain. The clock stands still.
type measured struct {
	*answering
	meta      string       // the metaField, or a field of measurements where there is none
	metas     []bson.Value // what it may be
	plainMeta bool         // there is no metaField
	hides     []string     // deletes of plain
	ids       int
	coarse    bool // granularity and collMod are of the named kind
}

// measuredHour is an hour that is nearly over at measuredNow.
const (
	measuredHour = 1704106800000
	measuredNow  = measuredHour + 3599_500
)

// TestSameSeries asks a time series the same as an ordinary collection: of meta values of every type,
// times at the edges of buckets and of what a Date can be, sealed and open, hidden by rules, by every
// index, changed and deleted. The answers are the same.
func TestSameSeries(t *testing.T) {
	fs := storage.NewMemFS()
	clock := catalog.NewClock(func() time.Time { return time.UnixMilli(measuredNow) })
	w := measured{answering: openAnsweringAt(t, fs, clock)}
	defer func() { w.close(t) }()
	rapid.Check(t, func(rt *rapid.T) {
		w.create(rt)
		same := true
		for range rapid.IntRange(1, 4).Draw(rt, "steps") {
			w.insert(rt)
			if rapid.IntRange(0, 2).Draw(rt, "sealed") > 0 {
				w.must(rt, "{aggregate: 'system.buckets.series', pipeline: [], cursor: {}}")
			}
			if rapid.IntRange(0, 3).Draw(rt, "granularity") == 0 {
				w.coarser(rt)
			}
			w.question(rt)
			w.pipeline(rt)
			if rapid.IntRange(0, 3).Draw(rt, "in batches") == 0 {
				w.batches(rt)
			}
			if rapid.Bool().Draw(rt, "changed") {
				if same = w.mutate(rt); !same {
					break
				}
			}
			w.question(rt)
			w.whole(rt)
		}
		if same && rapid.IntRange(0, 15).Draw(rt, "restart") == 0 {
			w.close(t)
			w.answering = openAnsweringAt(t, fs, clock)
			w.question(rt)
			w.whole(rt)
		}
	})
}

// create makes the collections of a round.
func (w *measured) create(t *rapid.T) {
	w.must(t, "{dropDatabase: 1}")
	w.ids, w.hides = 0, nil
	w.meta = rapid.SampledFrom([]string{"u", "a", "a", "b", "c", "s"}).Draw(t, "metaField")
	w.metas = nil
	for range rapid.IntRange(1, 4).Draw(t, "sources") {
		v := bson.Value{}
		if rapid.IntRange(0, 5).Draw(t, "present") > 0 {
			text := propertyValue(2).Draw(t, "meta")
			if rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
				text = oddStrings.Draw(t, "meta")
			}
			v = measuredDoc(t, "{v: "+text+"}").Lookup("v")
		}
		w.metas = append(w.metas, v)
	}
	w.plainMeta = rapid.IntRange(0, 7).Draw(t, "without metaField") == 0
	metaField := fmt.Sprintf("metaField: %q, ", w.meta)
	if w.plainMeta {
		metaField = ""
	}
	collation := anyOf("", "", "", "collation: "+letterless)(t)
	w.coarse = rapid.Bool().Draw(t, "named")
	span := anyOf("bucketMaxSpanSeconds: 1, bucketRoundingSeconds: 1", "bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600", "bucketMaxSpanSeconds: 100000, bucketRoundingSeconds: 100000")(t)
	if w.coarse {
		span = anyOf("granularity: 'seconds'", "granularity: 'minutes'", "granularity: 'hours'")(t)
	}
	rules := ""
	hidden := rapid.Bool().Draw(t, "hidden")
	if hidden {
		rules = "storageEngine: {mayfly: {expiry: {visibility: 'immediate'}}}, "
		if rapid.Bool().Draw(t, "of all") {
			rules += "expireAfterSeconds: 3600, "
			w.hides = append(w.hides, fmt.Sprintf("{q: {when: {$lte: %s}}, limit: 0}", measuredDate(measuredNow-3600_000)))
		}
	}
	w.must(t, "{create: 'plain', %s}", collation)
	w.must(t, "{create: 'series', timeseries: {timeField: 'when', %s%s}, %s%s}", metaField, span, rules, collation)
	w.must(t, "{insert: 'keys', documents: [{_id: 0, k: 1}, {_id: 1, k: 'a'}, {_id: 2, k: null}, {_id: 3}, {_id: 4, k: [1, 'A']}, {_id: 5, k: {x: 1}}]}")
	if hidden && !w.plainMeta && rapid.Bool().Draw(t, "of some") {
		filter := fmt.Sprintf("{%q: %s}", w.meta, anyOf("{$gt: 1}", "'a'", "{$in: [1, 'b', null]}", "{$exists: true}", "{$gte: 'a', $lt: 'b'}", "{$type: 'array'}")(t))
		w.must(t, "{createIndexes: 'series', indexes: [{key: {when: 1}, name: 'some', expireAfterSeconds: 1, partialFilterExpression: %s}]}", filter)
		w.hides = append(w.hides, fmt.Sprintf("{q: {$and: [%s, {when: {$lte: %s}}]}, limit: 0}", filter, measuredDate(measuredNow-1000)))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "indexes") {
		key, options := rapid.SampledFrom(indexKinds).Draw(t, "kind")(t)
		key = strings.ReplaceAll(strings.ReplaceAll(key, `"c"`, `"when"`), `"_id"`, `"s"`)
		w.index(t, "series", []string{fmt.Sprintf("{key: {%s}, name: 'i%d', %s}", key, i, options)})
	}
}

// coarser makes the buckets of later measurements longer, where that is allowed.
func (w *measured) coarser(t *rapid.T) {
	if w.coarse {
		_, _ = w.run(t, "{collMod: 'series', timeseries: {granularity: %q}}", anyOf("minutes", "hours")(t))
		return
	}
	_, _ = w.run(t, "{collMod: 'series', timeseries: {%s}}", anyOf("bucketMaxSpanSeconds: 3600, bucketRoundingSeconds: 3600", "bucketMaxSpanSeconds: 200000, bucketRoundingSeconds: 200000")(t))
}

// measuredTime is a time at which something may go wrong.
func measuredTime(t *rapid.T) int64 {
	if rapid.IntRange(0, 3).Draw(t, "far") == 0 {
		return rapid.SampledFrom([]int64{0, -1, 1, -62135596800000, 253402300799999, 1 << 32 * 1000, 1<<32*1000 - 1, 1 << 31 * 1000, -3600_000, -3600_001,
			math.MinInt64, math.MaxInt64, math.MinInt64 + 1, math.MaxInt64 - 1, math.MinInt64 + 3600_000}).Draw(t, "time")
	}
	return measuredHour + rapid.SampledFrom([]int64{0, 0, 60_000, 3600_000, -3600_000, 86400_000}).Draw(t, "hour") + rapid.Int64Range(-2, 2).Draw(t, "ms") +
		rapid.SampledFrom([]int64{0, 0, 500, 999, 59_000, 3599_000}).Draw(t, "part")
}

func measuredDate(at int64) string { return fmt.Sprintf(`{$date: {$numberLong: "%d"}}`, at) }

// oddStrings are such as a prefix or a byte may go wrong with; two tildes stand for bytes that are no UTF-8.
var oddStrings = rapid.SampledFrom([]string{"'a'", "'A'", "'a\\ufffd'", "'a\\ufffdb'", "'a\\uffff'", "'a\\udbff\\udfff'", "'a~~'", "'~~'", "'a~~b'", "'ab'", "''", "'b'", "'\\ufffd'"})

var oddConditions = anyOf("{s: /^a/}", "{s: /^a\\ufffd/}", "{s: {$regex: '^\\ufffd'}}", "{s: {$gte: 'a\\ufffd', $lt: 'b'}}", "{s: /^a\\udbff\\udfff/}", "{s: {$not: /^a/}}", "{s: {$in: [/^a\\uffff/, 'b']}}", "{s: 'a'}",
	"{s: {$lt: 'a\\ufffd'}}", "{s: {$gt: 'a\\udbff\\udfff'}}", "{s: {$regex: '^A', $options: 'i'}}")

// insert adds some measurements to both, in one or several commands.
func (w *measured) insert(t *rapid.T) {
	o := w.node.Catalog.Lookup(schema.Namespace{DB: "d", Coll: "series"}).Settings.Timeseries
	var b bson.Builder
	b.Reset(nil)
	var docs []bson.Doc
	for i := range rapid.IntRange(1, 12).Draw(t, "measurements") {
		text := propertyDocument(t)
		odd := ""
		if !strings.Contains(text, "s: '") && rapid.Bool().Draw(t, "odd") {
			odd = "s: " + oddStrings.Draw(t, "string") + ", "
		}
		var one bson.Builder
		for name, v := range measuredDoc(t, fmt.Sprintf("{_id: %d, when: %s, %s%s", w.ids, measuredDate(measuredTime(t)), odd, text[1:])).All() {
			if name != w.meta {
				one.Value(name, v)
			}
		}
		d := one.Value(w.meta, rapid.SampledFrom(w.metas).Draw(t, "source")).Finish()
		w.ids++
		m, err := timeseries.NewMeasurement(d, o)
		if err != nil {
			t.Fatal(err)
		}
		b.Doc(bson.Index(i), d)
		docs = append(docs, m.Doc)
	}
	reply, err := w.send(t, new(bson.Builder).String("insert", "series").Array("documents", b.Finish()).Bool("ordered", false).Finish())
	if err != nil {
		t.Fatal(err)
	}
	if errs := reply.Lookup("writeErrors"); errs.Type == bson.TypeArray { // an index may refuse one
		for e := range errs.Doc().Values() {
			docs[e.Doc().Lookup("index").Int32()] = nil
		}
	}
	for _, d := range docs {
		if d == nil {
			continue
		}
		if reply, err := w.send(t, new(bson.Builder).String("insert", "plain").OpenArray("documents").Doc("0", d).Close().Finish()); err != nil || reply.Has("writeErrors") {
			t.Fatal(reply)
		}
	}
	w.hide(t)
}

// measuredDoc parses a document.
func measuredDoc(t *rapid.T, text string) bson.Doc {
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return bytes.ReplaceAll(d, []byte("~~"), []byte("\xff\xfe"))
}

// hide removes from plain what is hidden in the series.
func (w *measured) hide(t *rapid.T) {
	if w.hides != nil {
		w.must(t, "{delete: 'plain', deletes: [%s]}", strings.Join(w.hides, ", "))
	}
}

// condition draws a filter on times; no collection has a better answer for what lies outside of all of them.
func measuredCondition(t *rapid.T) string {
	date := func() string { return measuredDate(measuredTime(t)) }
	switch rapid.IntRange(0, 9).Draw(t, "condition") {
	case 0:
		return "{when: " + date() + "}"
	case 1:
		return fmt.Sprintf("{when: {$in: [%s, %s, null]}}", date(), date())
	case 2:
		return fmt.Sprintf("{$expr: {%s: ['$when', %s]}}", anyOf("$gte", "$lt", "$eq", "$ne")(t), date())
	case 3:
		return fmt.Sprintf("{when: {%s: %s}}", anyOf("$gt", "$gte", "$lt", "$lte", "$ne")(t), date())
	case 4:
		return fmt.Sprintf("{$or: [{when: {$lt: %s}}, {when: {$gt: %s}}]}", date(), date())
	case 5:
		return fmt.Sprintf("{when: {$not: {$gt: %s}}}", date())
	case 6:
		return "{when: " + anyOf("{$type: 'date'}", "{$gte: null}", "{$gt: 5}", "{$exists: false}", "{$lt: Timestamp(1, 2)}", "{$gte: MinKey}", "{$lt: MaxKey}", "{$lte: 'x'}")(t) + "}"
	case 7:
		return oddConditions(t)
	}
	return fmt.Sprintf("{when: {%s: %s, %s: %s}}", anyOf("$gt", "$gte")(t), date(), anyOf("$lt", "$lte")(t), date())
}

// filter draws a filter of measurements.
func (w *measured) filter(t *rapid.T) string {
	f := propertyFilter(t, rapid.IntRange(0, 2).Draw(t, "depth"))
	if rapid.Bool().Draw(t, "by meta") {
		f = w.metaFilter(t)
	}
	if rapid.IntRange(0, 2).Draw(t, "timed") > 0 {
		f = "{$and: [" + f + ", " + measuredCondition(t) + "]}"
	}
	return f
}

// metaFilter draws one that is on the meta value alone.
func (w *measured) metaFilter(t *rapid.T) string {
	path := w.meta + anyOf("", "", ".x", ".0", ".y.x")(t)
	return fmt.Sprintf("{%q: %s}", path, leafOperator(t))
}

// question asks for documents, how many there are, and which values they have.
func (w *measured) question(t *rapid.T) {
	q := propertyQuestion(t, "$eq")
	q.filter = w.filter(t)
	if strings.Contains(q.projection, "$slice") || strings.Contains(q.projection, "$elemMatch") { // a series takes those of a pipeline
		q.projection = ""
	}
	switch rapid.IntRange(0, 4).Draw(t, "by time") {
	case 0: // those of one time come in any order
		q.sort, q.projection, q.ordered = anyOf("{when: 1}", "{when: -1}")(t), "{_id: 0, when: 1}", true
		q.skip, q.limit = rapid.SampledFrom([]int{0, 2}).Draw(t, "skip"), rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "limit")
	case 1:
		q.sort, q.ordered = anyOf("{when: 1, _id: 1}", "{META: 1, when: -1, _id: 1}", "{META: -1, when: 1, _id: -1}", "{'META.x': 1, when: 1, _id: 1}", "{META: 1, _id: 1}")(t), true
		q.sort = strings.ReplaceAll(q.sort, "META", w.meta)
		q.limit = rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "limit")
	}
	want, err := w.find(t, "plain", q, ", hint: {$natural: 1}")
	if err != nil {
		return
	}
	check := func(coll, more string) {
		got, err := w.find(t, coll, q, more)
		if err != nil || !slices.Equal(got, want) {
			w.fail(t, coll, fmt.Sprintf("{find: %q, %s%s}", coll, q.options(), more), got, want, err)
		}
	}
	check("series", "")
	check("series", ", hint: {$natural: "+anyOf("1", "-1")(t)+"}")
	w.hinted(t, "series", q, check)
	if q.collation != "" || !w.collated() {
		w.counts(t, "series", q, ", hint: {$natural: 1}")
		w.values(t, q)
	}
}

// values asks for the values of a path, and for a part of how many documents there are.
func (w *measured) values(t *rapid.T, q question) {
	for _, what := range []string{
		fmt.Sprintf("{distinct: %%q, key: %q, query: %s%s}", anyOf("when", w.meta, w.meta+".x", w.meta+".0", "s", "c.x")(t), q.filter, q.also()),
		fmt.Sprintf("{count: %%q, query: %s, skip: 1, limit: 3%s}", q.filter, q.also()),
	} {
		want, err := w.run(t, what, "plain")
		if err != nil {
			continue
		}
		got, err := w.run(t, what, "series")
		same := err == nil && got.Lookup("n").String() == want.Lookup("n").String()
		if v := want.Lookup("values"); same && v.Type == bson.TypeArray {
			x, y := valueSet(got.Lookup("values").Doc(), ""), valueSet(v.Doc(), "")
			same = len(x) == len(y) && (q.collation != "" || slices.Equal(x, y))
		}
		if !same {
			w.fail(t, "series", what, []string{got.String()}, []string{want.String()}, err)
		}
	}
}

// batches reads the series in several batches, between which it changes: the cursor goes on with what
// there was.
func (w *measured) batches(t *rapid.T) {
	if w.hides != nil {
		return
	}
	q := question{filter: w.filter(t), sort: anyOf("", "{when: 1}", "{when: -1}", "{_id: 1}")(t)}
	options := "filter: " + q.filter
	if q.sort != "" {
		options += ", sort: " + q.sort
	}
	want, err := w.find(t, "plain", question{filter: q.filter}, "")
	if err != nil {
		return
	}
	cursor := w.must(t, "{find: 'series', %s, batchSize: 1}", options).Lookup("cursor").Doc()
	all := cursor.Lookup("firstBatch").Doc().Slice()
	w.insert(t)
	switch rapid.IntRange(0, 2).Draw(t, "meanwhile") {
	case 0:
		w.must(t, "{aggregate: 'system.buckets.series', pipeline: [], cursor: {}}")
	case 1:
		w.both(t, fmt.Sprintf("{delete: %%q, deletes: [{q: %s, limit: 0}]}", w.filter(t)))
	}
	for id := cursor.Lookup("id").Int64(); id != 0; id = cursor.Lookup("id").Int64() {
		cursor = w.must(t, "{getMore: {$numberLong: '%d'}, collection: 'series', batchSize: 2}", id).Lookup("cursor").Doc()
		all = append(all, cursor.Lookup("nextBatch").Doc().Slice()...)
	}
	if got := tidyDocs(bson.Array(all...).Doc(), false); !slices.Equal(got, want) {
		t.Fatalf("{find: 'series', %s} in batches:\n%s\nnot\n%s", options, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// both runs what may be refused in both.
func (w *measured) both(t *rapid.T, text string) {
	for _, coll := range []string{"plain", "series"} {
		_, _ = w.run(t, text, coll)
	}
}

// collated reports whether the collections have a collation.
func (w *measured) collated() bool {
	return w.node.Catalog.Lookup(schema.Namespace{DB: "d", Coll: "plain"}).Settings.Collation != nil
}

// measuredStages are pipelines over COLL, whose meta value is META, another of its fields FIELD.
var measuredStages = []string{
	"{$match: FILTER}, {$group: {_id: '$META', n: {$sum: 1}, lo: {$min: '$FIELD'}, hi: {$max: '$FIELD'}, first: {$min: '$when'}, last: {$max: '$when'}}}",
	"{$match: FILTER}, {$group: {_id: null, lo: {$min: '$META'}, hi: {$max: '$META.x'}, n: {$count: {}}}}",
	"{$group: {_id: null, lo: {$min: '$FIELD'}, hi: {$max: '$FIELD'}, n: {$sum: '$u'}, t: {$max: '$when'}}}",
	"{$group: {_id: {$dateTrunc: {date: '$when', unit: 'minute'}}, lo: {$min: '$FIELD.x'}, hi: {$max: '$META'}, n: {$sum: 1}}}",
	"{$match: FILTER}, {$group: {_id: {m: '$META', at: {$dateTrunc: {date: '$when', unit: 'hour'}}}, hi: {$max: '$FIELD'}, n: {$sum: 2}}}",
	"{$match: FILTER}, {$sort: {when: 1, _id: 1}}, {$group: {_id: '$META', f: {$first: '$_id'}, l: {$last: '$FIELD'}}}",
	"{$match: FILTER}, {$sort: {META: 1, when: -1}}, {$group: {_id: '$META', t: {$first: '$when'}}}",
	"{$sort: {when: -1}}, {$group: {_id: '$META.x', t: {$first: '$when'}, n: {$sum: 1}}}",
	"{$sort: {when: 1}}, {$group: {_id: {x: '$META.x', y: '$META.y'}, t: {$last: '$when'}}}",
	"{$match: FILTER}, {$group: {_id: '$META', t: {$top: {sortBy: {when: -1}, output: '$when'}}}}",
	"{$match: FILTER}, {$group: {_id: '$META', t: {$bottom: {sortBy: {when: -1, _id: 1}, output: '$_id'}}}}",
	"{$match: FILTER}, {$group: {_id: {$dateTrunc: {date: '$when', unit: UNIT}}, lo: {$min: '$when'}, n: {$sum: 1}, f: {$max: '$FIELD'}}}",
	"{$match: FILTER}, {$group: {_id: '$META', n: {$sum: {$cond: [{$gt: ['$FIELD', 1]}, 1, 0]}}, hi: {$max: {$add: ['$u', 1]}}, t: {$min: {$type: '$FIELD'}}, a: {$avg: '$u'}, y: {$max: {$year: '$when'}}}}",
	"{$group: {_id: {$cond: [{$gt: ['$FIELD', 1]}, '$META', null]}, s: {$sum: {$multiply: ['$u', 2]}}, x: {$max: {$ifNull: ['$FIELD.x', '$META']}}, i: {$min: '$_id'}}}",
	"{$match: FILTER}, {$group: {_id: '$FIELD.x', m: {$addToSet: '$META'}, e: {$max: {$arrayElemAt: [['$u', '$_id'], 0]}}}}, {$set: {m: {$size: '$m'}}}",
	"{$setWindowFields: {partitionBy: '$META', sortBy: {when: 1, _id: 1}, output: {n: {$sum: 1, window: {documents: ['unbounded', 'current']}}}}}, {$group: {_id: '$_id', n: {$max: '$n'}}}",
	"{$match: FILTER}, {$count: 'n'}",
	"{$count: 'n'}",
	"{$match: FILTER}, {$sort: {when: -1, _id: 1}}, {$limit: 3}, {$replaceWith: {id: '$_id', f: '$FIELD'}}",
	"{$set: {k: '$META'}}, {$match: {k: 1}}, {$group: {_id: '$FIELD', n: {$sum: 1}}}",
	"{$facet: {n: [{$count: 'n'}], t: [{$group: {_id: null, t: {$max: '$when'}}}]}}",
	"{$match: FILTER}, {$sortByCount: '$META'}, {$project: {count: 1}}, {$sort: {count: 1}}",
	"{$unionWith: {coll: 'COLL', pipeline: [{$match: FILTER}]}}, {$group: {_id: '$_id', n: {$sum: 1}}}",
	"KEYS {$lookup: {from: 'COLL', localField: 'k', foreignField: 'META', as: 'r'}}, {$project: {r: {$sortArray: {input: '$r._id', sortBy: 1}}}}",
	"KEYS {$lookup: {from: 'COLL', localField: 'k', foreignField: 'FIELD', as: 'r', pipeline: [{$match: FILTER}]}}, {$project: {r: {$sortArray: {input: '$r._id', sortBy: 1}}}}",
	"KEYS {$lookup: {from: 'COLL', let: {k: '$k'}, as: 'r', pipeline: [{$match: {$expr: {$eq: ['$META', '$$k']}}}, {$sort: {when: -1, _id: 1}}, {$limit: 1}]}}, {$project: {r: '$r._id'}}",
}

// pipeline asks for what a pipeline makes of both.
func (w *measured) pipeline(t *rapid.T) {
	if w.collated() {
		return // of what is equal by a collation any may stand for the others
	}
	stages := strings.NewReplacer("META", w.meta, "FIELD", anyOf("a", "b", "c", "u", "s")(t), "FILTER", w.filter(t),
		"UNIT", anyOf("'week'", "'week', startOfWeek: 'tuesday'", "'month'", "'quarter'", "'year'", "'day', binSize: 3", "'second', binSize: 7", "'millisecond', binSize: 13", "'month', binSize: 5", "'year', binSize: 7")(t)).Replace(rapid.SampledFrom(measuredStages).Draw(t, "stages"))
	of := func(coll string) ([]string, error) {
		text := strings.ReplaceAll(stages, "COLL", coll)
		from := coll
		if rest, ok := strings.CutPrefix(text, "KEYS "); ok {
			from, text = "keys", rest
		}
		reply, err := w.run(t, "{aggregate: %q, pipeline: [%s], cursor: {batchSize: 1000}}", from, text)
		if err != nil {
			return nil, err
		}
		return valueSet(reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc(), ""), nil
	}
	want, err := of("plain")
	if err != nil {
		return
	}
	got, err := of("series")
	if err != nil || !slices.Equal(got, want) {
		show := func(coll string) []string {
			reply, _ := w.run(t, "{aggregate: %q, pipeline: [%s], cursor: {batchSize: 1000}}", coll, strings.ReplaceAll(strings.TrimPrefix(stages, "KEYS "), "COLL", coll))
			return []string{reply.String()}
		}
		w.fail(t, "series", fmt.Sprintf("{aggregate: 'series', cursor: {}, pipeline: [%s]}", strings.TrimPrefix(stages, "KEYS ")), show("series"), show("plain"), err)
	}
}

// mutate deletes or updates the same in both; false where that was refused.
func (w *measured) mutate(t *rapid.T) bool {
	collation := anyOf("", "", ", collation: "+letterless)(t)
	one := fmt.Sprintf("{_id: %d, $and: [%s]}", rapid.IntRange(0, w.ids).Draw(t, "_id"), w.filter(t))
	meta := func(change string) string {
		return fmt.Sprintf("{update: %%q, updates: [{q: %s, u: %s, multi: true%s}]}", anyOf("{}", w.metaFilter(t), fmt.Sprintf("{$or: [%s, %s]}", w.metaFilter(t), w.metaFilter(t)))(t), strings.ReplaceAll(change, "META", w.meta), collation)
	}
	value := propertyValue(1).Draw(t, "value")
	text, most := "", 4
	if w.plainMeta {
		most = 2
	}
	switch rapid.IntRange(0, most).Draw(t, "change") {
	case 0:
		text = fmt.Sprintf("{delete: %%q, deletes: [{q: %s, limit: 0%s}]}", w.filter(t), collation)
	case 1:
		text = fmt.Sprintf("{delete: %%q, deletes: [{q: %s, limit: 1%s}]}", one, collation)
	case 2:
		text = fmt.Sprintf("{findAndModify: %%q, query: %s, remove: true%s}", one, collation)
	default:
		text = meta(anyOf("{$set: {META: "+value+"}}", "{$set: {'META.x': "+value+"}}", "{$unset: {META: 1}}", "{$unset: {'META.x': 1}}", "{$inc: {'META': 1}}", "{$rename: {'META.x': 'META.y'}}",
			"{$max: {META: "+value+"}}", "{$push: {META: "+value+"}}", "{$pop: {META: 1}}", "{$set: {'META.$[]': 7}}", "{$set: {META: {y: 1, x: "+value+"}}}")(t))
	}
	before := w.left(t, "series")
	want, no := w.did(t, "plain", text)
	got, refused := w.did(t, "series", text)
	if no || refused {
		if refused && !no && !strings.Contains(got, "Ambiguous field name") && !strings.Contains(got, "index") {
			t.Fatalf(text+" is refused: %s", "series", got)
		}
		return false
	}
	w.normal(t)
	w.hide(t)
	if left, keeps := w.left(t, "series"), w.left(t, "plain"); got != want || !slices.Equal(left, keeps) {
		t.Fatalf(text+": %s\n%s\nnot %s\n%s\nof\n%s", "series", got, strings.Join(left, "\n"), want, strings.Join(keeps, "\n"), strings.Join(before, "\n"))
	}
	return true
}

// did is what a statement replies.
func (w *measured) did(t *rapid.T, coll, text string) (reply string, refused bool) {
	d, err := w.run(t, text, coll)
	if errs := d.Lookup("writeErrors"); err == nil && errs.Type == bson.TypeArray {
		err = errors.New(errs.String())
	}
	if err != nil {
		return err.Error(), true
	}
	reply = d.Lookup("n").String() + " " + d.Lookup("nModified").String()
	if v := d.Lookup("value"); v.Type == bson.TypeDocument {
		reply += " " + v.Doc().Lookup("_id").String()
	}
	return reply, false
}

// left are the documents of a collection.
func (w *measured) left(t *rapid.T, coll string) []string {
	return tidyDocs(w.all(t, coll), true)
}

// all are the documents of a collection, in the order of their _ids.
func (w *measured) all(t *rapid.T, coll string) bson.Doc {
	return w.must(t, "{find: %q, sort: {_id: 1}, batchSize: 1000}", coll).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
}

// normal gives the meta values of plain their fields by name, as those of a time series have them.
func (w *measured) normal(t *rapid.T) {
	for v := range w.all(t, "plain").Values() {
		var b bson.Builder
		for name, v := range v.Doc().All() {
			if name == w.meta && !w.plainMeta {
				v = timeseries.NormalMeta(v)
			}
			b.Value(name, v)
		}
		d := b.Finish()
		if bytes.Equal(d, v.Doc()) {
			continue
		}
		u := new(bson.Builder).String("update", "plain").OpenArray("updates").OpenDoc("0").OpenDoc("q").Value("_id", d.Lookup("_id")).Close().Doc("u", d)
		if reply, err := w.send(t, u.Close().Close().Finish()); err != nil || reply.Has("writeErrors") {
			t.Fatal(reply)
		}
	}
}

// whole holds the series to its counts and its buckets.
func (w *measured) whole(t *rapid.T) {
	if v := w.must(t, "{validate: 'series', full: true}"); !v.Lookup("valid").Bool() || !v.Lookup("errors").Doc().IsEmpty() {
		t.Fatalf("%s", v)
	}
	n := w.must(t, "{count: 'plain'}").Lookup("n").Int32()
	if got := w.must(t, "{count: 'series'}").Lookup("n").Int32(); got != n {
		t.Fatalf("the series has %d measurements, not %d", got, n)
	}
	if w.hides != nil || rapid.Bool().Draw(t, "buckets") {
		return
	}
	batch := w.must(t, "{aggregate: 'system.buckets.series', pipeline: [{$group: {_id: null, n: {$sum: '$control.count'}}}], cursor: {}}").Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	var all int64
	for v := range batch.Values() {
		all = bson.ClampToInt64(v.Doc().Lookup("n"))
	}
	if all != int64(n) {
		t.Fatalf("buckets have %d measurements, not %d", all, n)
	}
}
