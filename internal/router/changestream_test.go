package router_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// watcher reads a change stream.
type watcher struct {
	t    *testing.T
	conn *client.Conn
	db   string
	coll string
	id   int64
	have []bson.Doc
	mark bson.Doc // everything told from now on is behind it
}

// watch opens a change stream of app; options and stages are text, coll "" is the database.
func (c *realCluster) watch(conn *client.Conn, coll, options, stages string) *watcher {
	c.t.Helper()
	w := &watcher{t: c.t, conn: conn, db: "app", coll: coll}
	target := fmt.Sprintf("%q", coll)
	if coll == "" {
		target, w.coll = "1", "$cmd.aggregate"
	}
	text := fmt.Sprintf(`{aggregate: %s, pipeline: [{$changeStream: {%s}}%s], cursor: {}}`, target, options, stages)
	w.take(c.done(text)(conn.Run(c.t.Context(), w.db, bson.MustParse(text))), "firstBatch")
	return w
}

func (w *watcher) take(reply bson.Doc, name string) {
	w.t.Helper()
	cursor := reply.Lookup("cursor").Doc()
	w.id = cursor.Lookup("id").Int64()
	mark := cursor.Lookup("postBatchResumeToken").Doc().Clone()
	for _, v := range cursor.Lookup(name).Doc().Slice() {
		d := v.Doc().Clone()
		if at := data(d.Lookup("_id").Doc()); w.mark != nil && at <= data(w.mark) || at > data(mark) {
			w.t.Errorf("NoEventBeforeResumeToken: between %s and %s there is %s", w.mark, mark, d)
		}
		w.have = append(w.have, d)
	}
	if w.mark != nil && data(mark) < data(w.mark) {
		w.t.Errorf("MonotonicHighWatermark: the mark goes back from %s to %s", w.mark, mark)
	}
	w.mark = mark
}

func data(token bson.Doc) string { return token.Lookup("_data").Str() }

// more runs a getMore. It returns an error of the server.
func (w *watcher) more() error {
	w.t.Helper()
	reply, err := w.conn.Run(w.t.Context(), w.db, new(bson.Builder).Int64("getMore", w.id).String("collection", w.coll).Finish())
	if err == nil {
		w.take(reply, "nextBatch")
	}
	return err
}

// next returns the next n events.
func (w *watcher) next(n int) []bson.Doc {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(w.have) < n; {
		if err := w.more(); err != nil {
			w.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%d events of %d:\n%.2000s", len(w.have), n, said(w.have))
		}
	}
	out := w.have[:n]
	w.have = w.have[n:]
	return out
}

// said is the kinds of events, and the keys of their documents.
func said(events []bson.Doc) string {
	var all []string
	for _, d := range events {
		s := d.Lookup("operationType").Str()
		if key := d.Lookup("documentKey"); key.Type == bson.TypeDocument {
			s += " " + key.String()
		}
		all = append(all, s)
	}
	return strings.Join(all, "\n")
}

