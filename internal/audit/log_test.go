package audit

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// disk is an output that can be full.
type disk struct {
	full  bool
	lines []string
}

func (d *disk) Write(event []byte) error {
	if d.full {
		return errors.New("no space left on device")
	}
	d.lines = append(d.lines, string(event))
	return nil
}
func (*disk) Rotate() error { return nil }
func (*disk) Close() error  { return nil }

// While the disk is full nothing begins that is to be audited, what had begun is written once
// there is room, and the rest of the server goes on.
func TestFullDisk(t *testing.T) {
	out := &disk{}
	l, err := New(Options{Output: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d := command.NewDispatcher(slog.New(slog.DiscardHandler))
	d.Audit = l
	l.Register(d.Params)
	ran := 0
	handler := func(during bool) command.Handler {
		return func(_ context.Context, _ *command.Op) error { ran++; out.full = out.full || during; return nil }
	}
	d.Registry.Register(
		&command.Command{Name: "create", Run: handler(false)}, &command.Command{Name: "drop", Run: handler(true)}, &command.Command{Name: "ping", Run: handler(false)})
	c := &command.Client{ConnectionID: 1, Remote: "10.0.0.1:1", Local: "10.0.0.2:2"}
	run := func(text string) mongoerr.Code {
		body, err := bson.ParseJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		return mongoerr.Code(bson.ClampToInt64(d.Dispatch(t.Context(), &command.Request{Client: c, DB: "d", Body: body}).Body.Lookup("code")))
	}
	if code := run(`{"create": "c"}`); code != 0 || len(out.lines) != 1 {
		t.Fatal(code, out.lines)
	}
	if code := run(`{"drop": "c"}`); code != 0 || len(out.lines) != 1 { // full while it ran: it has run, and is told of later
		t.Fatal(code, out.lines)
	}
	if code := run(`{"create": "c"}`); code != mongoerr.OutOfDiskSpace || ran != 2 {
		t.Errorf("on a full disk: code %d", code)
	}
	if err := l.Tell(c, "authenticate", nil, 0); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Errorf("a login on a full disk: %v", err)
	}
	if code := run(`{"ping": 1}`); code != 0 || ran != 3 {
		t.Errorf("what is not audited: code %d", code)
	}
	out.full = false
	if code := run(`{"create": "e"}`); code != 0 {
		t.Errorf("with room again: code %d", code)
	}
	if len(out.lines) != 4 || !strings.Contains(out.lines[1], "dropCollection") || !strings.Contains(out.lines[2], "auditGap") || !strings.Contains(out.lines[3], `"createCollection"`) {
		t.Errorf("%q", out.lines)
	}
}

// asked is a request of another front end.
type asked struct{ event string }

func (*asked) Authorize(context.Context) error            { return nil }
func (*asked) Run(_ context.Context, _ *command.Op) error { return nil }
func (*asked) Shown() bson.Doc                            { return bson.Empty }
func (a *asked) Event() (string, func() (bson.Doc, mongoerr.Code)) {
	return a.event, func() (bson.Doc, mongoerr.Code) { return bson.Empty, mongoerr.DuplicateKey }
}

// A request of another front end that leaves an event is not run on a full disk; it has the result
// that its client has got.
func TestIntentOnFullDisk(t *testing.T) {
	out := &disk{}
	l, err := New(Options{Output: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d := command.NewDispatcher(slog.New(slog.DiscardHandler))
	d.Audit = l
	do := func(event string) error {
		op := &command.Op{Client: &command.Client{Remote: "10.0.0.1:1"}, Command: &command.Command{Name: "drop"}, DB: "d", Start: time.Now()}
		return d.Do(t.Context(), op, &asked{event})
	}
	if err := errors.Join(do("dropCollection"), do("")); err != nil || len(out.lines) != 1 || !strings.Contains(out.lines[0], `"result":11000`) {
		t.Fatal(err, out.lines)
	}
	out.full = true
	if err := l.Tell(nil, "authenticate", nil, 0); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Fatal(err)
	}
	if err := do("dropCollection"); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Errorf("on a full disk: %v", err)
	}
	if err := do(""); err != nil {
		t.Errorf("what leaves no event, on a full disk: %v", err)
	}
}

// After a login alone found the disk full nothing begins that is to be audited; the remedies do.
func TestRefusedAfterLogin(t *testing.T) {
	out := &disk{full: true}
	l, err := New(Options{Output: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := &command.Client{Remote: "10.0.0.1:1", Local: "10.0.0.2:2"}
	if err := l.Tell(c, "authenticate", nil, 0); !mongoerr.Is(err, mongoerr.OutOfDiskSpace) {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"createUser": true, "dropDatabase": true, "saslStart": true, "find": false, "shutdown": false, "logRotate": false} {
		op := &command.Op{Client: c, Command: &command.Command{Name: name}}
		if err := l.Ready(op); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
		p := command.NewDispatcher(slog.New(slog.DiscardHandler)).Params
		l.Register(p)
		if err := p.SetAtStartup("auditAuthorizationSuccess", "true"); err != nil {
			t.Fatal(err)
		}
		if err := l.Checked(op, nil); (err != nil) != !remedies[name] {
			t.Errorf("%s is allowed: %v", name, err)
		}
	}
	if l.Writable() == nil {
		t.Error("the log is writable")
	}
	out.full = false
	if err := l.Writable(); err != nil || !strings.Contains(out.lines[len(out.lines)-1], "auditGap") {
		t.Errorf("%v, %q", err, out.lines)
	}
}

// What is kept while the disk is full is bounded: what rules remove is added up by rule, and
// what is beyond the bounds is counted.
func TestKeptIsBounded(t *testing.T) {
	out := &disk{full: true}
	l, err := New(Options{Output: out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	expire := func(rule string) {
		l.Keep(nil, "expire", new(bson.Builder).String("rule", rule).Int64("documents", 7).Finish())
	}
	for range 1000 {
		expire("a")
	}
	expire("b")
	l.Keep(nil, "shutdown", nil)
	c, large := &command.Client{Remote: "10.0.0.1:1"}, new(bson.Builder).String("ns", strings.Repeat("x", 1<<20)).Finish()
	for range 20 {
		l.Keep(c, "createCollection", large)
	}
	if len(l.mu.unwritten) != 15 || l.mu.bytes > maxUnwritten || len(l.mu.sums) != 3 {
		t.Errorf("%d events of %d bytes, and %d sums are kept", len(l.mu.unwritten), l.mu.bytes, len(l.mu.sums))
	}
	for i := range maxSums {
		expire(strconv.Itoa(i))
	}
	if len(l.mu.sums) != maxSums {
		t.Errorf("%d sums", len(l.mu.sums))
	}
	out.full = false
	expire("c")
	text := strings.Join(out.lines, "")
	for _, want := range []string{`"rule":"a","documents":7000}`, `"rule":"b","documents":7}`, `"rule":"c","documents":7}`, `"lost":8}`} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%d of %s", strings.Count(text, want), want)
		}
	}
	if l.mu.failed != nil || l.mu.unwritten != nil || l.mu.bytes != 0 || l.mu.sums != nil || l.mu.lost != 0 {
		t.Errorf("something is kept: %+v", l.mu.lost)
	}
}

// A line says what the document of the event says, of another user when there is another.
func TestLine(t *testing.T) {
	c := &command.Client{Remote: "10.0.0.1:1", Local: "10.0.0.2:2"}
	e := newEvent("authCheck", new(bson.Builder).String("a", "\"\\\n\x01é").Double("b", 1).Date("d", 1_700_000_000_000).Finish(), 13)
	for _, p := range []*auth.Principal{
		nil, {User: &auth.User{Name: auth.UserName{User: "u", DB: "d"}}, Roles: []auth.RoleName{{Role: "read", DB: "d"}}}, {User: &auth.User{Name: auth.UserName{User: "v", DB: "d"}}}, nil,
	} {
		c.SetPrincipal(p)
		for range 2 {
			line, err := bson.ParseJSON(string(e.appendLine(nil, c)))
			if err != nil {
				t.Fatal(err)
			}
			if doc := e.document(c); !bson.Equal(bson.Document(line), bson.Document(doc)) {
				t.Errorf("%s\nis not\n%s", line, doc)
			}
		}
	}
}

// A filter is a query over events.
func TestFilter(t *testing.T) {
	out := &disk{}
	l, err := New(Options{Output: out, Log: slog.New(slog.DiscardHandler), Filter: `{"atype": {"$in": ["authenticate", "dropUser"]}, "remote.ip": {"$regex": "^10"}, "result": {"$ne": 0}}`})
	if err != nil {
		t.Fatal(err)
	}
	c, other := &command.Client{Remote: "10.0.0.1:1"}, &command.Client{Remote: "192.168.0.1:1"}
	for _, e := range []struct {
		c      *command.Client
		atype  string
		result mongoerr.Code
	}{{c, "authenticate", 0}, {c, "authenticate", 18}, {other, "authenticate", 18}, {c, "createUser", 18}, {nil, "dropUser", 11}, {c, "dropUser", 11}} {
		if err := l.Tell(e.c, e.atype, nil, e.result); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.lines) != 2 {
		t.Errorf("%q", out.lines)
	}
	for _, bad := range []string{`{"a"`, `{"a": {"$nope": 1}}`, `{"$where": "1"}`} {
		if _, err := New(Options{Output: out, Filter: bad}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
