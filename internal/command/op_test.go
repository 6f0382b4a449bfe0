package command

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func TestTimeLimitAndKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDispatcher(quiet())
		sample(d)
		c := &Client{ConnectionID: 7, Remote: "10.0.0.1:5"}
		d.Clients.Connect(c)
		defer d.Clients.Disconnect(c)
		begun := time.Now()
		if r := run(t, d, c, `{"slow":1,"maxTimeMS":250}`); code(r) != mongoerr.MaxTimeMSExpired || time.Since(begun) != 250*time.Millisecond {
			t.Errorf("%s after %v", r, time.Since(begun))
		}
		replies := make(chan bson.Doc)
		go func() { replies <- run(t, d, c, `{"slow":1,"comment":"look"}`) }()
		synctest.Wait()
		time.Sleep(3 * time.Second)
		ops := d.CurrentOps(CurrentOpOptions{})
		if len(ops) != 1 || ops[0].Lookup("desc").Str() != "conn7" || ops[0].Lookup("secs_running").Int64() != 3 ||
			ops[0].Lookup("command").Doc().Lookup("comment").Str() != "look" {
			t.Fatalf("%v", ops)
		}
		op := d.Clients.FindOp(ops[0].Lookup("opid").Int32())
		op.Kill()
		if r := <-replies; code(r) != mongoerr.Interrupted {
			t.Errorf("killed: %s", r)
		}
		if d.Metrics.Killed.Load() != 1 || d.Metrics.TimedOut.Load() != 1 {
			t.Error("not counted")
		}
		gone, leave := context.WithCancelCause(t.Context())
		leave(mongoerr.New(mongoerr.ClientDisconnect, "gone"))
		if r := d.Dispatch(gone, &Request{Client: c, DB: "test", Body: doc(t, `{"slow":1}`)}).Body; code(r) != mongoerr.ClientDisconnect {
			t.Errorf("disconnected: %s", r)
		}
	})
}

func TestBackground(t *testing.T) {
	d := NewDispatcher(quiet())
	var stopped error
	b := d.BeginBackground("TTLMonitor", KindNone, "", nil, func(err error) { stopped = err })
	b.Op().SetNS("app.sessions")
	b.Op().SetProgress(Progress{Message: "deleting", Done: 1, Total: 2})
	ops := d.CurrentOps(CurrentOpOptions{})
	if len(ops) != 1 || ops[0].Lookup("ns").Str() != "app.sessions" || ops[0].Lookup("desc").Str() != "TTLMonitor" {
		t.Fatalf("%v", ops)
	}
	d.Clients.FindOp(b.Op().ID).Kill()
	b.End()
	if stopped == nil || len(d.CurrentOps(CurrentOpOptions{IdleConnections: true})) != 0 {
		t.Error("still there")
	}
}

func TestProfiler(t *testing.T) {
	d := NewDispatcher(quiet())
	sample(d)
	var entries []bson.Doc
	d.Profiler.Sink = func(_ context.Context, db string, e bson.Doc) error {
		entries = append(entries, e)
		return io.EOF
	}
	count := func(s ProfileSettings, slowms int64) int {
		entries = nil
		d.Profiler.SetSlow(slowms, 1)
		d.Profiler.SetSettings("test", s)
		run(t, d, &Client{}, `{"kinds":"c"}`)
		return len(entries)
	}
	isKinds := func(e bson.Doc) bool { return e.Lookup("command").Doc().Has("kinds") }
	for _, c := range []struct {
		name   string
		s      ProfileSettings
		slowms int64
		want   int
	}{
		{"off", ProfileSettings{}, 0, 0},
		{"slow, and it was", ProfileSettings{Level: 1}, 0, 1},
		{"slow, and it was not", ProfileSettings{Level: 1}, 1000, 0},
		{"all", ProfileSettings{Level: 2}, 1000, 1},
		{"filter", ProfileSettings{Level: 1, Filter: isKinds}, 1000, 1},
		{"filter that does not match", ProfileSettings{Level: 2, Filter: func(bson.Doc) bool { return false }}, 0, 0},
		{"filter, but off", ProfileSettings{Filter: isKinds}, 0, 0},
	} {
		if got := count(c.s, c.slowms); got != c.want {
			t.Errorf("%s: %d entries", c.name, got)
		}
	}
}

func TestParams(t *testing.T) {
	p := NewParams()
	changes := 0
	n := p.Int(IntSpec{Name: "n", Default: 60, Above: true, OnChange: func() { changes++ }})
	b := p.Bool(BoolSpec{Name: "b"})
	s := p.String(StringSpec{Name: "s", Startup: true})
	p.Double(DoubleSpec{Name: "f", Max: 1})
	set := func(ss ...Setting) string {
		was, err := p.Set(ss)
		if err != nil {
			e := mongoerr.From(err)
			return e.Code.String() + ": " + e.Message
		}
		return was.String()
	}
	for _, c := range []struct{ got, want string }{
		{set(Setting{"n", bson.Double(5.9)}), "60"},
		{set(Setting{"n", bson.Int32(0)}), "BadValue: Invalid value for parameter n: 0 is not greater than 0"},
		{set(Setting{"n", bson.String("5")}), "BadValue: Unable to coerce value to integral type"},
		{set(Setting{"n", bson.Int64(1 << 40)}), "BadValue: Unable to coerce value to integral type"},
		{set(Setting{"n", bson.Int32(9)}, Setting{"x", bson.Int32(1)}), "InvalidOptions: Unrecognized parameter: x"},
		{set(Setting{"b", bson.String("x")}, Setting{"n", bson.Int32(7)}), "false"},
		{set(Setting{"s", bson.String("x")}), "IllegalOperation: not allowed to change [s] at runtime"},
		{set(Setting{"f", bson.Double(2)}), "BadValue: Invalid value for parameter f: 2 is not less than or equal to 1"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	if n.Load() != 7 || !b.Load() || changes != 2 {
		t.Errorf("n %d, b %v, %d changes", n.Load(), b.Load(), changes)
	}
	if err := p.SetAtStartup("s", "hello"); err != nil || s.Load() != "hello" {
		t.Errorf("%v, %q", err, s.Load())
	}
	for _, c := range [][2]string{{"n", "x"}, {"n", "0"}, {"b", "yes"}, {"nothing", "1"}} {
		if p.SetAtStartup(c[0], c[1]) == nil {
			t.Errorf("%s=%s was taken", c[0], c[1])
		}
	}
}