// TestChangeStreamOverShards: the events of all shards come in the order of their tokens, each
// once, through any router, behind any token.
func TestChangeStreamOverShards(t *testing.T) {
	c := newCluster(t, 3)
	other := c.connect(servertest.StartRouter(t, "--configdb", "cfg/"+c.config).Address)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed"}}`)
	c.fill("c", -10, 0)
	began := time.Now()
	w := c.watch(c.router, "c", "", "")
	c.fill("c", 0, 30)
	c.do("app", `{update: "c", updates: [{q: {x: {$gte: 0}}, u: {$set: {y: 100}}, multi: true}]}`)
	c.do("app", `{delete: "c", deletes: [{q: {x: {$gte: 20}}, limit: 0}]}`)
	c.do("app", `{insert: "d", documents: [{_id: 1}]}`)
	all := w.next(70)
	t.Logf("70 events in %s", time.Since(began))
	seen := map[string][]string{}
	for i, d := range all {
		if i > 0 && data(d.Lookup("_id").Doc()) <= data(all[i-1].Lookup("_id").Doc()) {
			t.Errorf("%s is not behind %s", d, all[i-1])
		}
		id := d.Lookup("documentKey").Doc().Lookup("_id").String()
		seen[id] = append(seen[id], d.Lookup("operationType").Str())
	}
	for i := range 30 {
		want := []string{"insert", "update", "delete"}
		if i < 20 {
			want = want[:2]
		}
		if got := seen[fmt.Sprint(i)]; !slices.Equal(got, want) {
			t.Errorf("%d: %v", i, got)
		}
	}
	for _, i := range []int{0, 7, 33, 69} {
		again := c.watch(other, "c", fmt.Sprintf(`resumeAfter: {_data: %q}`, data(all[i].Lookup("_id").Doc())), "").next(69 - i)
		for j, d := range again {
			if string(d) != string(all[i+1+j]) {
				t.Errorf("behind event %d: %s, want %s", i, d, all[i+1+j])
			}
		}
	}
	// A token that no shard has: its collection has another UUID.
	bad := []byte(data(all[7].Lookup("_id").Doc()))
	if bad[69]++; !strings.Contains("0123456789ABCDEF", string(bad[69])) { // another digit
		bad[69] = '0'
	}
	text := fmt.Sprintf(`{aggregate: "c", pipeline: [{$changeStream: {startAfter: {_data: %q}}}], cursor: {}}`, bad)
	if _, err := other.Run(t.Context(), "app", bson.MustParse(text)); !mongoerr.Is(err, mongoerr.ChangeStreamFatalError) {
		t.Error(err)
	}
	// Filters and projections run on the shards; a lookup finds what is there now.
	f := c.watch(other, "c", fmt.Sprintf(`fullDocument: "updateLookup", startAfter: {_data: %q}`, data(all[0].Lookup("_id").Doc())),
		`, {$match: {operationType: "update"}}, {$match: {"fullDocument._id": 3}}, {$project: {fullDocument: 1}}`)
	if got := f.next(1)[0].Lookup("fullDocument").String(); got != "{ _id: 3, x: 3, y: 100 }" {
		t.Error(got)
	}
	if _, err := c.try("app", `{aggregate: "c", pipeline: [{$changeStream: {}}, {$group: {_id: 1}}], cursor: {}}`); !mongoerr.Is(err, mongoerr.IllegalOperation) {
		t.Error(err)
	}
}

