package account

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// served is a Store over an engine in memory, with the commands of this package.
type served struct {
	*Store
	t *testing.T
	d *command.Dispatcher
}

func newServed(t *testing.T, log *slog.Logger) *served {
	t.Helper()
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(e, catalog.Options{Committer: repl.Local{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		_ = e.Close()
	})
	d := command.NewDispatcher(slog.New(slog.DiscardHandler))
	s := &served{New(Options{Catalog: c, Log: log, Params: d.Params}), t, d}
	d.Registry.Register(s.Commands()...)
	return s
}

// run runs a command on the database admin.
func (s *served) run(c *command.Client, text string) bson.Doc {
	s.t.Helper()
	body, err := bson.ParseJSON(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.ask(c, body)
}

// ask is run in a context that what is logged is to have.
func (s *served) ask(c *command.Client, body bson.Doc) bson.Doc {
	ctx := context.WithValue(s.t.Context(), ofCommand{}, true)
	return s.d.Dispatch(ctx, &command.Request{Client: c, DB: "admin", Body: body}).Body
}

type ofCommand struct{}

// named holds that lines have the context of a command, by which the server's log
// names the connection.
type named struct {
	slog.Handler
	t *testing.T
}

func (n named) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(ofCommand{}) == nil {
		n.t.Errorf("the line %q names no connection", r.Message)
	}
	return n.Handler.Handle(ctx, r)
}

// logIn authenticates a client, and returns the code of the error, or 0.
func (s *served) logIn(c *command.Client, user, password string) int64 {
	s.t.Helper()
	p, err := auth.NewProver(auth.ScramSHA256, auth.Password{User: user, Text: password})
	if err != nil {
		s.t.Fatal(err)
	}
	said := ""
	ask := new(bson.Builder).Int32("saslStart", 1).String("mechanism", auth.ScramSHA256).Finish()
	for {
		message := "" // once more, when all is said
		if !p.Done() {
			if message, err = p.Step(said); err != nil {
				s.t.Fatal(err)
			}
		}
		body := new(bson.Builder).Fields(ask).Binary("payload", 0, []byte(message)).Finish()
		reply := s.ask(c, body)
		if code := bson.ClampToInt64(reply.Lookup("code")); code != 0 || reply.Lookup("done").Truthy() {
			return code
		}
		_, raw := reply.Lookup("payload").Binary()
		said, ask = string(raw), new(bson.Builder).Int32("saslContinue", 1).Int32("conversationId", 1).Finish()
	}
}

// TestFailedLoginsWait holds that logins wait after some that failed, from the same
// address for the same user only, and that each leaves a line in the log.
func TestFailedLoginsWait(t *testing.T) {
	var log bytes.Buffer
	s := newServed(t, slog.New(named{slog.NewTextHandler(&log, nil), t}))
	if reply := s.run(&command.Client{}, `{"createUser": "ann", "pwd": "p", "roles": []}`); !reply.Lookup("ok").Truthy() {
		t.Fatal(reply)
	}
	synctest.Test(t, func(t *testing.T) {
		for i, c := range []struct {
			host, user, password string
			code                 int64
			wait                 time.Duration // milliseconds
		}{
			{"10.0.0.1", "ann", "no", 18, 0}, {"10.0.0.1", "ann", "no", 18, 100}, {"10.0.0.1", "ann", "no", 18, 200},
			{"10.0.0.2", "ann", "p", 0, 0}, {"10.0.0.1", "bob", "no", 18, 0}, {"10.0.0.1", "bob", "no", 18, 100},
			{"10.0.0.1", "ann", "p", 0, 400}, {"10.0.0.1", "ann", "no", 18, 0},
		} {
			start := time.Now()
			code := s.logIn(&command.Client{ConnectionID: int64(i + 10), Remote: fmt.Sprintf("%s:%d", c.host, 4000+i)}, c.user, c.password)
			if got := time.Since(start); code != c.code || got != c.wait*time.Millisecond {
				t.Errorf("login %d: code %d after %s", i, code, got)
			}
		}
	})
	for text, want := range map[string]int{"id=5286307": 6, "user=bob": 2, "result=11": 2, "result=18": 4, "id=5286306": 2, "result=0": 2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%d times %q in %s", got, text, log.String())
		}
	}
}

// TestPrincipalFollowsChanges: what a client may do is that of its user now, and
// a client whose user is gone, or another of the same name, is nobody.
func TestPrincipalFollowsChanges(t *testing.T) {
	s := newServed(t, slog.New(slog.DiscardHandler))
	root, ann := &command.Client{ConnectionID: 1}, &command.Client{ConnectionID: 2, Remote: "10.0.0.1:1"}
	expect := func(what string, may, known bool) {
		t.Helper()
		p, err := s.Current(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		if known != (p != nil) || p != nil && p.May(auth.On(auth.Namespace("d", "c"), auth.Find)) != may {
			t.Errorf("%s: %+v", what, p)
		}
	}
	s.run(root, `{"createUser": "ann", "pwd": "p", "roles": []}`)
	if code := s.logIn(ann, "ann", "p"); code != 0 {
		t.Fatal(code)
	}
	expect("without roles", false, true)
	s.run(root, `{"grantRolesToUser": "ann", "roles": [{"role": "read", "db": "d"}]}`)
	expect("who may read", true, true)
	s.run(root, `{"createRole": "own", "privileges": [], "roles": [{"role": "read", "db": "d"}]}`)
	s.run(root, `{"updateUser": "ann", "roles": ["own"]}`)
	expect("by a role of a role", true, true)
	s.run(root, `{"dropRole": "own"}`)
	expect("without that role", false, true)
	s.run(root, `{"dropUser": "ann"}`)
	s.run(root, `{"createUser": "ann", "pwd": "p", "roles": ["root"]}`)
	expect("another of that name", false, false)
}
