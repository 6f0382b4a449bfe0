package expire

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/objectstore"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestTTL runs the scripts of testdata in virtual time, which begins at
// 2000-01-01T00:00:00Z, against a whole server without its sockets:
//
//	run                  commands on the database d; prints the replies
//	fill c n=5 at=-1h    inserts documents with _id from 0, or from=…, and that date in "at"
//	wait 60s             lets time pass; prints what metrics.ttl gained
//	left c               the _ids that are left
//	commits 300ms        how long each commit takes from now on
//	batches              the section batchedDeletes of serverStatus
//	log [sweeps]         what the monitor has logged since
//	open x               a command that opens a cursor, called x; prints its batch
//	next x               the next batch of that cursor
//	clock 1h             the computer's clock jumps
//	userwrites block     user writes are blocked; "unblock" ends that
func TestTTL(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.close()
			datadriven.RunTest(t, path, w.step)
		})
	})
}

// world is a server without sockets, on a disk in memory.
type world struct {
	t      *testing.T
	fs     *storage.MemFS
	engine *storage.Engine
	cat    *catalog.Catalog
	d      *command.Dispatcher
	client *command.Client
	m      *Monitor
	log    lines
	swept  string       // lines of sweeps that were not shown yet
	takes  atomic.Int64 // how long a commit does
	wall   wallClock
	opened map[string]openCursor
	last   bson.Doc // metrics.ttl when it was last shown
	// places are where rules may archive, and around has their stores fail; "" and nil for neither.
	places string
	around func(objectstore.Store) objectstore.Store
}

// slowCommits is a Committer whose commits take a while.
type slowCommits struct {
	*replay.Recorder
	takes *atomic.Int64
}

func (s slowCommits) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Recorder.Commit(ctx, e, d)
}

// wallClock is the computer's clock, off by what the script says.
type wallClock struct{ off atomic.Int64 }

func (c *wallClock) now() time.Time { return time.Now().Add(time.Duration(c.off.Load())) }

// openCursor is a cursor that a script has opened.
type openCursor struct {
	id         int64
	collection string
}

// lines is a log of messages with their attributes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "c" {
			fmt.Fprintf(&l.text, " %s", a)
		}
		return true
	})
	l.text.WriteString("\n")
	return nil
}

// take returns what was logged since the last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.text.String()
	l.text.Reset()
	return s
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, fs: storage.NewMemFS(), client: &command.Client{ConnectionID: 1}, opened: map[string]openCursor{}}
	w.open()
	w.cat.NoWindows.Store(true) // until the script sets expiryWindows
	return w
}

// open starts the server.
func (w *world) open() {
	w.t.Helper()
	w.engine, w.cat = replay.OpenAround(w.t, storage.Options{Dir: "db", FS: w.fs, CacheBytes: 8 << 20}, catalog.Options{Clock: catalog.NewClock(w.wall.now)},
		func(r *replay.Recorder) catalog.Committer { return slowCommits{r, &w.takes} })
	w.d = command.NewDispatcher(slog.New(slog.DiscardHandler))
	x := &exec.Executor{Catalog: w.cat}
	n := &node.Node{Dispatcher: w.d, Params: w.d.Params, Log: w.d.Log, Catalog: w.cat, Exec: x, Process: process.Process{StartTime: time.Now()}}
	n.Register(w.d.Registry)
	if w.places != "" {
		if err := w.d.Params.SetAtStartup("archivePlaces", w.places); err != nil {
			w.t.Fatal(err)
		}
		n.Archives.Around = w.around
	}
	w.m = New(Options{Catalog: w.cat, Exec: x, Dispatcher: w.d, Log: slog.New(&w.log), Archives: n.Archives, Owner: func() (string, error) { return "owner", nil }})
	n.Expiry, n.Forget = w.m.Report, w.m.Forget
	w.last = w.m.TTL()
	w.d.Clients.Connect(w.client)
	w.m.Start()
}

// restart ends the server, and starts it with what it has kept.
func (w *world) restart() {
	without := w.cat.NoWindows.Load()
	w.close()
	w.open()
	w.cat.NoWindows.Store(without)
}

func (w *world) close() {
	w.m.Stop()
	w.d.Cursors.CloseAll()
	if err := w.cat.Close(); err != nil {
		w.t.Error(err)
	}
	if err := w.engine.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) must(body bson.Doc) bson.Doc {
	w.t.Helper()
	d := w.runOn(body)
	if d.Lookup("ok").Double() != 1 || d.Has("writeErrors") {
		w.t.Fatalf("%s: %s", body, d)
	}
	return d
}

