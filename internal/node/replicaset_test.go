package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/grpc/test/bufconn"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// testSet is members of a replica set in this process, each with its node, on file
// systems in memory.
type testSet struct {
	t       testing.TB
	mu      sync.Mutex
	hosts   map[string]*bufconn.Listener
	members map[string]*testMember
	files   map[string]*storage.MemFS // of members that were there before
	memory  int64                     // bytes of a member's cache and of its memtable
}

type testMember struct {
	*Node
	client *command.Client
	member *repl.Member
	serve  sync.WaitGroup
}

func newTestSet(t testing.TB, names ...string) *testSet { return newSetWith(t, 1<<20, names...) }

// newSetWith is newTestSet with so many bytes for caches, and for memtables.
func newSetWith(t testing.TB, memory int64, names ...string) *testSet {
	s := &testSet{t: t, memory: memory, hosts: map[string]*bufconn.Listener{}, members: map[string]*testMember{}, files: map[string]*storage.MemFS{}}
	for _, name := range names {
		s.members[name] = s.open(name)
	}
	t.Cleanup(func() {
		for name := range s.members {
			s.stop(name)
		}
	})
	return s
}

func (s *testSet) open(name string) *testMember {
	fs, host := s.files[name], name+":1"
	if fs == nil {
		fs = storage.NewMemFS()
		s.files[name] = fs
	}
	m, err := repl.OpenMember(repl.MemberOptions{Set: "rs0", FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: s.memory, MemtableBytes: s.memory})
	}, Network: repl.NetworkOptions{Host: host, Dial: s.dial}, Fatal: func(err error) { s.t.Errorf("%s: %v", host, err) }})
	if err != nil {
		s.t.Fatal(err)
	}
	tm := &testMember{member: m}
	tm.Node, tm.client = over(m.Catalog())
	tm.Dispatcher.Member = m
	tm.Register(tm.Dispatcher.Registry)
	l := bufconn.Listen(1 << 20)
	s.mu.Lock()
	s.hosts[host] = l
	s.mu.Unlock()
	tm.serve.Go(func() {
		if err := m.ServePeers(l); err != nil {
			s.t.Error(err)
		}
	})
	return tm
}

func (s *testSet) dial(ctx context.Context, host string) (net.Conn, error) {
	s.mu.Lock()
	l := s.hosts[host]
	s.mu.Unlock()
	if l == nil {
		return nil, errors.New("no such host")
	}
	return l.DialContext(ctx)
}

// loses stops a member, as if its machine had lost power before, and starts it again.
func (s *testSet) loses(name string) {
	left := s.files[name].Crash(0, nil)
	s.stop(name)
	s.files[name] = left
	s.members[name] = s.open(name)
}

func (s *testSet) stop(name string) {
	m := s.members[name]
	s.mu.Lock()
	delete(s.hosts, name+":1")
	s.mu.Unlock()
	delete(s.members, name)
	m.Dispatcher.Cursors.CloseAll()
	if err := m.member.Stop(); err != nil {
		s.t.Error(err)
	}
	m.serve.Wait()
}

// until waits for something that is to happen.
func (s *testSet) until(what string, is func() bool) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("there is no %s", what)
		}
	}
}

// run dispatches one command to a member.
func (s *testSet) run(name, db, text string) bson.Doc {
	s.t.Helper()
	body, err := bson.ParseJSON(text)
	if err != nil {
		s.t.Fatalf("%s: %v", text, err)
	}
	m := s.members[name]
	return m.Dispatcher.Dispatch(s.t.Context(), &command.Request{Client: m.client, DB: db, Body: body}).Body
}

// setMasks hide what differs from run to run.
var setMasks = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`, \$clusterTime: \{ clusterTime: Timestamp\(\d+, \d+\), signature: \{ hash: BinData\(0, [0A]+={0,2}\), keyId: 0 \} \}, operationTime: Timestamp\(\d+, \d+\)`), ", TIMES"},
	{regexp.MustCompile(`Timestamp\([1-9]\d*, \d+\)`), "Timestamp(...)"}, {regexp.MustCompile(`new Date\([1-9]\d*\)`), "new Date(...)"},
	{regexp.MustCompile(`_data: "[0-9A-F]+"`), `_data: "..."`},
	{regexp.MustCompile(`counter: \d+`), "counter: N"}, {regexp.MustCompile(`processId: ObjectId\('[0-9a-f]+'\)`), "processId: ..."},
	{regexp.MustCompile(`replicaSetId: ObjectId\('[0-9a-f]+'\)`), "replicaSetId: ..."}, {regexp.MustCompile(`uptime: \d+`), "uptime: ..."},
	{regexp.MustCompile(`pingMs: \d+`), "pingMs: ..."}, {regexp.MustCompile(`UUID\("[0-9a-f-]+"\)`), "UUID(...)"},
	{regexp.MustCompile(`([, ]t|erm|configTerm): [1-9]\d*`), "$1: N"}, {regexp.MustCompile(`electionId: ObjectId\('7fffffff0000[0-9a-f]+'\)`), "electionId: ..."},
	{regexp.MustCompile(`(id: )\d{9,}`), "$1..."},
	// A long message shows the more of the session's digest the shorter the cursor's id is.
	{regexp.MustCompile(`(cursor )\d{9,}([^"]* - 47DEQpj8HBSa\+/)[^"]*`), "$1...$2..."}, {regexp.MustCompile(`(cursor )\d{9,}`), "$1..."},
	{regexp.MustCompile(`since [0-9TZ:-]+`), "since ..."}, {regexp.MustCompile(`as of [0-9TZ:-]+`), "as of ..."},
	{regexp.MustCompile(`(OpTime: |wall clock time, )[0-9:]+`), "$1..."},
}

