package console

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Protocol is the command.Client's of connections to the console.
const Protocol = "console"

// Bounds of bodies, in bytes. A document of 16 MB is longer as text.
const (
	maxLogin = 4 << 10
	maxRun   = 24 << 20
)

// LivePath is where the stream of samples is, which lasts as long as its page is open.
const LivePath = "/api/live"

// Options is what the console works with.
type Options struct {
	// Dispatch runs a command (command.Dispatcher.Dispatch).
	Dispatch func(ctx context.Context, req *command.Request) command.Response
	// CheckPassword returns the user whose password it is. Errors: 18, and what keeps it
	// from finding out.
	CheckPassword func(ctx context.Context, remote, local string, name auth.UserName, password string) (*auth.Principal, error)
	// AccessControl says that clients must log in.
	AccessControl bool
	// Encrypted says that the console speaks TLS alone.
	Encrypted bool
	// Port is where it listens; cookies of several consoles of a host are told apart by it.
	Port int
	// Host is by what name and port the server calls itself, where it is of no set.
	Host string
	// Version is the server's.
	Version string
	// Memory is the budget of requests; nil for none.
	Memory *memory.Budget
	// Metrics are those that the server exports.
	Metrics prometheus.Gatherer
}

// Server answers the requests of browsers. It is an http.Handler; the context of a request
// has its client (command.WithClient).
type Server struct {
	o            Options
	sessions     sessions
	pages        *assets
	handler      http.Handler
	sampler      *sampler
	streams      atomic.Int64 // open ones
	examinations atomic.Int64 // that run
	stopping     chan struct{}
	stopped      sync.Once
}

// New makes a console.
func New(o Options) (*Server, error) {
	pages, err := readAssets()
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, pages: pages, sampler: newSampler(o.Metrics), stopping: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/login", s.login)
	mux.HandleFunc("POST /api/logout", s.asUser(s.logout))
	mux.HandleFunc("GET /api/session", s.describe)
	mux.HandleFunc("POST /api/run", s.asUser(s.run))
	mux.HandleFunc("POST /api/parse", s.asUser(s.parse))
	mux.HandleFunc("GET /api/operators", s.asUser(s.operators))
	mux.HandleFunc("POST /api/health", s.asUser(s.health))
	mux.HandleFunc("GET "+TailPath, s.asUser(s.tail))
	mux.HandleFunc("GET "+LivePath, s.asUser(s.live))
	mux.Handle("GET /", pages)
	s.handler = http.NewCrossOriginProtection().Handler(mux)
	return s, nil
}

// headers are those of every answer.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

// ServeHTTP is http.Handler's.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if !s.o.Encrypted && !isLoopback(r.Host) {
		http.Error(w, "the console answers as localhost alone", http.StatusMisdirectedRequest)
		return
	}
	s.handler.ServeHTTP(w, r)
}

// isLoopback reports whether what a browser was asked for is this machine, whatever a name
// server says: a name of someone else's may resolve to it.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if len(host) > 2 && host[0] == '[' {
		host = host[1 : len(host)-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// login begins a session: {user, password, db}, and {} where access is not controlled.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	var who struct{ User, Password, DB string }
	text, ok := body(w, r, maxLogin)
	if !ok {
		return
	}
	if json.Unmarshal(text, &who) != nil {
		fail(w, http.StatusBadRequest, mongoerr.New(mongoerr.FailedToParse, "a login is {user, password, db}"))
		return
	}
	var p *auth.Principal
	if s.o.AccessControl {
		if who.DB == "" {
			who.DB = "admin"
		}
		c := command.ClientOf(r.Context())
		var err error
		if p, err = s.o.CheckPassword(r.Context(), c.Remote, c.Local, auth.UserName{User: who.User, DB: who.DB}, who.Password); err != nil {
			fail(w, http.StatusUnauthorized, err)
			return
		}
	}
	s.sessions.end(s.shown(r)) // a login takes the place of another
	one, secret := s.sessions.begin(p)
	http.SetCookie(w, s.cookie(secret, 0))
	answer(w, s.description(one).String("csrf", one.token).Finish())
}

