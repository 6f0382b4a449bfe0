package node

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/storage"
)

// answering is a node that is asked the same questions of the same documents
// kept in several ways:
//
//	plain      without an index but for those that $text and $near cannot do without
//	indexed    with indexes of any kind, made before or after the documents
//	clustered  the same, its records in the order of _id
//	view       a view of indexed
//	series     a time series
type answering struct {
	fs     *storage.MemFS
	engine *storage.Engine
	node   *Node
	client *command.Client
	// changed says that documents were changed since fill, but not those of the
	// time series.
	changed bool
}

func openAnswering(t testing.TB, fs *storage.MemFS) *answering { return openAnsweringAt(t, fs, nil) }

// openAnsweringAt has a clock of its own.
func openAnsweringAt(t testing.TB, fs *storage.MemFS, clock *catalog.Clock) *answering {
	e, c := replay.Open(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, catalog.Options{Clock: clock})
	n, client := over(c)
	n.JavaScript = NewJavaScript(n.Log, 8<<30, nil)
	n.Register(n.Dispatcher.Registry)
	return &answering{fs: fs, engine: e, node: n, client: client}
}

func (w *answering) close(t testing.TB) {
	w.node.Dispatcher.Cursors.CloseAll()
	if err := w.node.Catalog.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
}

// run answers a command; the error has MongoDB's code.
func (w *answering) run(t *rapid.T, format string, args ...any) (bson.Doc, error) {
	text := fmt.Sprintf(format, args...)
	body, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w.send(t, body)
}

// send is run of a command that is no text.
func (w *answering) send(t *rapid.T, body bson.Doc) (bson.Doc, error) {
	reply := w.node.Dispatcher.Dispatch(t.Context(), &command.Request{Client: w.client, DB: "d", Body: body}).Body
	if bson.ToDouble(reply.Lookup("ok")) != 1 { // an int of distinct on a time series
		return reply, fmt.Errorf("%s: %s", reply.Lookup("codeName"), reply.Lookup("errmsg").Str())
	}
	return reply, nil
}

func (w *answering) must(t *rapid.T, format string, args ...any) bson.Doc {
	reply, err := w.run(t, format, args...)
	if err != nil {
		t.Fatalf(format+": %v", append(args, err)...)
	}
	return reply
}

func propertyPattern(t *rapid.T, most int) string {
	var parts []string
	for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(propertyPaths), 1, most, rapid.ID).Draw(t, "paths") {
		parts = append(parts, fmt.Sprintf("%q: %d", p, rapid.SampledFrom([]int{1, -1}).Draw(t, "direction")))
	}
	return strings.Join(parts, ", ")
}

const letterless = "{locale: 'en', strength: 2}"

// indexKinds are the kinds of indexes: key and options.
var indexKinds = []func(t *rapid.T) (key, options string){
	func(t *rapid.T) (string, string) { return propertyPattern(t, 1), "" },
	func(t *rapid.T) (string, string) { return propertyPattern(t, 3), "" },
	func(t *rapid.T) (string, string) { return propertyPattern(t, 3), "sparse: true" },
	func(t *rapid.T) (string, string) { return propertyPattern(t, 2), "hidden: true" },
	func(t *rapid.T) (string, string) { return propertyPattern(t, 2), "collation: " + letterless },
	func(t *rapid.T) (string, string) {
		return "u: 1, " + propertyPattern(t, 1), "unique: true"
	},
	func(t *rapid.T) (string, string) {
		return "u: -1", "unique: true, partialFilterExpression: {u: {$gt: 20}}"
	},
	func(t *rapid.T) (string, string) {
		return propertyPattern(t, 2), "partialFilterExpression: " + anyOf("{a: {$gt: 1}}", "{b: {$exists: true}}", "{$or: [{a: 1}, {a: 2}]}", "{a: {$in: [1, 'a', null]}}",
			"{c: {$type: 'string'}}", "{a: {$lte: 'b'}, u: {$gte: 3}}", "{g: {$geoWithin: {$centerSphere: [[1, 1], 0.05]}}}", "{a: null}")(t)
	},
	func(t *rapid.T) (string, string) {
		return "'" + rapid.SampledFrom(propertyPaths).Draw(t, "hashed") + "': 'hashed'", ""
	},
	func(t *rapid.T) (string, string) {
		return anyOf("b: 1, a: 'hashed'", "a: 'hashed', u: -1", "u: 1, 'c.x': 'hashed', b: 1")(t), ""
	},
	func(t *rapid.T) (string, string) { return anyOf("'$**': 1", "'a.$**': 1", "'$**': -1")(t), "" },
	func(t *rapid.T) (string, string) {
		return "'$**': 1", "wildcardProjection: " + anyOf("{a: 1, 'b.x': 1}", "{c: 0, _id: 1}", "{b: 0}")(t)
	},
	func(t *rapid.T) (string, string) {
		return anyOf("u: 1, '$**': 1", "'$**': 1, u: -1")(t), "wildcardProjection: {u: 0}"
	},
	func(t *rapid.T) (string, string) { return anyOf("'a.$**': 1, b: 1", "b: -1, 'a.$**': 1, u: 1")(t), "" },
	func(t *rapid.T) (string, string) {
		return anyOf("g: '2dsphere'", "a: 1, g: '2dsphere'", "g: '2dsphere', u: -1")(t), ""
	},
	func(t *rapid.T) (string, string) { return anyOf("p: '2d'", "p: '2d', a: 1")(t), "" },
	func(t *rapid.T) (string, string) {
		return anyOf("s: 'text'", "s: 'text', a: 1", "s: 'text', 'a.x': 1, u: -1")(t), ""
	},
}