// TestReplicaSet runs the scripts of testdata/replicaset on sets of their own, which
// the first case opens. A case is a member and a database with commands, and their
// replies; or "until" a member is in a state or has a number of documents.
func TestReplicaSet(t *testing.T) {
	datadriven.Walk(t, "testdata/replicaset", func(t *testing.T, path string) {
		var s *testSet
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			switch c.Cmd {
			case "open":
				s = newTestSet(t, strings.Fields(c.Input)...)
				return ""
			case "stop":
				s.stop(c.CmdArgs[0].Key)
				return ""
			case "until":
				s.wait(strings.Fields(c.Input))
				return ""
			}
			db := "admin"
			if len(c.CmdArgs) > 0 && c.CmdArgs[0].Key != "section" {
				db = c.CmdArgs[0].Key
			}
			var part string
			c.MaybeScanArgs(t, "section", &part)
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				reply := s.run(c.Cmd, db, line)
				text := reply.String()
				if part != "" {
					text = section(reply, part)
				}
				for _, m := range setMasks {
					text = m.find.ReplaceAllString(text, m.put)
				}
				out.WriteString(text + "\n")
			}
			return out.String()
		})
	})
}

// section is a part of a reply: a field, or a field of a field.
func section(d bson.Doc, path string) string {
	var v bson.Value
	for name := range strings.SplitSeq(path, ".") {
		v = d.Lookup(name)
		if v.Type == bson.TypeDocument {
			d = v.Doc()
		}
	}
	return v.String()
}

// A hello that waits hears of a change when it comes, and its stream goes on from there.
func TestHelloWakes(t *testing.T) {
	s := newTestSet(t, "a")
	m := s.members["a"]
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	awaits := func(known bson.Doc, wait int32) command.Response {
		body := new(bson.Builder).Int32("hello", 1).Doc("topologyVersion", known).Int32("maxAwaitTimeMS", wait).String("$db", "admin").Finish()
		return m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: &command.Client{ConnectionID: 2}, Body: body, ExhaustAllowed: true})
	}
	known := s.run("a", "admin", `{"hello":1}`).Lookup("topologyVersion").Doc().Clone()
	for quiet := false; !quiet; { // what the election has changed may still be told
		next := awaits(known, 100).Body.Lookup("topologyVersion").Doc().Clone()
		quiet = bson.CompareDocs(next, known, nil) == 0
		known = next
	}
	heard := make(chan command.Response, 1)
	var waits sync.WaitGroup
	waits.Go(func() { heard <- awaits(known, 60_000) })
	s.run("a", "admin", `{"replSetReconfig":{"_id":"rs0","version":2,"members":[{"_id":0,"host":"a:1","tags":{"dc":"east"}}]}}`)
	waits.Wait()
	r := <-heard
	if v := r.Body.Lookup("setVersion"); !v.IsNumber() || bson.ClampToInt64(v) != 2 || r.Next == nil {
		t.Errorf("it hears %s, next %s", r.Body, r.Next)
	}
	counter := func(d bson.Doc) int64 { return d.Lookup("topologyVersion").Doc().Lookup("counter").Int64() }
	if counter(r.Body) <= known.Lookup("counter").Int64() {
		t.Errorf("the topology's version was %s, and is that of %s", known, r.Body)
	}
	if r := awaits(new(bson.Builder).ObjectID("processId", m.Dispatcher.ProcessID).Int64("counter", counter(r.Body)+1000).Finish(), 1); r.Body.Lookup("code").Int32() != 31382 {
		t.Errorf("a version of the future: %s", r.Body)
	}
}

// TestHelloStreamGoesOn holds that a stream of answers to hello goes on with what its
// last one told. With the version that the client began with, each answer after the
// first change would follow at once: driver and server then do nothing else.
func TestHelloStreamGoesOn(t *testing.T) {
	s := newTestSet(t, "a")
	known := s.run("a", "admin", `{"hello": 1}`).Lookup("topologyVersion")
	s.run("a", "admin", `{"replSetInitiate": {}}`)
	s.until("change", func() bool {
		return s.run("a", "admin", `{"hello": 1}`).Lookup("topologyVersion").String() != known.String()
	})
	body := new(bson.Builder).Int32("hello", 1).Value("topologyVersion", known).Int32("maxAwaitTimeMS", 60_000).String("$db", "admin").Finish()
	m := s.members["a"]
	r := m.Dispatcher.Dispatch(t.Context(), &command.Request{Client: m.client, Body: body, ExhaustAllowed: true})
	told, next := r.Body.Lookup("topologyVersion").String(), r.Next.Lookup("topologyVersion").String()
	if next != told || next == known.String() {
		t.Errorf("from %s, told %s, the stream goes on with %s", known, told, next)
	}
}

