package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// TailPath is where the stream of changes is, which lasts as long as its page is open.
	TailPath = "/api/tail"
	// tailBatch is how many events are taken at a time, and tailWait how long one is waited for:
	// whether the session and the server still are is looked at as often. Nothing is queued: the
	// next batch is asked for when the page has been sent the last one.
	tailBatch = 100
	tailWait  = time.Second
	// maxTails bounds the tails of a session: a browser has six connections to a server.
	maxTails = 4
)

// beat is a comment: each batch has one, so that a page that has gone is found out by the write,
// too. The page skips it.
var beat = []byte(":\n\n")

// tail sends a change stream as server-sent events: of the collection ?db=…&coll=…, of the
// database without coll, of all without db. It is the session's user that watches. What ends the
// stream of itself is sent as the event "end", with its error. A page that hangs up ends it at once.
func (s *Server) tail(w http.ResponseWriter, r *http.Request, one *session) {
	if one.tails.Add(1) > maxTails {
		one.tails.Add(-1)
		fail(w, http.StatusServiceUnavailable, mongoerr.New(mongoerr.ExceededMemoryLimit, "%d pages of this session follow changes already", maxTails))
		return
	}
	defer one.tails.Add(-1)
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		fail(w, http.StatusServiceUnavailable, mongoerr.New(mongoerr.ExceededMemoryLimit, "%d pages look at streams already", maxStreams))
		return
	}
	defer s.streams.Add(-1)
	here := ownServer{s: s, client: command.ClientOf(r.Context())}
	db, open := watching(r.URL.Query().Get("db"), r.URL.Query().Get("coll"))
	reply, err := here.Run(r.Context(), db, open)
	if err != nil {
		answer(w, command.ErrorReply(mongoerr.From(err)))
		return
	}
	t := &tailer{s: s, here: here, db: db, out: http.NewResponseController(w), w: w}
	defer t.end(r.Context())
	_ = t.out.SetReadDeadline(time.Time{}) // the request has been read; its end is not the stream's
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	for name := "firstBatch"; t.send(r.Context(), reply, name); name = "nextBatch" {
		select {
		case <-s.stopping:
			return
		default:
		}
		if s.session(r) == nil {
			return
		}
		if reply, err = here.Run(r.Context(), db, t.further()); err != nil {
			t.fail(err)
			return
		}
	}
}

// watching is the command that opens a change stream, and its database.
func watching(db, coll string) (string, bson.Doc) {
	b := new(bson.Builder)
	stage := new(bson.Builder)
	switch {
	case db == "":
		db = "admin"
		stage.Bool("allChangesForCluster", true)
		b.Int32("aggregate", 1)
	case coll == "":
		b.Int32("aggregate", 1)
	default:
		b.String("aggregate", coll)
	}
	b.OpenArray("pipeline").OpenDoc("0").Doc("$changeStream", stage.Finish()).Close().Close()
	return db, b.OpenDoc("cursor").Int32("batchSize", 0).Close().Finish()
}

// tailer sends the events of a cursor.
type tailer struct {
	s      *Server
	here   ownServer
	db     string
	coll   string
	cursor int64 // 0 when it has ended
	out    *http.ResponseController
	w      http.ResponseWriter
}

// further asks for the next events.
func (t *tailer) further() bson.Doc {
	return new(bson.Builder).Int64("getMore", t.cursor).String("collection", t.coll).Int32("batchSize", tailBatch).Int64("maxTimeMS", tailWait.Milliseconds()).Finish()
}

// send sends the events of a batch, and reports whether there can be more.
func (t *tailer) send(ctx context.Context, reply bson.Doc, batch string) bool {
	c := reply.Lookup("cursor")
	if c.Type != bson.TypeDocument || c.Doc().Lookup(batch).Type != bson.TypeArray {
		return false
	}
	var taken memory.Request
	taken.Open(t.s.o.Memory)
	defer taken.Release()
	if err := taken.Set(ctx, textGrowth*len(reply)); err != nil {
		t.fail(err)
		return false
	}
	t.cursor = bson.ClampToInt64(c.Doc().Lookup("id"))
	_, t.coll, _ = strings.Cut(text(c.Doc(), "ns"), ".")
	_ = t.out.SetWriteDeadline(time.Now().Add(eventTime))
	if batch == "firstBatch" {
		t.event("open", new(bson.Builder).Finish())
	}
	for v := range c.Doc().Lookup(batch).Doc().Values() {
		t.event("change", v.Doc())
	}
	if t.cursor == 0 {
		t.event("end", new(bson.Builder).Finish()) // the last change says why
	}
	_, _ = t.w.Write(beat)
	return t.out.Flush() == nil && t.cursor != 0
}

// fail says why there is no more.
func (t *tailer) fail(err error) {
	_ = t.out.SetWriteDeadline(time.Now().Add(eventTime))
	t.event("end", command.ErrorReply(mongoerr.From(err)))
	_ = t.out.Flush() // it ends anyway
}

func (t *tailer) event(name string, d bson.Doc) {
	_, _ = t.w.Write([]byte("event: " + name + "\ndata: "))
	_, _ = t.w.Write(d.AppendJSON(nil, bson.CanonicalJSON))
	_, _ = t.w.Write([]byte("\n\n"))
}

// end closes the cursor, whatever has ended the stream: the context of the request, too.
func (t *tailer) end(ctx context.Context) {
	if t.cursor == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tailWait)
	defer cancel()
	kill := new(bson.Builder).String("killCursors", t.coll).OpenArray("cursors").Int64("0", t.cursor).Close().Finish()
	_, _ = t.here.Run(ctx, t.db, kill) // else it ends when nobody has read it for some minutes
}
