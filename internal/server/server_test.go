package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp ends the one some seconds after its server, and the other never.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// fake answers requests by the name of their first field: echo gives the body
// back, hold waits for release or the end of its context, count streams
// replies, bye ends the connection, huge answers with too much.
type fake struct {
	running chan struct{} // one element for each hold that has begun
	ended   chan error    // one for each hold whose context ended
	release chan struct{}
}

func newFake() *fake {
	return &fake{make(chan struct{}, 10), make(chan error, 10), make(chan struct{})}
}

func (f *fake) Dispatch(ctx context.Context, req *command.Request) command.Response {
	name, v := req.Body.First()
	b := new(bson.Builder)
	switch name {
	case "hold":
		f.running <- struct{}{}
		select {
		case <-f.release:
		case <-ctx.Done():
			f.ended <- context.Cause(ctx)
			return command.Response{Body: command.ErrorReply(mongoerr.From(context.Cause(ctx)))}
		}
	case "count":
		b.Int32("n", v.Int32())
		if v.Int32() < 3 && req.ExhaustAllowed {
			return command.Response{Body: b.Double("ok", 1).Finish(), Next: new(bson.Builder).Int32("count", v.Int32()+1).Finish()}
		}
	case "bye":
		return command.Response{Body: b.Double("ok", 1).Finish(), Close: true}
	case "huge":
		return command.Response{Body: b.Binary("b", 0, make([]byte, wire.MaxMessageSize)).Finish()}
	default:
		b.Doc("echo", req.Body)
		for _, s := range req.Sequences {
			b.Int("n", int64(len(s.Docs)))
		}
	}
	return command.Response{Body: b.Double("ok", 1).Finish()}
}

// logText is a log's output that tests can read.
type logText struct {
	sync.Mutex
	bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

func (l *logText) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.String()
}

