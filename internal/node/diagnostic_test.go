package node

import (
	"context"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/process"
)

// memoryLog is a log of two lines.
type memoryLog struct{}

func (memoryLog) Names() []string { return []string{"global", "startupWarnings"} }
func (memoryLog) Rotate() error   { return nil }
func (memoryLog) Lines(name string) ([]string, int64, bool) {
	return []string{`{"msg":"a"}`, `{"msg":"b"}`}, 7, name == "global"
}

// withoutData is a node of which only the commands about the server work.
func withoutData() *Node {
	d := command.NewDispatcher(slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.Host = "here:27017"
	n := &Node{
		Dispatcher: d, Params: d.Params, Log: d.Log,
		Process: process.Process{StartTime: time.Now(),
			Argv: []string{"mayfly", "serve"}, Host: "here:27017", Log: memoryLog{}, LocalhostOnly: true,
			Compressors: []string{"snappy", "zlib", "zstd"}, Shutdown: func(bool) {},
		},
	}
	n.Register(d.Registry)
	return n
}

// masks hide what differs from run to run.
var masks = []struct{ find, put string }{
	{`ObjectId\('[0-9a-f]+'\)`, "ObjectId(...)"}, {`UUID\("[0-9a-f-]+"\)`, "UUID(...)"},
	{`new Date\(-?\d+\)`, "new Date(...)"}, {`go1[.0-9]+`, "go"},
	{`currentOpTime: "[^"]+"`, "currentOpTime: ..."}, {`microsecs_running: \d+`, "microsecs_running: ..."},
}

// TestDiagnostic runs the scripts of testdata/diagnostic: each case is a
// database and bodies, the expectation the replies; "keys" prints only the
// names of the reply's fields.
func TestDiagnostic(t *testing.T) {
	datadriven.Walk(t, "testdata/diagnostic", func(t *testing.T, path string) {
		n := withoutData()
		client := &command.Client{ConnectionID: 7, Remote: "127.0.0.1:40000"}
		n.Dispatcher.Clients.Connect(client)
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				body, err := bson.ParseJSON(line)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				reply := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, DB: c.Cmd, Body: body}).Body
				if c.HasArg("keys") {
					for name := range reply.All() {
						out.WriteString(name + " ")
					}
				} else {
					out.WriteString(reply.String())
				}
				out.WriteString("\n")
			}
			text := out.String()
			for _, m := range masks {
				text = regexp.MustCompile(m.find).ReplaceAllString(text, m.put)
			}
			return text
		})
	})
}

func dispatch(t *testing.T, n *Node, c *command.Client, db, text string, exhaust bool) command.Response {
	t.Helper()
	body, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: c, DB: db, Body: body, ExhaustAllowed: exhaust})
}

func TestHelloAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := withoutData()
		c := &command.Client{ConnectionID: 1}
		first := dispatch(t, n, c, "admin", `{"hello":1}`, false)
		known := first.Body.Lookup("topologyVersion").Doc()
		var b bson.Builder
		body := b.Int32("hello", 1).Doc("topologyVersion", known).Int32("maxAwaitTimeMS", 10_000).String("$db", "admin").Finish()
		begun := time.Now()
		r := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: c, Body: body, ExhaustAllowed: true})
		if time.Since(begun) != 10*time.Second || r.Next == nil || r.Body.Lookup("ok").Double() != 1 {
			t.Errorf("after %v: %s, next %s", time.Since(begun), r.Body, r.Next)
		}
		other := dispatch(t, n, c, "admin", `{"hello":1,"maxAwaitTimeMS":5,"topologyVersion":{"processId":{"$oid":"000000000000000000000000"},"counter":{"$numberLong":"3"}}}`, true)
		next := other.Next.Lookup("topologyVersion").Doc()
		if bson.CompareDocs(next, known, nil) != 0 {
			t.Errorf("the stream goes on with %s", next)
		}
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if r := n.Dispatcher.Dispatch(gone, &command.Request{Client: c, Body: body}); r.Body.Lookup("ok").Double() != 0 {
			t.Errorf("at shutdown: %s", r.Body)
		}
	})
}

func TestServerStatusSections(t *testing.T) {
	n := withoutData()
	c := &command.Client{ConnectionID: 1}
	has := func(text, section string) bool {
		return dispatch(t, n, c, "admin", text, false).Body.Has(section)
	}
	for _, tc := range []struct {
		body, section string
		want          bool
	}{
		{`{"serverStatus":1}`, "metrics", true}, {`{"serverStatus":1,"metrics":0}`, "metrics", false},
		{`{"serverStatus":1,"metrics":null}`, "metrics", false}, {`{"serverStatus":1}`, "mirroredReads", false},
		{`{"serverStatus":1,"mirroredReads":{}}`, "mirroredReads", true}, {`{"serverStatus":1,"foo":1}`, "foo", false},
	} {
		if got := has(tc.body, tc.section); got != tc.want {
			t.Errorf("%s: %s is %v", tc.body, tc.section, got)
		}
	}
}