// index creates indexes of a collection, those that its documents allow.
func (w *answering) index(t *rapid.T, coll string, specs []string) {
	for _, s := range specs {
		_, _ = w.run(t, "{createIndexes: %q, indexes: [%s]}", coll, s)
	}
}

// fill makes the collections of one round.
func (w *answering) fill(t *rapid.T) {
	w.changed = false
	w.must(t, "{dropDatabase: 1}")
	specs := []string{"{key: {g: '2dsphere'}, name: 'g'}", "{key: {p: '2d'}, name: 'p'}", "{key: {s: 'text'}, name: 's'}"}
	w.must(t, "{create: 'plain'}")
	w.index(t, "plain", specs)
	w.must(t, "{create: 'indexed'}")
	w.must(t, "{create: 'clustered', clusteredIndex: {key: {_id: 1}, unique: true}}")
	w.must(t, "{create: 'view', viewOn: 'indexed', pipeline: []}")
	w.must(t, "{create: 'series', timeseries: {timeField: 'when', metaField: 'u'}}")
	if rapid.Bool().Draw(t, "special") {
		specs = specs[:0]
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "indexes") {
		key, options := rapid.SampledFrom(indexKinds).Draw(t, "kind")(t)
		specs = append(specs, fmt.Sprintf("{key: {%s}, name: 'i%d', %s}", key, i, options))
	}
	early := rapid.Bool().Draw(t, "indexes first")
	if early {
		w.index(t, "indexed", specs)
	}
	var docs []string
	for i := range rapid.IntRange(0, 25).Draw(t, "documents") {
		docs = append(docs, fmt.Sprintf("{_id: %d, when: ISODate('2024-01-01T00:00:%02dZ'), %s", i, i, propertyDocument(t)[1:]))
	}
	if len(docs) > 0 {
		w.must(t, "{insert: 'indexed', ordered: false, documents: [%s]}", strings.Join(docs, ", "))
		kept := w.must(t, "{find: 'indexed', hint: {$natural: 1}, batchSize: 1000}").Lookup("cursor").Doc().Lookup("firstBatch")
		if !kept.Doc().IsEmpty() {
			for _, coll := range []string{"plain", "clustered", "series"} {
				reply, err := w.send(t, new(bson.Builder).String("insert", coll).Value("documents", kept).Finish())
				if err != nil || reply.Has("writeErrors") {
					t.Fatalf("%s: %s", coll, reply)
				}
			}
		}
	}
	if !early {
		w.index(t, "indexed", specs)
	}
	w.index(t, "clustered", specs)
	w.index(t, "series", specs)
}

// question is a find, and what of it count and distinct take, too.
type question struct {
	filter, sort, projection, collation string
	skip, limit                         int
	ordered                             bool // the sort leaves no choice
}

// options are the fields of a find behind its collection.
func (q question) options() string {
	s := "filter: " + q.filter + q.also()
	if q.sort != "" {
		s += ", sort: " + q.sort
	}
	if q.projection != "" {
		s += ", projection: " + q.projection
	}
	return fmt.Sprintf("%s, skip: %d, limit: %d, batchSize: 1000", s, q.skip, q.limit)
}

// also is the collation.
func (q question) also() string {
	if q.collation == "" {
		return ""
	}
	return ", collation: " + q.collation
}