func options(t *testing.T) *config.Options {
	o, err := config.Load(config.Input{Args: []string{"--port", "0", "--unixSocketPrefix", t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func newTestServer(t *testing.T, o *config.Options, d Dispatcher) (*Server, *logText) {
	log, err := OpenLog(o.Log)
	if err != nil {
		t.Fatal(err)
	}
	text := &logText{}
	log.out.mu.w = text
	return New(o, log, func(context.Context, *Server) (*App, error) {
		return &App{Dispatcher: d, Clients: &command.Clients{}}, nil
	}), text
}

// start runs a server until the test ends.
func start(t *testing.T, o *config.Options, d Dispatcher) (*Server, *logText) {
	s, log := newTestServer(t, o, d)
	run(t, s)
	return s, log
}

// run runs s until the test ends.
func run(t *testing.T, s *Server) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context()) }()
	select {
	case <-s.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// peer is a client of a few lines.
type peer struct {
	t *testing.T
	net.Conn
	r *wire.Reader
}

func dial(t *testing.T, s *Server) *peer {
	nc, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &peer{t, nc, wire.NewReader(nc)}
}

func (p *peer) send(id int32, m wire.Message) {
	p.t.Helper()
	m.RequestID, m.OpCode = id, wire.OpMsg
	if m.Compressor == 0 {
		m.Compressor = wire.None
	}
	if _, err := wire.Write(p, &m); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) receive() *wire.Message {
	p.t.Helper()
	f, err := p.r.Next()
	if err != nil {
		p.t.Fatal(err)
	}
	m, err := wire.Parse(f)
	if err != nil {
		p.t.Fatal(err)
	}
	return m
}

func (p *peer) ended() bool {
	_, err := p.r.Next()
	return err != nil
}

func one(name string) bson.Doc { return new(bson.Builder).Int32(name, 1).Finish() }

func TestRequestsAndReplies(t *testing.T) {
	s, _ := start(t, options(t), newFake())
	p := dial(t, s)

	// Pipelined requests are answered in their order, each the way it came; one
	// that wants no answer gets none.
	p.send(1, wire.Message{Body: one("a"), Flags: wire.ChecksumPresent})
	p.send(2, wire.Message{Body: one("b"), Flags: wire.MoreToCome})
	p.send(3, wire.Message{Body: one("c"), Compressor: wire.Zstd, Sequences: []wire.Sequence{wire.NewSequence("s", one("x"), one("y"))}})
	for _, want := range []struct {
		to   int32
		text string
		flag wire.Flags
		comp wire.Compressor
	}{
		{1, "{ echo: { a: 1 }, ok: 1.0 }", wire.ChecksumPresent, wire.None},
		{3, "{ echo: { c: 1 }, n: 2, ok: 1.0 }", 0, wire.Zstd},
	} {
		m := p.receive()
		if m.ResponseTo != want.to || m.Body.String() != want.text || m.Flags != want.flag || m.Compressor != want.comp {
			t.Errorf("got %d %s %b %d, want %v", m.ResponseTo, m.Body, m.Flags, m.Compressor, want)
		}
	}

	// An exhaust stream: each reply answers the one before.
	p.send(4, wire.Message{Body: one("count"), Flags: wire.ExhaustAllowed})
	to := int32(4)
	for n := 1; n <= 3; n++ {
		m := p.receive()
		if m.ResponseTo != to || m.Body.Lookup("n").Int32() != int32(n) || (m.Flags&wire.MoreToCome != 0) != (n < 3) {
			t.Errorf("reply %d of the stream: to %d, %s, flags %b", n, m.ResponseTo, m.Body, m.Flags)
		}
		to = m.RequestID
	}

	// The greeting in the old form.
	q := wire.Message{RequestID: 5, OpCode: wire.OpQuery, Compressor: wire.None, Collection: "admin.$cmd", Body: one("isMaster")}
	if _, err := wire.Write(p, &q); err != nil {
		t.Fatal(err)
	}
	if m := p.receive(); m.OpCode != wire.OpReply || m.Body.String() != "{ echo: { isMaster: 1 }, ok: 1.0 }" {
		t.Errorf("%d %s", m.OpCode, m.Body)
	}

	// A reply that fits no message becomes an error; closing is the app's to ask.
	p.send(6, wire.Message{Body: one("huge")})
	if m := p.receive(); m.Body.Lookup("code").Int32() != int32(mongoerr.BSONObjectTooLarge) {
		t.Error(m.Body)
	}
	p.send(7, wire.Message{Body: one("bye")})
	if m := p.receive(); m.ResponseTo != 7 || !p.ended() {
		t.Error("the connection goes on")
	}
}

func TestGarbageEndsOnlyItsConnection(t *testing.T) {
	s, log := start(t, options(t), newFake())
	good := dial(t, s)
	tooLong := make([]byte, wire.HeaderLen)
	tooLong[3], tooLong[12], tooLong[13] = 0x7f, 0xdd, 7
	for name, b := range map[string][]byte{
		"noise":         bytes.Repeat([]byte{0xff}, 100),
		"too long":      tooLong,
		"unknown flags": {26, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 4, 0, 0, 0, 0, 5, 0, 0, 0, 0},
		"http":          []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"cut off":       {26, 0, 0, 0, 1, 0, 0, 0, 0},
	} {
		bad := dial(t, s)
		if _, err := bad.Write(b); err != nil {
			t.Fatal(err)
		}
		_ = bad.Conn.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(bad)
		if got := strings.Contains(string(rest), "over HTTP"); got != (name == "http") {
			t.Errorf("%s was answered %q", name, rest)
		}
		good.send(1, wire.Message{Body: one("a")})
		good.receive()
	}
	if n := strings.Count(log.String(), `"id":22988,`); n != 3 {
		t.Errorf("%d lines about garbage:\n%s", n, log)
	}

	// Sections that do not add up are answered before the connection ends.
	bad := dial(t, s)
	if _, err := bad.Write([]byte{27, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 9}); err != nil {
		t.Fatal(err)
	}
	if m := bad.receive(); m.Body.Lookup("code").Int32() != 40432 || !bad.ended() {
		t.Error(m.Body)
	}
}

func TestConnectionLimit(t *testing.T) {
	o := options(t)
	o.Net.MaxConnections = 2
	s, log := start(t, o, newFake())
	first, second := dial(t, s), dial(t, s)
	for _, p := range []*peer{first, second} {
		p.send(1, wire.Message{Body: one("a")})
		p.receive()
	}
	if third := dial(t, s); !third.ended() {
		t.Error("a third connection was let in")
	}
	if st := s.Stats(); st.Current != 2 || st.Available != 0 || st.Rejected != 1 || st.Created != 2 || !strings.Contains(log.String(), `"id":22942,`) {
		t.Errorf("%+v", st)
	}
	// A place that becomes free is given away again.
	_ = first.Close()
	for {
		p := dial(t, s)
		if _, err := wire.Write(p, &wire.Message{OpCode: wire.OpMsg, Compressor: wire.None, Body: one("a")}); err != nil {
			continue
		}
		if !p.ended() {
			break
		}
	}
}

func TestDisconnectInterrupts(t *testing.T) {
	f := newFake()
	s, _ := start(t, options(t), f)
	p := dial(t, s)
	p.send(1, wire.Message{Body: one("hold")})
	<-f.running
	_ = p.Close()
	if err := <-f.ended; !mongoerr.Is(err, mongoerr.ClientDisconnect) {
		t.Error(err)
	}
}

// pipes is a listener whose connections live in memory, for tests with a
// clock of their own.
type pipes struct {
	c      chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.c:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr {
	return &net.UnixAddr{Name: "memory", Net: "unix"}
}

// TestStop holds what stopping does to idle connections, to exhaust streams,
// to operations that end, and to those that do not.
func TestStop(t *testing.T) {
	o := options(t)
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			s, _ := newTestServer(t, o, f)
			s.maxConnections, s.app = 10, &App{Dispatcher: f}
			l := &pipes{c: make(chan net.Conn), closed: make(chan struct{})}
			stopped := make(chan error, 1)
			go func() {
				s.serve(t.Context(), []net.Listener{l})
				stopped <- s.stopConnections()
			}()
			connect := func() *peer {
				near, far := net.Pipe()
				l.c <- far
				return &peer{t, near, wire.NewReader(near)}
			}
			idle, busy, stream := connect(), connect(), connect()
			busy.send(1, wire.Message{Body: one("hold")})
			stream.send(1, wire.Message{Body: one("hold"), Flags: wire.ExhaustAllowed})
			<-f.running
			<-f.running
			begin := time.Now()
			s.Stop()
			if !idle.ended() {
				t.Error("an idle connection outlives the server")
			}
			if m := stream.receive(); m.Body.Lookup("code").Int32() != int32(mongoerr.InterruptedAtShutdown) {
				t.Error(m.Body)
			}
			want := drainTime
			if ends {
				want = time.Second
				time.Sleep(want)
				close(f.release)
			}
			m := busy.receive()
			if ok := m.Body.Lookup("ok").Double() == 1; ok != ends || time.Since(begin) != want {
				t.Errorf("after %v: %s", time.Since(begin), m.Body)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}

// deaf is a dispatcher whose operations do not hear that they are to end.
type deaf struct{ release chan struct{} }

func (d deaf) Dispatch(context.Context, *command.Request) command.Response {
	<-d.release
	return command.Response{Body: bson.Empty}
}

func TestStuckOperation(t *testing.T) {
	o := options(t)
	synctest.Test(t, func(t *testing.T) {
		d := deaf{make(chan struct{})}
		s, _ := newTestServer(t, o, d)
		s.maxConnections, s.app = 10, &App{Dispatcher: d}
		l := &pipes{c: make(chan net.Conn), closed: make(chan struct{})}
		stopped := make(chan error, 1)
		go func() {
			s.serve(t.Context(), []net.Listener{l})
			stopped <- s.stopConnections()
		}()
		near, far := net.Pipe()
		l.c <- far
		(&peer{t, near, nil}).send(1, wire.Message{Body: one("a")})
		synctest.Wait()
		s.Stop()
		if err := <-stopped; !errors.Is(err, ErrStuck) {
			t.Error(err)
		}
		close(d.release)
		_ = near.Close()
		s.end()
	})
}

// TestComponents holds the order of start and stop, and that a part that does
// not start takes those before it down again.
func TestComponents(t *testing.T) {
	var happened []string
	part := func(name string, err error) Component {
		note := func(what string, err error) func(context.Context) error {
			return func(context.Context) error { happened = append(happened, what+" "+name); return err }
		}
		return Component{Name: name, Start: note("start", err), Stop: note("stop", nil)}
	}
	bad := errors.New("it does not work")
	s, _ := newTestServer(t, options(t), nil)
	s.open = func(context.Context, *Server) (*App, error) {
		return &App{Components: []Component{part("a", nil), part("b", nil), part("c", bad), part("d", nil)}}, nil
	}
	if err := s.Run(t.Context()); !errors.Is(err, bad) {
		t.Error(err)
	}
	if got := strings.Join(happened, ", "); got != "start a, start b, start c, stop b, stop a" {
		t.Error(got)
	}
}

func TestAddressesInUse(t *testing.T) {
	o := options(t)
	s, _ := start(t, o, newFake())
	var refused *ListenError
	taken := *o
	taken.Net.Port = s.Port()
	other, _ := newTestServer(t, &taken, newFake())
	if err := other.Run(t.Context()); !errors.As(err, &refused) || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	// A socket that a server answers on is left alone; a dead one is replaced.
	socket := *o
	socket.Net.BindIP, socket.Net.Port = []string{o.Net.SocketPath(strconv.Itoa(s.Port()))}, 1
	other, _ = newTestServer(t, &socket, newFake())
	if err := other.Run(t.Context()); !errors.As(err, &refused) || !strings.Contains(err.Error(), "in use") {
		t.Error(err)
	}
	dead := filepath.Join(t.TempDir(), "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	socket.Net.BindIP, socket.Net.UnixSocket = []string{dead}, false
	start(t, &socket, newFake())
	nc, err := net.Dial("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, nc, wire.NewReader(nc)}
	p.send(1, wire.Message{Body: one("a")})
	p.receive()
	_ = nc.Close()
}

func TestAdmin(t *testing.T) {
	s, _ := newTestServer(t, options(t), newFake())
	defer s.end()
	a, err := s.startAdmin(t.Context(), config.Admin{Port: 0, BindIP: []string{"localhost"}})
	if err != nil || a != nil {
		t.Fatal("the admin server runs unasked")
	}
	s.Options.Admin.Access, s.Options.Admin.Profiles = []string{config.AdminOpen}, true
	h := s.adminHandler()
	get := func(path string) (int, string) {
		w := &answer{header: http.Header{}, code: http.StatusOK}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.ServeHTTP(w, r)
		return w.code, w.String()
	}
	if code, body := get("/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "starting") {
		t.Error(code, body)
	}
	s.state.Store(stateServing)
	if code, body := get("/healthz"); code != http.StatusOK || body != "{\"status\":\"serving\"}\n" {
		t.Error(code, body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "mayfly_connections_current 0") || !strings.Contains(body, "mayfly_request_duration_seconds_bucket") {
		t.Error(code, body)
	}
	if code, _ := get("/debug/pprof/cmdline"); code != http.StatusOK {
		t.Error(code)
	}
}

type answer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answer) Header() http.Header { return a.header }
func (a *answer) WriteHeader(c int)   { a.code = c }

// BenchmarkRoundTrip is what the server itself costs: one request and its
// reply over loopback, both ends included.
func BenchmarkRoundTrip(b *testing.B) {
	o, err := config.Load(config.Input{Args: []string{"--port", "0", "--nounixsocket", "--quiet"}})
	if err != nil {
		b.Fatal(err)
	}
	log, err := OpenLog(o.Log)
	if err != nil {
		b.Fatal(err)
	}
	log.out.mu.w = io.Discard
	s := New(o, log, func(context.Context, *Server) (*App, error) { return &App{Dispatcher: newFake()}, nil })
	done := make(chan error, 1)
	go func() { done <- s.Run(context.Background()) }()
	<-s.Ready()
	nc, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port())))
	if err != nil {
		b.Fatal(err)
	}
	r := wire.NewReader(nc)
	m := &wire.Message{OpCode: wire.OpMsg, Compressor: wire.None, Body: one("a")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Write(nc, m); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
	_ = nc.Close()
	s.Stop()
	if err := <-done; err != nil {
		b.Error(err)
	}
}
