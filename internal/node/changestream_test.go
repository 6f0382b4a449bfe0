package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
)

// watcher is a change stream of a test: it keeps its position as a driver does.
type watcher struct {
	s     *testSet
	name  string
	db    string
	coll  string // of getMore
	id    int64
	token bson.Doc
	reply bson.Doc
	each  func(d bson.Doc) // event; nil for nothing
}

// watch opens a stream; target is a collection in quotes, or 1.
func (s *testSet) watch(name, db, target, options, rest string) *watcher {
	w := &watcher{s: s, name: name, db: db, coll: strings.Trim(target, `"`)}
	if target == "1" {
		w.coll = "$cmd.aggregate"
	}
	w.reply = s.run(name, db, fmt.Sprintf(`{"aggregate":%s,"pipeline":[{"$changeStream":%s}%s],"cursor":{}}`, target, options, rest))
	if w.reply.Lookup("ok").Double() == 1 {
		w.took()
	}
	return w
}

// took reads id and token of the last reply, and returns its events.
func (w *watcher) took() []bson.Doc {
	w.s.t.Helper()
	docs, id := batch(w.s.t, w.reply)
	w.id = id
	token := w.reply.Lookup("cursor").Doc().Lookup("postBatchResumeToken")
	if token.Type != bson.TypeDocument {
		w.s.t.Fatalf("no postBatchResumeToken: %s", w.reply)
	}
	w.token = token.Doc().Clone()
	return docs
}