func propertyQuestion(t *rapid.T, op string) question {
	q := question{filter: propertyLeaf(t, op, 2)}
	if op == "$text" && rapid.Bool().Draw(t, "with") || op != "$text" && rapid.Bool().Draw(t, "and") {
		q.filter = "{$and: [" + q.filter + ", " + propertyFilter(t, 1) + "]}"
	}
	if rapid.IntRange(0, 2).Draw(t, "sorted") > 0 {
		q.sort = "{" + propertyPattern(t, 2) + "}"
		if q.ordered = rapid.IntRange(0, 3).Draw(t, "to the end") > 0; q.ordered {
			if !strings.Contains(q.sort, `"_id"`) {
				q.sort = strings.TrimSuffix(q.sort, "}") + ", _id: 1}"
			}
			q.skip, q.limit = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "skip"), rapid.SampledFrom([]int{0, 0, 1, 3, 30}).Draw(t, "limit")
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "collated") == 0 && op != "$text" {
		q.collation = letterless
	}
	if rapid.Bool().Draw(t, "projected") {
		q.projection = anyOf("{_id: 0, a: 1}", "{_id: 0, a: 1, b: 1}", "{_id: 0, 'a.x': 1}", "{_id: 0, c: 1, u: 1}", "{u: 1}", "{_id: 1}", "{_id: 0, 'b.x': 1, 'b.1': 1, u: 1}",
			"{a: 0}", "{a: {$slice: 1}, b: 1}", "{c: {$elemMatch: {x: {$gt: 0}}}}", "{n: {$add: ['$u', 1]}, _id: 0}", "{_id: 0, t: {$type: '$a'}}", "{_id: 0, u: 1, k: '$b.x'}")(t)
	}
	return q
}

// tidyDocs are documents with their top-level fields in the order of the names,
// as those of a covered plan come in the index's and those of a time series in
// its own; sorted unless their order was asked for.
func tidyDocs(list bson.Doc, ordered bool) []string {
	out := []string{}
	for v := range list.Values() {
		fields := []string{}
		for name, value := range v.Doc().All() {
			if name == "now" || value.Type == bson.TypeObjectID { // made on the way
				value = bson.String(value.Type.String())
			}
			fields = append(fields, fmt.Sprintf("%s %s %x", name, value, value.Data))
		}
		slices.Sort(fields)
		out = append(out, strings.Join(fields, ", "))
	}
	if !ordered {
		slices.Sort(out)
	}
	return out
}

func (w *answering) find(t *rapid.T, coll string, q question, more string) ([]string, error) {
	reply, err := w.run(t, "{find: %q, %s%s}", coll, q.options(), more)
	if err != nil {
		return nil, err
	}
	return tidyDocs(reply.Lookup("cursor").Doc().Lookup("firstBatch").Doc(), q.ordered), nil
}

// valueSet are values, each once, whatever stands for those that are equal.
func valueSet(list bson.Doc, field string) []string {
	var keys []string
	for v := range list.Values() {
		if field != "" {
			v = v.Doc().Lookup(field)
		}
		keys = append(keys, string(keystring.Append(nil, v, false, nil)))
	}
	slices.Sort(keys)
	return keys
}

// ask asks in every way there is.
func (w *answering) ask(t *rapid.T, q question) {
	needsIndex := strings.Contains(q.filter, "$near") || strings.Contains(q.filter, "$geoNear") || strings.Contains(q.filter, "$text")
	natural := ", hint: {$natural: 1}"
	if needsIndex {
		natural = ""
	}
	want, err := w.find(t, "plain", q, natural)
	if err != nil {
		return // of one that fails, plans may see the cause or not
	}
	check := func(coll, more string) {
		got, err := w.find(t, coll, q, more)
		if err != nil && needsIndex && strings.Contains(err.Error(), "index") {
			return
		}
		if err != nil || !slices.Equal(got, want) {
			w.fail(t, coll, fmt.Sprintf("{find: %q, %s%s}", coll, q.options(), more), got, want, err)
		}
	}
	for _, coll := range []string{"indexed", "clustered"} {
		for range 3 { // the second and the third may be from the plan cache
			check(coll, "")
		}
		if !needsIndex {
			check(coll, ", hint: {$natural: -1}")
			w.hinted(t, coll, q, check)
		}
		w.counts(t, coll, q, natural)
	}
	if !needsIndex {
		// A view has a collation of its own, and takes less than a find.
		if strings.Contains(q.projection, "$slice") || strings.Contains(q.projection, "$elemMatch") || strings.Contains(q.filter, "$where") {
			return
		}
		if q.collation == "" {
			check("view", "")
		}
		if !w.changed {
			check("series", "")
		}
	}
}

// hinted asks with every index that has all documents.
func (w *answering) hinted(t *rapid.T, coll string, q question, check func(coll, more string)) {
	for v := range w.must(t, "{listIndexes: %q}", coll).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		ix := v.Doc()
		partly := ix.Has("sparse") || ix.Has("partialFilterExpression") || ix.Has("hidden") || ix.Has("weights") || ix.Has("2dsphereIndexVersion")
		if key := ix.Lookup("key").String(); partly || strings.Contains(key, "$**") || strings.Contains(key, `"2d"`) {
			continue
		}
		check(coll, ", hint: "+ix.Lookup("name").String())
	}
}

