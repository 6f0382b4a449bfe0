package server

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/console"
)

const (
	consoleHeaderTime = 10 * time.Second
	consoleReadTime   = time.Minute
	consoleIdleTime   = 2 * time.Minute
	consoleStopTime   = 5 * time.Second
	consoleMaxHeader  = 16 << 10
)

// consoleName is by what name currentOp shows the connections.
const consoleName = "Mayfly console"

// maxConsoles bounds the connections to the console; more are closed.
const maxConsoles = 256

// consoleEndpoint is the console as a part of the server.
type consoleEndpoint struct {
	s         *Server
	o         config.Console
	check     CheckPassword
	dispatch  Dispatcher
	http      *http.Server
	pages     *console.Server
	listeners []net.Listener
	open      atomic.Int64 // connections
	drained   sync.Once
	running   sync.WaitGroup
}

// consoleComponents returns the console's component, none if it is off.
func (s *Server) consoleComponents(d Dispatcher, check CheckPassword) []Component {
	if !s.Options.Console.Enabled {
		return nil
	}
	e := &consoleEndpoint{s: s, o: s.Options.Console, check: check, dispatch: d}
	return []Component{{Name: "console", Start: e.start, Drain: e.drain, Stop: e.stop}}
}

func (e *consoleEndpoint) start(ctx context.Context) error {
	listeners, err := listenHosts(ctx, e.o.BindIP, e.o.Port)
	if err != nil {
		return err
	}
	pages, err := console.New(console.Options{
		Dispatch: e.dispatch.Dispatch, CheckPassword: e.check, AccessControl: e.s.Options.Security.Authorization, Encrypted: e.o.TLS,
		Port: listeners[0].Addr().(*net.TCPAddr).Port, Host: e.s.host(), Version: config.Version, Memory: e.s.memory, Metrics: e.s.registry,
	})
	if err != nil {
		closeAll(listeners)
		return err
	}
	e.listeners, e.pages = listeners, pages
	e.running.Go(func() { pages.Sample(ctx) })
	e.http = &http.Server{
		Handler: ofLink(busyButLive(pages)), ReadHeaderTimeout: consoleHeaderTime, ReadTimeout: consoleReadTime, IdleTimeout: consoleIdleTime, MaxHeaderBytes: consoleMaxHeader,
		ConnContext: e.connContext, ConnState: e.count, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2
		ErrorLog: slog.NewLogLogger(e.s.network.Handler(), slog.LevelDebug),
	}
	for _, l := range listeners {
		e.s.network.Info("Console listens", "id", logConsole, "address", l.Addr().String(), "tls", e.o.TLS)
		accepted := newHandoff(l.Addr())
		e.running.Go(func() {
			defer accepted.Close()
			e.s.accept(l, e.s.network.With("ctx", "listener"), console.Protocol, func(l *link) { accepted.take(l) })
		})
		var served net.Listener = accepted
		if e.o.TLS {
			served = tls.NewListener(accepted, e.s.certificates.Optional())
		}
		e.running.Go(func() {
			if err := e.http.Serve(served); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				e.s.network.Error("Console ended", "id", logConsole, "error", err)
			}
		})
	}
	return nil
}

// connContext returns the context of a connection, with its link.
func (e *consoleEndpoint) connContext(ctx context.Context, nc net.Conn) context.Context {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	l := nc.(*link) // from a handoff
	l.client.Encrypted = e.o.TLS
	l.client.SetMetadata(&command.Metadata{AppName: consoleName, Document: new(bson.Builder).OpenDoc("application").String("name", consoleName).Close().Finish()})
	return connContext(ctx, l)
}

// count closes connections that are too many.
func (e *consoleEndpoint) count(nc net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if e.open.Add(1) > maxConsoles {
			_ = nc.Close()
		}
	case http.StateClosed:
		e.open.Add(-1)
	}
}

// ofLink has requests end with their link. net/http ends them when the client hangs up, writes as
// well; streams, which write nothing, end then, too.
func ofLink(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := connContext(r.Context(), r.Context().Value(linkKey{}).(*link))
		if lasts(r) {
			var end context.CancelFunc
			ctx, end = context.WithCancel(ctx)
			defer end()
			defer context.AfterFunc(r.Context(), end)()
		}
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// lasts reports whether a request is a stream, which is open as long as its page.
func lasts(r *http.Request) bool {
	return r.URL.Path == console.LivePath || r.URL.Path == console.TailPath
}

// busyButLive is busy, except for streams, which say nothing of how long requests take.
func busyButLive(h http.Handler) http.Handler {
	counted := busy(h)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lasts(r) {
			h.ServeHTTP(w, r)
			return
		}
		counted.ServeHTTP(w, r)
	})
}

// drain accepts no more connections, ends streams, closes idle connections, and lets the others end after
// their request, until ctx ends.
func (e *consoleEndpoint) drain(ctx context.Context) {
	e.drained.Do(func() {
		closeAll(e.listeners)
		if e.http == nil {
			return
		}
		e.pages.EndStreams()
		if err := e.http.Shutdown(ctx); err != nil {
			e.s.network.Warn("Requests to the console were cut off", "id", logConsole, "error", err)
			_ = e.http.Close()
		}
	})
}

func (e *consoleEndpoint) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, consoleStopTime)
	defer cancel()
	e.drain(ctx)
	e.running.Wait()
	return nil
}