// more returns what the next batch has.
func (w *watcher) more(ms int) []bson.Doc {
	w.s.t.Helper()
	w.reply = w.s.run(w.name, w.db, fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":%q,"maxTimeMS":%d}`, w.id, w.coll, ms))
	if w.reply.Lookup("ok").Double() != 1 {
		return nil
	}
	return w.took()
}

// events waits for a number of events, and returns them in short: {operationType, key}.
func (w *watcher) events(n int) string {
	w.s.t.Helper()
	var all []string
	for len(all) < n {
		docs := w.more(60_000)
		if w.reply.Lookup("ok").Double() != 1 {
			w.s.t.Fatalf("after %v: %s", all, w.reply)
		}
		for _, d := range docs {
			all = append(all, short(d))
			if w.each != nil {
				w.each(d)
			}
		}
		if w.id == 0 {
			break
		}
	}
	return strings.Join(all, " ")
}

func short(d bson.Doc) string {
	kind := d.Lookup("operationType").Str()
	if key := d.Lookup("documentKey"); key.Type == bson.TypeDocument {
		kind += ":" + key.Doc().Lookup("_id").String()
	}
	return kind
}

func resume(option string, token bson.Doc) string {
	return `{"` + option + `":` + string(token.AppendJSON(nil, bson.CanonicalJSON)) + `}`
}

// A stream tells of each write once and in order, wakes up for it, ends with the
// collection, and goes on behind each of its tokens, as MongoDB's does.
func TestChangeStream(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":0}]}`)
	w := s.watch("a", "d", `"c"`, `{}`, ``)
	if docs, _ := batch(t, w.reply); len(docs) != 0 || w.id == 0 {
		t.Fatalf("a new stream: %s", w.reply)
	}
	opened := w.token
	heard := make(chan string, 1)
	go func() { heard <- w.events(1) }()
	s.run("a", "d", `{"insert":"c","documents":[{"_id":1}]}`)
	if got := <-heard; got != "insert:1" {
		t.Errorf("woken by %s", got)
	}
	afterInsert := w.token
	s.run("a", "d", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":1}}},{"q":{"_id":1},"u":{"b":1}}]}`)
	s.run("a", "e", `{"insert":"c","documents":[{"_id":1}]}`)
	s.run("a", "d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	s.run("a", "d", `{"drop":"c"}`)
	const rest = "update:1 replace:1 delete:1 drop invalidate"
	var dropped bson.Doc
	w.each = func(d bson.Doc) {
		if d.Lookup("operationType").Str() == "drop" {
			dropped = d.Lookup("_id").Doc().Clone()
		}
	}
	if got := w.events(5); got != rest || w.id != 0 {
		t.Errorf("%s, cursor %d", got, w.id)
	}
	invalidate := w.token
	s.run("a", "d", `{"insert":"c","documents":[{"_id":2}]}`)
	for _, c := range []struct {
		what, options, want string
		n                   int
	}{
		{"behind the first mark", resume("resumeAfter", opened), "insert:1 " + rest, 6},
		{"behind the insert", resume("resumeAfter", afterInsert), rest, 5},
		{"behind the invalidate", resume("startAfter", invalidate), "insert:2", 1},
		{"behind the drop", resume("resumeAfter", dropped), "invalidate", 1},
	} {
		w := s.watch("a", "d", `"c"`, c.options, ``)
		docs, _ := batch(t, w.reply)
		got := ""
		for _, d := range docs {
			got += " " + short(d)
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: %s", c.what, got)
		}
	}
	s.run("a", "d", `{"insert":"other","documents":[{"_id":1}]}`)
	for _, c := range []struct {
		what, target, options, rest string
		code                        int32
	}{
		{"resumeAfter an invalidate", `"c"`, resume("resumeAfter", invalidate), ``, 260},
		{"a token of another collection", `"other"`, resume("resumeAfter", afterInsert), ``, 280},
		{"a stage that is not allowed", `"c"`, `{}`, `,{"$group":{"_id":1}}`, 20},
		{"an _id that was changed", `"c"`, resume("resumeAfter", opened), `,{"$project":{"_id":0}}`, 280},
		{"an unknown option", `"c"`, `{"x":1}`, ``, 40415},
		{"a system collection", `"system.views"`, `{}`, ``, 73},
	} {
		w := s.watch("a", "d", c.target, c.options, c.rest)
		if got := w.reply.Lookup("code"); got.Type != bson.TypeInt32 || got.Int32() != c.code {
			t.Errorf("%s: %s", c.what, w.reply)
		}
		if c.code == 280 && !strings.Contains(w.reply.String(), "NonResumableChangeStreamError") {
			t.Errorf("%s: no label: %s", c.what, w.reply)
		}
	}
	if w := s.watch("a", "d", `1`, `{}`, `,{"$match":{"operationType":"insert"}},{"$project":{"operationType":1,"documentKey":1}}`); w.id != 0 {
		s.run("a", "d", `{"delete":"c","deletes":[{"q":{},"limit":0}]}`)
		s.run("a", "d", `{"insert":"c3","documents":[{"_id":3}]}`)
		if got := w.events(1); got != "insert:3" {
			t.Errorf("a filtered stream on the database: %s", got)
		}
	} else {
		t.Error(w.reply)
	}
	all := s.watch("a", "admin", `1`, `{"allChangesForCluster":true}`, ``)
	s.run("a", "e", `{"insert":"c","documents":[{"_id":4}]}`)
	s.run("a", "e", `{"dropDatabase":1}`)
	if got := all.events(3); got != "insert:4 drop dropDatabase" {
		t.Errorf("the whole cluster: %s", got)
	}
}

// A stream whose place was truncated from the log says so (286), whether it is resumed or
// was open; one that is behind the truncation goes on.
func TestLostHistory(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	old := s.watch("a", "d", `"c"`, `{}`, ``)
	first := old.token
	if err := s.members["a"].member.SetWindow(t.Context(), repl.Window{Bytes: 16 << 10}); err != nil {
		t.Fatal(err)
	}
	large := `{"_id":"` + strings.Repeat("x", 4000) + `"}`
	before := s.members["a"].member.OldestEntry()
	s.until("a truncation", func() bool {
		s.run("a", "d", `{"insert":"c","documents":[`+large+`]}`)
		s.run("a", "d", `{"delete":"c","deletes":[{"q":{},"limit":0}]}`)
		return s.members["a"].member.OldestEntry() > before
	})
	again := s.watch("a", "d", `"c"`, resume("resumeAfter", first), ``)
	old.more(10)
	for _, reply := range []bson.Doc{again.reply, old.reply} {
		if reply.Lookup("code").Type != bson.TypeInt32 || reply.Lookup("code").Int32() != 286 || !strings.Contains(reply.String(), "NonResumableChangeStreamError") {
			t.Errorf("a place that is gone: %s", reply)
		}
	}
	if w := s.watch("a", "d", `"c"`, `{}`, ``); w.id == 0 {
		t.Errorf("a new stream: %s", w.reply)
	}
}

// Images are what a document was and became, of changes that were made while the collection
// kept them; an event with two that no document holds comes in fragments, and a stream can
// be resumed between them.
func TestChangeStreamImages(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.run("a", "d", `{"create":"c","changeStreamPreAndPostImages":{"enabled":true}}`)
	const options = `{"fullDocument":"required","fullDocumentBeforeChange":"required","showExpandedEvents":true}`
	w := s.watch("a", "d", `"c"`, options, `,{"$project":{"operationType":1,"documentKey":1,"fullDocument":1,"fullDocumentBeforeChange":1}}`)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":1,"a":[1,2]}]}`)
	s.run("a", "d", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$push":{"a":3}}}]}`)
	s.run("a", "d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	var got []string
	for len(got) < 3 {
		for _, d := range w.more(60_000) {
			got = append(got, d.Lookup("fullDocumentBeforeChange").String()+" -> "+d.Lookup("fullDocument").String())
		}
	}
	want := []string{"EOO -> { _id: 1, a: [ 1, 2 ] }", "{ _id: 1, a: [ 1, 2 ] } -> { _id: 1, a: [ 1, 2, 3 ] }", "{ _id: 1, a: [ 1, 2, 3 ] } -> EOO"}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("event %d: %s", i, got[i])
		}
	}
	large := strings.Repeat("x", 9<<20)
	split := s.watch("a", "d", `"c"`, options, `,{"$changeStreamSplitLargeEvent":{}}`)
	whole := s.watch("a", "d", `"c"`, options, ``)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":2,"a":1,"x":"`+large+`"}]}`)
	s.run("a", "d", `{"update":"c","updates":[{"q":{"_id":2},"u":{"$inc":{"a":1}}}]}`)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":3}]}`)
	var parts []bson.Doc
	for len(parts) < 4 {
		for _, d := range split.more(60_000) {
			parts = append(parts, d.Clone())
		}
	}
	for i, of := range []string{"", "{ fragment: 1, of: 2 }", "{ fragment: 2, of: 2 }", ""} {
		if v := parts[i].Lookup("splitEvent"); of != "" && v.String() != of || of == "" && !v.IsMissing() {
			t.Errorf("part %d: %s", i, v)
		}
	}
	token := parts[1].Lookup("_id").Doc()
	again := s.watch("a", "d", `"c"`, strings.TrimSuffix(options, "}")+`,`+strings.TrimPrefix(resume("resumeAfter", token), "{"), `,{"$changeStreamSplitLargeEvent":{}}`)
	docs, _ := batch(t, again.reply)
	if len(docs) == 0 || docs[0].Lookup("splitEvent").String() != "{ fragment: 2, of: 2 }" {
		t.Errorf("behind the first fragment there are %d events: %.200s", len(docs), again.reply)
	}
	for whole.reply.Lookup("ok").Double() == 1 {
		whole.more(60_000)
	}
	if code := whole.reply.Lookup("code").Int32(); code != 10334 {
		t.Errorf("a whole event: %.200s", whole.reply)
	}
	for _, c := range []struct {
		command string
		code    int32
	}{
		{`{"create":"v","viewOn":"c"}`, 166}, {`{"create":"v","timeseries":{"timeField":"t"}}`, 166},
	} {
		s.run("a", "d", `{"drop":"v"}`)
		s.run("a", "d", c.command)
		if w := s.watch("a", "d", `"v"`, `{}`, ``); w.reply.Lookup("code").Type != bson.TypeInt32 || w.reply.Lookup("code").Int32() != c.code {
			t.Errorf("%s: %s", c.command, w.reply)
		}
	}
}

// A transaction's changes are told when it is committed, all with its clusterTime, lsid and
// txnNumber, and a stream can be resumed between any two of them.
func TestChangeStreamTransaction(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.run("a", "d", `{"insert":"c","documents":[{"_id":0}]}`)
	w := s.watch("a", "d", `"c"`, `{}`, ``)
	const session = `"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}},"txnNumber":{"$numberLong":"1"},"autocommit":false`
	for _, command := range []string{
		`{"insert":"c","documents":[{"_id":1},{"_id":2}],"startTransaction":true,` + session + `}`,
		`{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":1}}}],` + session + `}`,
		`{"delete":"c","deletes":[{"q":{"_id":0},"limit":1}],` + session + `}`,
	} {
		if r := s.run("a", "d", command); r.Lookup("ok").Double() != 1 {
			t.Fatal(r)
		}
	}
	if docs := w.more(1); len(docs) != 0 {
		t.Errorf("before the commit: %s", docs)
	}
	if r := s.run("a", "admin", `{"commitTransaction":1,`+session+`}`); r.Lookup("ok").Double() != 1 {
		t.Fatal(r)
	}
	var all []bson.Doc
	for len(all) < 4 {
		for _, d := range w.more(60_000) {
			all = append(all, d.Clone())
		}
	}
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = short(d)
		if d.Lookup("clusterTime").Timestamp() != all[0].Lookup("clusterTime").Timestamp() || d.Lookup("txnNumber").Type != bson.TypeInt64 || !d.Has("lsid") {
			t.Errorf("event %d: %s", i, d)
		}
	}
	for i, d := range all {
		again := s.watch("a", "d", `"c"`, resume("resumeAfter", d.Lookup("_id").Doc()), ``)
		docs, _ := batch(t, again.reply)
		var rest []string
		for _, d := range docs {
			rest = append(rest, short(d))
		}
		if got, want := strings.Join(rest, " "), strings.Join(names[i+1:], " "); got != want {
			t.Errorf("behind event %d: %s, not %s", i, got, want)
		}
	}
	if got := strings.Join(names, " "); got != "insert:1 insert:2 update:1 delete:0" {
		t.Error(got)
	}
}

// Images expire by the wall time of their change (changeStreamOptions), the moment that it is
// said and until it is said otherwise, and with the log: then the stream has no place.
func TestImagesExpire(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.must("a", "d", `{"create":"c","changeStreamPreAndPostImages":{"enabled":true}}`)
	first := s.watch("a", "d", `"c"`, `{}`, ``).token
	s.must("a", "d", `{"insert":"c","documents":[{"_id":1,"n":1}]}`)
	s.must("a", "d", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}]}`)
	s.must("a", "d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	// images are those of the update and the delete, or the code of the error.
	images := func(how string) string {
		t.Helper()
		options := strings.TrimSuffix(resume("resumeAfter", first), "}") + `,"fullDocument":"` + how + `","fullDocumentBeforeChange":"` + how + `"}`
		w := s.watch("a", "d", `"c"`, options, ``)
		var all []string
		for len(all) < 3 {
			if code := w.reply.Lookup("code"); code.Type == bson.TypeInt32 {
				return fmt.Sprint(code.Int32())
			}
			docs, _ := batch(t, w.reply)
			for _, d := range docs {
				if kind := d.Lookup("operationType").Str(); kind == "insert" {
					all = append(all, kind)
				} else {
					all = append(all, d.Lookup("fullDocumentBeforeChange").String()+" -> "+d.Lookup("fullDocument").String())
				}
			}
			if len(all) < 3 {
				w.more(60_000)
			}
		}
		return strings.Join(all[1:], "; ")
	}
	expire := func(seconds string) {
		s.must("a", "admin", `{"setClusterParameter":{"changeStreamOptions":{"preAndPostImages":{"expireAfterSeconds":`+seconds+`}}}}`)
	}
	later := func(d time.Duration) {
		s.members["a"].Catalog.Clock = catalog.NewClock(func() time.Time { return time.Now().Add(d) })
	}
	const whole = "{ _id: 1, n: 1 } -> { _id: 1, n: 2 }; { _id: 1, n: 2 } -> EOO"
	check := func(when, how, want string) {
		t.Helper()
		if got := images(how); got != want {
			t.Errorf("%s, %s: %s, not %s", when, how, got, want)
		}
	}
	check("without an expiry", "required", whole)
	expire("600")
	check("before they expire", "required", whole)
	later(time.Hour)
	check("when they have expired", "whenAvailable", "null -> null; null -> EOO")
	check("when they have expired", "required", "47")
	expire("7200")
	check("when they expire later", "required", whole)
	expire(`"off"`)
	check("when they do not expire", "required", whole)
	later(0)
	member := s.members["a"].member
	if err := member.SetWindow(t.Context(), repl.Window{Bytes: 16 << 10}); err != nil {
		t.Fatal(err)
	}
	s.must("a", "d", `{"create":"other"}`)
	before := member.OldestEntry()
	s.until("a truncation", func() bool {
		s.must("a", "d", `{"insert":"other","documents":[{"x":"`+strings.Repeat("x", 4000)+`"}]}`)
		return member.OldestEntry() > before
	})
	check("when the log is truncated", "whenAvailable", "286")
}

// The stages behind a stream compare by the collation of the aggregate, and so does what of
// them is looked at before an event is made; collections' own collations do not count.
func TestChangeStreamCollation(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.must("a", "d", `{"create":"c","collation":{"locale":"en","strength":1}}`)
	open := func(match, collation string) *watcher {
		w := &watcher{s: s, name: "a", db: "d", coll: "c"}
		w.reply = s.must("a", "d", `{"aggregate":"c","pipeline":[{"$changeStream":{}},{"$match":`+match+`}],"cursor":{}`+collation+`}`)
		w.took()
		return w
	}
	const weak = `,"collation":{"locale":"en","strength":2}`
	streams := []struct {
		w    *watcher
		want string
	}{
		{open(`{"fullDocument.a":"PEAR"}`, weak), `insert:1 insert:"x"`},
		{open(`{"fullDocument.a":"PEAR"}`, ``), `insert:"x"`},
		{open(`{"operationType":"INSERT","documentKey._id":"X"}`, weak), `insert:"x"`},
		{open(`{"documentKey._id":"X"}`, ``), ``},
	}
	s.must("a", "d", `{"insert":"c","documents":[{"_id":1,"a":"pear"},{"_id":2,"a":"plum"},{"_id":"x","a":"PEAR"}]}`)
	for i, c := range streams {
		if got := c.w.events(len(strings.Fields(c.want))); got != c.want {
			t.Errorf("stream %d tells %s, not %s", i, got, c.want)
		}
		if docs := c.w.more(1); len(docs) != 0 {
			t.Errorf("stream %d tells of more: %s", i, docs)
		}
	}
}

// A member has as many open streams as it may have; one that ends makes room for another.
func TestStreamLimit(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	member := s.members["a"].member
	member.SetMaxStreams(2)
	w := s.watch("a", "d", `"c"`, `{}`, ``)
	s.watch("a", "d", `1`, `{}`, ``)
	refused := func() bool {
		r := s.watch("a", "d", `"c"`, `{}`, ``).reply
		code := r.Lookup("code")
		return code.Type == bson.TypeInt32 && code.Int32() == 146
	}
	if !refused() || member.StreamStats().Open != 2 {
		t.Errorf("a third stream is opened: %+v", member.StreamStats())
	}
	s.must("a", "d", fmt.Sprintf(`{"killCursors":"c","cursors":[{"$numberLong":"%d"}]}`, w.id))
	if member.StreamStats().Open != 1 || refused() {
		t.Errorf("one has ended: %+v", member.StreamStats())
	}
	member.SetMaxStreams(1) // those that are open stay
	if !refused() || member.StreamStats().Open != 2 {
		t.Errorf("with a smaller bound: %+v", member.StreamStats())
	}
}

// A standalone has no log, so it has no change streams: 40573 on a collection that is there and
// on one that is not, on a database and on all, and before the stage's own errors.
func TestChangeStreamOnStandalone(t *testing.T) {
	n, client := withData(t)
	run := func(db, target, stage string) bson.Doc {
		body, err := bson.ParseJSON(`{"aggregate":` + target + `,"pipeline":[{"$changeStream":` + stage + `}],"cursor":{}}`)
		if err != nil {
			t.Fatal(err)
		}
		return n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: db, Body: body}).Body
	}
	body, _ := bson.ParseJSON(`{"insert":"c","documents":[{"_id":1}]}`)
	n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: "d", Body: body})
	for _, c := range [][3]string{{"d", `"c"`, `{}`}, {"d", `"none"`, `{}`}, {"d", `1`, `{}`}, {"admin", `1`, `{"allChangesForCluster":true}`}, {"d", `"c"`, `{"fullDocument":"x"}`}} {
		r := run(c[0], c[1], c[2])
		if code := r.Lookup("code"); code.Type != bson.TypeInt32 || code.Int32() != 40573 || r.Lookup("codeName").Str() != "Location40573" {
			t.Errorf("%v: %s", c, r)
		}
	}
}

// A stream that has told of what has just come rests where streams are answered as often as they
// may be: what comes meanwhile is told together. One that is behind does not rest.
func TestStreamRests(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.members["a"].member.SetAnswers(2)
	w := s.watch("a", "d", `"c"`, `{}`, ``)
	insert := func(id int) { s.must("a", "d", fmt.Sprintf(`{"insert":"c","documents":[{"_id":%d}]}`, id)) }
	for id := range 2 { // the second one is one too many
		insert(id)
		w.events(1)
	}
	begun, heard := time.Now(), make(chan []bson.Doc, 1)
	go func() { heard <- w.more(60_000) }()
	for id := range 3 {
		insert(10 + id)
	}
	if docs, took := <-heard, time.Since(begun); len(docs) != 3 || took < 200*time.Millisecond {
		t.Errorf("%d events in an answer after %v", len(docs), took)
	}
	for id := range 4 {
		insert(20 + id)
	}
	begun = time.Now()
	for range 4 {
		w.reply = s.must("a", "d", fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"c","batchSize":1}`, w.id))
		if docs := w.took(); len(docs) != 1 {
			t.Errorf("a batch of one: %s", w.reply)
		}
	}
	if took := time.Since(begun); took > 1500*time.Millisecond { // one rest behind the first answer, and four if each had one
		t.Errorf("four batches of a stream that is behind took %v", took)
	}
}