// What a driver may try again has the label that says so, if it has a number.
func TestRetryableErrorsHaveLabels(t *testing.T) {
	s := newTestSet(t, "a")
	d := s.members["a"].Dispatcher
	d.FailCommand = new(command.FailPoint)
	const numbered = `,"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}},"txnNumber":{"$numberLong":"1"}`
	insert := func(more string) bson.Doc {
		return s.run("a", "test", `{"insert":"c","documents":[{}]`+more+`}`)
	}
	check := func(what string, r bson.Doc, want string) {
		t.Helper()
		if got := r.Lookup("errorLabels"); got.String() != want && (want != "" || !got.IsMissing()) {
			t.Errorf("%s: %s", what, r)
		}
	}
	check("numbered, on no primary", insert(numbered), `[ "RetryableWriteError", "NoWritesPerformed" ]`)
	check("not numbered", insert(""), "")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	fail := func(data string) {
		t.Helper()
		b, err := bson.ParseJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.FailCommand.Configure(bson.Document(new(bson.Builder).Int32("times", 1).Finish()), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ what, data, more, want string }{
		{"an error", `{"failCommands":["insert"],"errorCode":189}`, numbered, `[ "RetryableWriteError", "NoWritesPerformed" ]`},
		{"an error without a number", `{"failCommands":["insert"],"errorCode":189}`, "", ""},
		{"another error", `{"failCommands":["insert"],"errorCode":11000}`, numbered, ""},
		{"labels of the fail point", `{"failCommands":["insert"],"errorCode":189,"errorLabels":["X"]}`, numbered, `[ "X" ]`},
		{"no labels", `{"failCommands":["insert"],"errorCode":189,"errorLabels":[]}`, numbered, ""},
		{"a write concern", `{"failCommands":["insert"],"writeConcernError":{"code":91,"errmsg":"x"}}`, numbered, `[ "RetryableWriteError" ]`},
		{"another write concern", `{"failCommands":["insert"],"writeConcernError":{"code":64,"errmsg":"x"}}`, numbered, ""},
	} {
		fail(c.data)
		check(c.what, insert(c.more), c.want)
	}
}

// What the primary's commands keep in documents counts on the others, too: users that
// are gone are logged out, parameters have their new values.
func TestMembersFollow(t *testing.T) {
	s := newTestSet(t, "a", "b")
	for _, m := range s.members {
		m.follow(t)
	}
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1"},{"_id":1,"host":"b:1","priority":0}]}}`)
	s.wait([]string{"b", "SECONDARY"})
	s.wait([]string{"a", "PRIMARY"})
	s.run("a", "admin", `{"setClusterParameter":{"defaultMaxTimeMS":{"readOperations":12345}}}`)
	s.until("the parameter", func() bool {
		return s.members["b"].Dispatcher.DefaultReadTime.Load() == 12345 &&
			strings.Contains(s.run("b", "admin", `{"getClusterParameter":"defaultMaxTimeMS"}`).String(), "12345")
	})
	if r := s.run("a", "admin", `{"createUser":"ann","pwd":"x","roles":["root"],"writeConcern":{"w":2}}`); r.Lookup("ok").Double() != 1 {
		t.Fatal(r)
	}
	b := s.members["b"]
	p, err := b.accounts.Principal(t.Context(), auth.UserName{User: "ann", DB: "admin"})
	if err != nil || p == nil {
		t.Fatal(p, err)
	}
	b.client.SetPrincipal(p)
	s.run("a", "admin", `{"dropUser":"ann"}`)
	s.until("the end of a user", func() bool {
		p, err := b.accounts.Current(t.Context(), b.client)
		return err == nil && p == nil
	})
}

// follow has a member's node follow the set until the test's end.
func (m *testMember) follow(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var follows sync.WaitGroup
	follows.Go(func() { m.Follow(ctx) })
	t.Cleanup(func() { stop(); follows.Wait() })
}

// wait waits for "member STATE", or "member sees n members".
func (s *testSet) wait(words []string) {
	m := s.members[words[0]].member
	s.until(strings.Join(words, " "), func() bool {
		if words[1] != "sees" {
			return m.State().Member.String() == words[1]
		}
		c := m.State().Config
		voters := 0
		if c != nil {
			for _, d := range c.Members {
				if d.Voter() || d.Votes == 0 {
					voters++
				}
			}
		}
		return fmt.Sprint(voters) == words[2]
	})
}