// counts holds count, distinct and two pipelines to what they say of plain.
func (w *answering) counts(t *rapid.T, coll string, q question, natural string) {
	if strings.Contains(q.filter, "$near") || strings.Contains(q.filter, "$geoNear") {
		return
	}
	same := func(what string, pick func(bson.Doc) any) {
		want, err := w.run(t, what+natural+"}", "plain")
		if err != nil {
			return
		}
		got, err := w.run(t, what+"}", coll)
		if err != nil && strings.Contains(q.filter, "$text") {
			return
		}
		if err != nil || fmt.Sprint(pick(got)) != fmt.Sprint(pick(want)) {
			w.fail(t, coll, what, []string{got.String()}, []string{want.String()}, err)
		}
	}
	same("{count: %q, query: "+q.filter+q.also(), func(d bson.Doc) any { return d.Lookup("n") })
	for _, path := range []string{"a", "a.x", "u", "b.0"} {
		same("{distinct: %q, key: '"+path+"', query: "+q.filter+q.also(), func(d bson.Doc) any {
			if q.collation != "" { // any of those that are equal may stand for them
				return len(d.Lookup("values").Doc().Slice())
			}
			return valueSet(d.Lookup("values").Doc(), "")
		})
	}
	batch := func(d bson.Doc) bson.Doc { return d.Lookup("cursor").Doc().Lookup("firstBatch").Doc() }
	if q.collation == "" {
		same("{aggregate: %q, cursor: {}, pipeline: [{$match: "+q.filter+"}, {$group: {_id: '$a', n: {$sum: 1}}}]", func(d bson.Doc) any { return valueSet(batch(d), "_id") })
		same("{aggregate: %q, cursor: {}, pipeline: [{$match: "+q.filter+"}, {$sort: {u: 1, _id: 1}}, {$group: {_id: '$u', n: {$first: '$b'}}}, {$sort: {_id: 1}}]",
			func(d bson.Doc) any { return batch(d) })
	}
}

func (w *answering) fail(t *rapid.T, coll, what string, got, want []string, err error) {
	explained, _ := w.run(t, "{explain: %s}", what)
	indexes, _ := w.run(t, "{listIndexes: %q}", coll)
	t.Fatalf("%s of %s: %v\n%s\nnot\n%s\nindexes %s\nby %s", what, coll, err, strings.Join(got, "\n"), strings.Join(want, "\n"),
		indexes.Lookup("cursor"), explained.Lookup("queryPlanner"))
}

// sound holds every entry of every index to its document.
func (w *answering) sound(t *rapid.T, after string) {
	for _, coll := range []string{"plain", "indexed", "clustered", "series"} {
		if v := w.must(t, "{validate: %q, full: true}", coll); !v.Lookup("valid").Bool() || !v.Lookup("errors").Doc().IsEmpty() {
			t.Fatalf("%s after %s: %s", coll, after, v)
		}
	}
}

// TestSameAnswer asks questions of every operator, index by index, of documents
// that are kept in several ways, changes them with every operator, and opens
// the store again: the answers are the same everywhere and always.
func TestSameAnswer(t *testing.T) {
	fs := storage.NewMemFS()
	w := openAnswering(t, fs)
	defer func() { w.close(t) }()
	names, changes := allFilterOperators(), allUpdates()
	rapid.Check(t, func(rt *rapid.T) {
		w.fill(rt)
		ask := func() { w.ask(rt, propertyQuestion(rt, rapid.SampledFrom(names).Draw(rt, "operator"))) }
		for range 3 {
			ask()
		}
		same := true
		for range 3 {
			if same = w.change(rt, rapid.SampledFrom(changes).Draw(rt, "change")); !same {
				break
			}
			ask()
		}
		w.sound(rt, "updates")
		if same && rapid.IntRange(0, 7).Draw(rt, "restart") == 0 {
			w.close(t)
			w = openAnswering(t, fs)
			w.changed = true
			w.sound(rt, "a restart")
			ask()
		}
	})
}

// TestEveryOperatorIsAsked holds what TestSameAnswer draws from to the lists of
// operators.
func TestEveryOperatorIsAsked(t *testing.T) {
	listed := func(file string) (names []string) {
		text, err := os.ReadFile("../../docs/compat/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "$") {
				names = append(names, strings.TrimSpace(line))
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if names := listed("query-operators.txt"); !slices.Equal(names, allFilterOperators()) {
		t.Errorf("filters are made of %v\nnot of %v", allFilterOperators(), names)
	}
	for _, name := range listed("update-operators.txt") {
		if modifiers[name] == nil && updateStages[name] == nil {
			t.Errorf("no update is made with %s", name)
		}
	}
}