// Where the stage may not be, and what may not be behind it, is refused with mongod's codes.
func TestChangeStreamPlaces(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	s.must("a", "d", `{"insert":"c","documents":[{"_id":1}]}`)
	for _, c := range []struct {
		pipeline string
		code     int32
	}{
		{`{"$match":{}},{"$changeStream":{}}`, 40602},
		{`{"$facet":{"a":[{"$changeStream":{}}]}}`, 40600},
		{`{"$lookup":{"from":"c","pipeline":[{"$changeStream":{}}],"as":"x"}}`, 51047},
		{`{"$unionWith":{"coll":"c","pipeline":[{"$changeStream":{}}]}}`, 31441},
		{`{"$changeStream":{}},{"$sort":{"_id":1}}`, 20},
		{`{"$changeStream":{}},{"$out":"d"}`, 20},
		{`{"$changeStream":{}},{"$lookup":{"from":"c","localField":"a","foreignField":"a","as":"x"}}`, 20},
		{`{"$changeStreamSplitLargeEvent":{}}`, 20},
		{`{"$changeStream":{"allChangesForCluster":true}}`, 72},
		{`{"$changeStream":{"fullDocument":"x"}}`, 2},
	} {
		r := s.run("a", "d", `{"aggregate":"c","pipeline":[`+c.pipeline+`],"cursor":{}}`)
		if code := r.Lookup("code"); code.Type != bson.TypeInt32 || code.Int32() != c.code {
			t.Errorf("%s: %s, not %d", c.pipeline, r, c.code)
		}
	}
	if r := s.run("a", "d", `{"create":"v","viewOn":"c","pipeline":[{"$changeStream":{}}]}`); r.Lookup("code").Type != bson.TypeInt32 || r.Lookup("code").Int32() != 167 {
		t.Errorf("a view: %s", r)
	}
	for _, level := range []string{"local", "linearizable", "available", "snapshot"} {
		r := s.run("a", "d", `{"aggregate":"c","pipeline":[{"$changeStream":{}}],"cursor":{},"readConcern":{"level":"`+level+`"}}`)
		if code := r.Lookup("code"); code.Type != bson.TypeInt32 || code.Int32() != 72 {
			t.Errorf("read concern %s: %s", level, r)
		}
	}
	if n := s.members["a"].member.StreamStats().Open; n != 0 {
		t.Errorf("%d streams are open", n)
	}
}
