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

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// testSet is members of a replica set in this process, each with its node, on file
// systems in memory.
type testSet struct {
	t       *testing.T
	mu      sync.Mutex
	hosts   map[string]*bufconn.Listener
	members map[string]*testMember
}

type testMember struct {
	*Node
	client *command.Client
	member *repl.Member
	serve  sync.WaitGroup
}

func newTestSet(t *testing.T, names ...string) *testSet {
	s := &testSet{t: t, hosts: map[string]*bufconn.Listener{}, members: map[string]*testMember{}}
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
	fs, host := storage.NewMemFS(), name+":1"
	m, err := repl.OpenMember(repl.MemberOptions{Set: "rs0", FS: fs, Dir: "db", Open: func(dir string) (*storage.Engine, error) {
		return storage.Open(storage.Options{Dir: dir, FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
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
	{regexp.MustCompile(`counter: \d+`), "counter: N"}, {regexp.MustCompile(`processId: ObjectId\('[0-9a-f]+'\)`), "processId: ..."},
	{regexp.MustCompile(`replicaSetId: ObjectId\('[0-9a-f]+'\)`), "replicaSetId: ..."}, {regexp.MustCompile(`uptime: \d+`), "uptime: ..."},
	{regexp.MustCompile(`pingMs: \d+`), "pingMs: ..."}, {regexp.MustCompile(`UUID\("[0-9a-f-]+"\)`), "UUID(...)"},
	{regexp.MustCompile(`([, ]t|erm|configTerm): [1-9]\d*`), "$1: N"}, {regexp.MustCompile(`electionId: ObjectId\('7fffffff0000[0-9a-f]+'\)`), "electionId: ..."},
	{regexp.MustCompile(`id: \d{9,}`), "id: ..."}, {regexp.MustCompile(`since [0-9TZ:-]+`), "since ..."}, {regexp.MustCompile(`as of [0-9TZ:-]+`), "as of ..."},
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
			if len(c.CmdArgs) > 0 {
				db = c.CmdArgs[0].Key
			}
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				text := s.run(c.Cmd, db, line).String()
				for _, m := range setMasks {
					text = m.find.ReplaceAllString(text, m.put)
				}
				out.WriteString(text + "\n")
			}
			return out.String()
		})
	})
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
