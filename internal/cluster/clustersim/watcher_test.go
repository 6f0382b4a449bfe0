package clustersim

import (
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// watcher follows the lists by a change stream through one of the routers, and resumes it through
// the other one where it ends.
type watcher struct {
	a      *agent
	at     string
	cursor int64
	token  bson.Doc
	seen   [keys][]int // what was appended, in the order of the events
	events int
	wrong  string // an event that there may not be
	opened int
}

func (w *world) watcher() *watcher { return &watcher{a: w.agent("watcher", 60), at: routers[0]} }

// open opens the stream, or resumes it.
func (x *watcher) open() error {
	b := new(bson.Builder).String("aggregate", "lists").OpenArray("pipeline").OpenDoc("0").OpenDoc("$changeStream")
	if x.token != nil {
		b.Doc("resumeAfter", x.token)
	}
	reply, err := x.a.run(x.at, "app", b.Close().Close().Close().OpenDoc("cursor").Close().Finish())
	if err == nil {
		x.opened++
		x.take(reply, "firstBatch")
	}
	return err
}

// step waits for events, or opens the stream anew.
func (x *watcher) step() {
	var err error
	if x.cursor == 0 {
		err = x.open()
	} else {
		var reply bson.Doc
		reply, err = x.a.run(x.at, "app", new(bson.Builder).Int64("getMore", x.cursor).String("collection", "lists").Int32("maxTimeMS", 300).Finish())
		if err == nil {
			x.take(reply, "nextBatch")
		}
	}
	if err != nil {
		x.cursor, x.at = 0, other(x.at)
		time.Sleep(100 * time.Millisecond)
	}
}

// place is what orders a token.
func place(token bson.Doc) string {
	if v := token.Lookup("_data"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// take notes the events of a batch. No event is at or before the token behind which the stream was
// opened, or which it has told since, and no token is before such a one: invariants
// NoEventBeforeResumeToken and MonotonicHighWatermark of the public specification
// ChangeStreamTopologyChange.
func (x *watcher) take(reply bson.Doc, name string) {
	cursor := reply.Lookup("cursor").Doc()
	x.cursor = bson.ClampToInt64(cursor.Lookup("id"))
	for v := range cursor.Lookup(name).Doc().Values() {
		e := v.Doc()
		x.events++
		if now := place(e.Lookup("_id").Doc()); now <= place(x.token) {
			x.wrong = "NoEventBeforeResumeToken: behind " + place(x.token) + " " + e.String()
		}
		x.token = e.Lookup("_id").Doc().Clone()
		key := e.Lookup("documentKey")
		if key.Type != bson.TypeDocument {
			x.wrong = e.String()
			continue
		}
		into := &x.seen[bson.ClampToInt64(key.Doc().Lookup("_id"))]
		switch e.Lookup("operationType").Str() {
		case "insert":
			*into = append(*into, values(e.Lookup("fullDocument").Doc().Lookup("v"))...)
		case "update":
			for _, v := range e.Lookup("updateDescription").Doc().Lookup("updatedFields").Doc().All() {
				*into = append(*into, values(v)...)
			}
		default:
			x.wrong = e.String()
		}
	}
	if t := cursor.Lookup("postBatchResumeToken"); t.Type == bson.TypeDocument {
		if now := place(t.Doc()); now < place(x.token) {
			x.wrong = "MonotonicHighWatermark: " + now + " behind " + place(x.token)
		}
		x.token = t.Doc().Clone()
	}
}

// values are the numbers of an array, or the one number.
func values(v bson.Value) (out []int) {
	if v.Type != bson.TypeArray {
		return []int{int(bson.ClampToInt64(v))}
	}
	for one := range v.Doc().Values() {
		out = append(out, int(bson.ClampToInt64(one)))
	}
	return out
}

// judge holds that the stream tells of each append once, in the order in which they are in the
// lists, and of nothing else.
func (x *watcher) judge(lists [keys][]int) {
	for range 100 {
		if x.wrong != "" || sameLists(x.seen, lists) {
			break
		}
		x.step()
	}
	if x.wrong != "" {
		x.a.w.fail("the stream has %s", x.wrong)
	}
	for k, want := range lists {
		if !slices.Equal(x.seen[k], want) {
			x.a.w.fail("list %d has %v, and the stream, opened %d times, has told %v", k, want, x.opened, x.seen[k])
		}
	}
}

func sameLists(a, b [keys][]int) bool {
	for k := range a {
		if !slices.Equal(a[k], b[k]) {
			return false
		}
	}
	return true
}