// TestChangeStreamOfIdleShards: an event is told as soon as the shards that write nothing have
// written a noop, for which they are asked.
func TestChangeStreamOfIdleShards(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	c.do("app", `{create: "c"}`)
	w := c.watch(c.router, "c", "", "")
	var took []time.Duration
	for i := range 20 {
		began := time.Now()
		c.fill("c", i, i+1)
		if got := w.next(1)[0].Lookup("documentKey").String(); got != fmt.Sprintf("{ _id: %d }", i) {
			t.Error(got)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("p50 %s, p95 %s", took[10], took[19])
}

// TestChangeStreamTellsDDLOnce: what is done on each shard is told once, behind what it follows;
// what operations of the cluster do to make and move documents is not told.
func TestChangeStreamTellsDDLOnce(t *testing.T) {
	c := newCluster(t, 3)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	w := c.watch(c.router, "", "showExpandedEvents: true", `, {$match: {operationType: {$ne: "modify"}}}`)
	plain := c.watch(c.router, "c", "", "")
	c.do("app", `{create: "c"}`)
	c.do("admin", `{shardCollection: "app.c", key: {x: "hashed", z: 1}}`)
	c.do("app", `{createIndexes: "c", indexes: [{key: {y: 1}, name: "y"}]}`)
	c.do("app", `{insert: "c", documents: [{_id: 1, x: 1, y: 1}, {_id: 2, x: 2, y: 1, z: 5}, {_id: 3, x: 3, y: 1}, {_id: 4, x: 4, y: 1}]}`)
	for i, lo := range []string{`{"$minKey": 1}`, `{"$numberLong": "-3074457345618258602"}`, `{"$numberLong": "0"}`, `{"$numberLong": "3074457345618258602"}`} {
		if _, err := c.try("admin", fmt.Sprintf(`{moveRange: "app.c", min: {x: %s, z: {"$minKey": 1}}, toShard: "s%d"}`, lo, (i+2)%3)); err != nil {
			t.Log(err)
		}
	}
	c.do("app", `{update: "c", updates: [{q: {}, u: {$set: {y: 2}}, multi: true}]}`)
	c.do("admin", `{reshardCollection: "app.c", key: {y: "hashed"}, numInitialChunks: 6}`)
	c.do("app", `{delete: "c", deletes: [{q: {_id: 2}, limit: 1}]}`)
	c.do("app", `{dropIndexes: "c", index: "y"}`)
	c.do("admin", `{renameCollection: "app.c", to: "app.d"}`)
	c.do("app", `{createIndexes: "d", indexes: [{key: {y: "hashed", _id: 1}, name: "y_id"}]}`)
	c.do("admin", `{refineCollectionShardKey: "app.d", key: {y: "hashed", _id: 1}}`)
	c.do("app", `{insert: "d", documents: [{_id: 5, y: 7}]}`)
	c.do("app", `{drop: "d"}`)
	c.do("app", `{insert: "e", documents: [{_id: 6}]}`)
	c.do("admin", `{movePrimary: "app", to: "s1"}`)
	c.do("app", `{dropDatabase: 1}`)
	want := []string{
		"create", "createIndexes", "shardCollection", "createIndexes", "insert { x: 1, _id: 1 }", "insert { x: 2, z: 5, _id: 2 }", "insert { x: 3, _id: 3 }", "insert { x: 4, _id: 4 }",
		"update { x: 1, _id: 1 }", "update { x: 2, z: 5, _id: 2 }", "update { x: 3, _id: 3 }", "update { x: 4, _id: 4 }",
		"reshardCollection", "delete { y: 2, _id: 2 }", "dropIndexes", "rename", "createIndexes", "refineCollectionShardKey", "insert { y: 7, _id: 5 }", "drop", "create", "insert { _id: 6 }", "drop", "dropDatabase", "invalidate",
	}
	events := w.next(len(want))
	for _, d := range events {
		switch d.Lookup("operationType").Str() {
		case "shardCollection", "refineCollectionShardKey", "reshardCollection":
			t.Log(d.Lookup("operationType"), d.Lookup("ns"), d.Lookup("operationDescription"))
		}
	}
	got := strings.Split(said(events), "\n")
	slices.Sort(got[4:8])
	slices.Sort(got[8:12])
	if !slices.Equal(got, want) {
		t.Errorf("told:\n%s", strings.Join(got, "\n"))
	}
	if w.id != 0 || len(w.have) > 0 {
		t.Errorf("the stream goes on: %v", w.have)
	}
	got = strings.Split(said(plain.next(11)), "\n")
	slices.Sort(got[:4])
	slices.Sort(got[4:8])
	want = append(append(append([]string(nil), want[4:12]...), want[13]), "rename", "invalidate")
	if !slices.Equal(got, want) {
		t.Errorf("told of the collection:\n%s", strings.Join(got, "\n"))
	}
}

// TestChangeStreamSplitsWhatIsLookedUp: an event that is too large with what the router has looked
// up is split there, and a stream is resumed behind each of its fragments; without the stage it
// is refused.
func TestChangeStreamSplitsWhatIsLookedUp(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{enableSharding: "app", primaryShard: "s0"}`)
	write := func(body bson.Doc) {
		t.Helper()
		c.done("write")(c.router.Run(t.Context(), "app", body))
	}
	const looks = `fullDocument: "updateLookup"`
	w, plain := c.watch(c.router, "c", looks, ", {$changeStreamSplitLargeEvent: {}}"), c.watch(c.router, "c", looks, "")
	write(new(bson.Builder).String("insert", "c").OpenArray("documents").OpenDoc("0").Int32("_id", 1).String("a", strings.Repeat("x", 8<<20)).Close().Close().Finish())
	write(new(bson.Builder).String("update", "c").OpenArray("updates").OpenDoc("0").OpenDoc("q").Int32("_id", 1).Close().
		OpenDoc("u").OpenDoc("$set").String("a", strings.Repeat("y", 9<<20)).Close().Close().Close().Close().Finish())
	events := w.next(1 + 2)[1:]
	shape := func(d bson.Doc) string {
		var names []string
		for name, v := range d.All() {
			if name == "splitEvent" {
				name = v.String()
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	for i, want := range []string{"_id { fragment: 1, of: 2 } clusterTime wallTime operationType documentKey ns fullDocument", "_id { fragment: 2, of: 2 } updateDescription"} {
		if got := shape(events[i]); got != want {
			t.Errorf("fragment %d: %s", i, got)
		}
		again := c.watch(c.router, "c", looks+fmt.Sprintf(`, resumeAfter: {_data: %q}`, data(events[i].Lookup("_id").Doc())), ", {$changeStreamSplitLargeEvent: {}}")
		for _, d := range again.next(1 - i) {
			if i++; shape(d) != shape(events[i]) {
				t.Errorf("again: %s, want %s", shape(d), shape(events[i]))
			}
		}
	}
	plain.next(1)
	var err error
	for deadline := time.Now().Add(time.Minute); err == nil && len(plain.have) == 0 && time.Now().Before(deadline); {
		err = plain.more()
	}
	if !mongoerr.Is(err, mongoerr.BSONObjectTooLarge) {
		t.Error(err)
	}
}