func (w *world) step(t *testing.T, c *datadriven.TestData) string {
	switch c.Cmd {
	case "run":
		var out strings.Builder
		for line := range strings.SplitSeq(c.Input, "\n") {
			body, err := bson.ParseJSON(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			out.WriteString(w.runOn(body).String() + "\n")
		}
		return mask(out.String())
	case "fill":
		w.fill(t, c)
		return ""
	case "wait":
		time.Sleep(duration(t, c.CmdArgs[0].Key))
		synctest.Wait()
		return w.gained()
	case "left":
		return w.left(c.CmdArgs[0].Key)
	case "commits":
		w.takes.Store(int64(duration(t, c.CmdArgs[0].Key)))
		return ""
	case "userwrites":
		if c.CmdArgs[0].Key == "unblock" {
			w.d.UserWrites.Unblock()
		} else if err := w.d.BlockUserWrites(w.t.Context(), 0); err != nil {
			w.t.Fatal(err)
		}
		return ""
	case "clock":
		w.wall.off.Add(int64(duration(t, c.CmdArgs[0].Key)))
		return ""
	case "open":
		body, err := bson.ParseJSON(c.Input)
		if err != nil {
			t.Fatal(err)
		}
		return w.batch(c.CmdArgs[0].Key, w.must(body))
	case "next":
		cur := w.opened[c.CmdArgs[0].Key]
		var b bson.Builder
		return w.batch(c.CmdArgs[0].Key, w.must(b.Int64("getMore", cur.id).String("collection", cur.collection).Int32("batchSize", 2).Finish()))
	case "batches":
		return w.m.Stats.BatchedDeletes().String() + "\n"
	case "log":
		return mask(w.logged(c.HasArg("sweeps")))
	}
	t.Fatalf("unknown step %s", c.Cmd)
	return ""
}

// logged is what was logged since, except by sweeps: one may begin in the same instant
// as a pass or a step of the script, before or behind it. Where sweeps asks for their
// lines, all since that was asked last come first.
func (w *world) logged(sweeps bool) string {
	var out strings.Builder
	for line := range strings.Lines(w.log.take()) {
		if strings.Contains(line, "swept the indexes") {
			w.swept += line
		} else {
			out.WriteString(line)
		}
	}
	if !sweeps {
		return out.String()
	}
	swept := w.swept
	w.swept = ""
	return swept + out.String()
}

// batch prints the batch of a cursor's reply, and remembers the cursor.
func (w *world) batch(name string, reply bson.Doc) string {
	cur := reply.Lookup("cursor").Doc()
	_, ns, _ := strings.Cut(cur.Lookup("ns").Str(), ".")
	w.opened[name] = openCursor{cur.Lookup("id").Int64(), ns}
	docs := cur.Lookup("firstBatch")
	if docs.IsMissing() {
		docs = cur.Lookup("nextBatch")
	}
	end := ""
	if w.opened[name].id == 0 {
		end = " end"
	}
	return docs.String() + end + "\n"
}

// runOn runs a command on its "$db", or d.
func (w *world) runOn(body bson.Doc) bson.Doc {
	db := "d"
	if v := body.Lookup("$db"); v.Type == bson.TypeString {
		db = v.Str()
	}
	return w.d.Dispatch(w.t.Context(), &command.Request{Client: w.client, DB: db, Body: body}).Body
}

func duration(t *testing.T, s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fillBatch is how many documents fill inserts at once.
const fillBatch = 5000

func (w *world) fill(t *testing.T, c *datadriven.TestData) {
	var n, first int
	var at string
	c.ScanArgs(t, "n", &n)
	c.MaybeScanArgs(t, "from", &first)
	c.ScanArgs(t, "at", &at)
	date := time.Now().Add(duration(t, at)).UnixMilli()
	for from := 0; from < n; from += fillBatch {
		var b bson.Builder
		b.String("insert", c.CmdArgs[0].Key).OpenArray("documents")
		for i := from; i < min(n, from+fillBatch); i++ {
			b.OpenDoc(bson.Index(i-from)).Int("_id", int64(first+i)).Date("at", date).Close()
		}
		w.must(b.Close().Finish())
	}
}

// gained prints the counters of metrics.ttl that have moved.
func (w *world) gained() string {
	now := w.m.TTL()
	var moved []string
	for name, v := range now.All() {
		if n := v.Int64() - w.last.Lookup(name).Int64(); n != 0 {
			moved = append(moved, fmt.Sprintf("%s +%d", name, n))
		}
	}
	w.last = now
	if moved == nil {
		return "nothing\n"
	}
	return strings.Join(moved, ", ") + "\n"
}

// left prints the _ids of a collection in their order, or their number where
// there are many.
func (w *world) left(c string) string {
	w.t.Helper()
	find := new(bson.Builder).String("find", c).OpenDoc("sort").Int32("_id", 1).Close().Int32("batchSize", 1000).Bool("singleBatch", true).Finish()
	batch := w.must(find).Lookup("cursor").Doc().Lookup("firstBatch").Doc()
	var ids []string
	for _, v := range batch.All() {
		ids = append(ids, v.Doc().Lookup("_id").String())
	}
	if ids == nil {
		return "none\n"
	}
	if len(ids) > 50 {
		return fmt.Sprintf("%d documents\n", w.must(new(bson.Builder).String("count", c).Finish()).Lookup("n").Int32())
	}
	return strings.Join(ids, " ") + "\n"
}

// masks hide what differs from run to run.
var masks = []struct{ find, put string }{
	{`ObjectId\('[0-9a-f]+'\)`, "ObjectId(...)"},
	{`UUID\("[0-9a-f-]+"\)`, "UUID(...)"},
}

func mask(s string) string {
	for _, m := range masks {
		s = regexp.MustCompile(m.find).ReplaceAllString(s, m.put)
	}
	return s
}