// logout ends the session.
func (s *Server) logout(w http.ResponseWriter, r *http.Request, _ *session) {
	s.sessions.end(s.shown(r))
	http.SetCookie(w, s.cookie("", -1))
	answer(w, new(bson.Builder).Finish())
}

// describe says who the session's user is, and what server this is; to who has none, whether
// one is needed.
func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	if one := s.session(r); one != nil {
		answer(w, s.description(one).Finish())
		return
	}
	answer(w, new(bson.Builder).Bool("accessControl", s.o.AccessControl).Finish())
}

func (s *Server) description(one *session) *bson.Builder {
	b := new(bson.Builder).String("version", s.o.Version).Bool("accessControl", s.o.AccessControl)
	if p := one.principal.Load(); p != nil {
		b.OpenDoc("user").String("user", p.User.Name.User).String("db", p.User.Name.DB).Close()
	}
	return b
}

// cookieName is that of the session's cookie. The prefix has browsers take it from this host
// alone, and by TLS.
func (s *Server) cookieName() string {
	name := "mayfly-" + strconv.Itoa(s.o.Port)
	if s.o.Encrypted {
		return "__Host-" + name
	}
	return name
}

// cookie has a session's secret; age is as http.Cookie.MaxAge.
func (s *Server) cookie(secret string, age int) *http.Cookie {
	return &http.Cookie{
		Name: s.cookieName(), Value: secret, Path: "/", MaxAge: age,
		HttpOnly: true, Secure: s.o.Encrypted, SameSite: http.SameSiteStrictMode,
	}
}

// shown is the secret that a request shows, "" for none.
func (s *Server) shown(r *http.Request) string {
	c, err := r.Cookie(s.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// The headers of calls: the token of the session, and that no person has asked for it.
const (
	tokenHeader   = "X-Mayfly-Csrf"
	passiveHeader = "X-Mayfly-Passive"
)

// session returns the session of a call, nil for none.
func (s *Server) session(r *http.Request) *session {
	return s.sessions.find(s.shown(r), r.Header.Get(tokenHeader), r.Header.Get(passiveHeader) == "")
}

var errNoSession = mongoerr.New(mongoerr.Unauthorized, "there is no such session: log in")

// asUser lets calls of a session through, whose client is the session's user meanwhile.
func (s *Server) asUser(do func(http.ResponseWriter, *http.Request, *session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		one := s.session(r)
		if one == nil {
			fail(w, http.StatusUnauthorized, errNoSession)
			return
		}
		c := command.ClientOf(r.Context())
		before := one.principal.Load()
		c.SetPrincipal(before)
		defer func() {
			// Access control has looked at the user again where users have changed.
			if now := c.Principal(); now != before {
				one.principal.CompareAndSwap(before, now)
			}
			c.SetPrincipal(nil)
			c.Conversation = nil
			if s.o.AccessControl && one.principal.Load() == nil {
				s.sessions.end(s.shown(r))
			}
		}()
		do(w, r, one)
	}
}

// body reads a request's body of JSON; false if it has answered why it cannot.
func body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, bool) {
	if r.Header.Get("Content-Type") != "application/json" {
		fail(w, http.StatusUnsupportedMediaType, mongoerr.New(mongoerr.FailedToParse, "Content-Type must be application/json"))
		return nil, false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		fail(w, http.StatusRequestEntityTooLarge, mongoerr.New(mongoerr.BSONObjectTooLarge, "a request is %d bytes at most", limit))
	case err != nil:
		fail(w, http.StatusBadRequest, mongoerr.New(mongoerr.FailedToParse, "the request broke off"))
	}
	return text, err == nil
}

// answer answers a call.
func answer(w http.ResponseWriter, d bson.Doc) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(d.AppendJSON(nil, bson.CanonicalJSON))
}

// fail answers a call that came to nothing, as a command that failed.
func fail(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(command.ErrorReply(mongoerr.From(err)).AppendJSON(nil, bson.CanonicalJSON))
}
