package node

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/storage"
)

// withData is a node over an empty store.
func withData(t testing.TB) (*Node, *command.Client) {
	t.Helper()
	return withCache(t, 64<<20)
}

// withCache is withData with a block cache of so many bytes.
func withCache(t testing.TB, size int64) (*Node, *command.Client) {
	t.Helper()
	e, c := replay.Open(t, storage.Options{Dir: t.TempDir(), CacheBytes: size}, catalog.Options{})
	n, client := over(c)
	n.Register(n.Dispatcher.Registry)
	t.Cleanup(func() {
		n.Dispatcher.Cursors.CloseAll()
		c.Close()
		e.Close()
	})
	return n, client
}

// over makes a node over a catalog, still to be registered, and a client of it.
func over(c *catalog.Catalog) (*Node, *command.Client) {
	d := command.NewDispatcher(slog.New(slog.NewTextHandler(io.Discard, nil)))
	n := &Node{
		Dispatcher: d, Params: d.Params, Log: d.Log, Catalog: c,
		Exec: &exec.Executor{Catalog: c}, Process: process.Process{StartTime: time.Now(), Log: memoryLog{}, Shutdown: func(bool) {}},
	}
	client := &command.Client{ConnectionID: 1, Remote: "127.0.0.1:40000"}
	d.Clients.Connect(client)
	return n, client
}

// crudMasks hide what differs from run to run.
var crudMasks = regexp.MustCompile(`(UUID[ (]"?|cursor id |cursor |Killed: \[ |NotFound: \[ )[0-9a-f-]{9,}`)

// sessionMasks is the digest of a session's user, which a long message shows the
// more of the shorter the cursor's id is.
var sessionMasks = regexp.MustCompile(`( - 47DEQpj8HBSa\+/)[^"]*`)

// TestCRUD runs the scripts of testdata/crud: each case is a database and
// commands, the expectation their replies. CURSOR in a command is the id of the
// last cursor that stayed open, which replies show as "open".
func TestCRUD(t *testing.T) { runScripts(t, "testdata/crud", func(*Node) {}) }

// TestJavaScript runs the scripts of testdata/javascript on a node that runs the
// functions of clients.
func TestJavaScript(t *testing.T) {
	runScripts(t, "testdata/javascript", func(n *Node) { n.JavaScript = NewJavaScript(n.Log, 8<<30, nil) })
}

func runScripts(t *testing.T, dir string, prepare func(*Node)) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		n, client := withData(t)
		prepare(n)
		var cursor int64
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				line = strings.ReplaceAll(line, "CURSOR", fmt.Sprintf(`{"$numberLong": "%d"}`, cursor))
				reply := dispatch(t, n, client, c.Cmd, line, false).Body
				text := reply.String()
				if v := reply.Lookup("cursor"); v.Type == bson.TypeDocument {
					if id := v.Doc().Lookup("id").Int64(); id != 0 {
						cursor = id
						text = strings.ReplaceAll(text, fmt.Sprint(id), "open")
					}
				}
				text = crudMasks.ReplaceAllString(text, "$1...")
				out.WriteString(sessionMasks.ReplaceAllString(text, "$1...") + "\n")
			}
			return out.String()
		})
	})
}

// TestTailableWakes holds a getMore that waits for documents to end when one
// arrives, and one that does not match to let it wait on.
func TestTailableWakes(t *testing.T) {
	n, client := withData(t)
	other := &command.Client{ConnectionID: 2}
	n.Dispatcher.Clients.Connect(other)
	run := func(c *command.Client, text string) bson.Doc { return dispatch(t, n, c, "test", text, false).Body }
	run(client, `{"create": "c", "capped": true, "size": 100000}`)
	run(client, `{"insert": "c", "documents": [{"_id": 0}]}`)
	found := run(client, `{"find": "c", "filter": {"k": 1}, "tailable": true, "awaitData": true}`)
	id := found.Lookup("cursor").Doc().Lookup("id").Int64()
	reply := make(chan bson.Doc)
	go func() {
		reply <- run(other, fmt.Sprintf(`{"getMore": {"$numberLong": "%d"}, "collection": "c", "maxTimeMS": 600000}`, id))
	}()
	run(client, `{"insert": "c", "documents": [{"_id": 1}]}`)
	run(client, `{"insert": "c", "documents": [{"_id": 2, "k": 1}]}`)
	got := (<-reply).Lookup("cursor").Doc().Lookup("nextBatch").String()
	if want := `[ { _id: 2, k: 1 } ]`; got != want {
		t.Errorf("the getMore returned %s, want %s", got, want)
	}
}
