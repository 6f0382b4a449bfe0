package webserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// Server answers the requests of any number of listeners.
type Server struct {
	Handler http.Handler
	// ReadTimeout bounds a request from its first byte to its last, WriteTimeout
	// the sending of its answer, IdleTimeout the wait for the next one.
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	// MaxHeader bounds the header of a request, in bytes.
	MaxHeader int
	// MaxBody is the longest body, in bytes, that is read before the handler is
	// called. A handler has to bound a longer one itself.
	MaxBody int
	// TLS encrypts the connections; nil for none.
	TLS *tls.Config
	// ConnContext makes the context of a connection's requests of that of Serve; nc
	// is what the listener accepted. nil for that of Serve.
	ConnContext func(ctx context.Context, nc net.Conn) context.Context
	Log         *slog.Logger

	once sync.Once
	fast fasthttp.Server
	life context.Context
}

// Serve answers the connections of a listener, with ctx for their requests, until
// Shutdown.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.once.Do(func() {
		s.life = ctx
		s.fast = fasthttp.Server{
			Handler: s.handle, ReadTimeout: s.ReadTimeout, WriteTimeout: s.WriteTimeout, IdleTimeout: s.IdleTimeout, ReadBufferSize: s.MaxHeader,
			MaxRequestBodySize: s.MaxBody, StreamRequestBody: true, CloseOnShutdown: true,
			NoDefaultServerHeader: true, NoDefaultContentType: true, Logger: quiet{s.Log},
			// A form is a body like any other: uploaded files are not written to disk.
			DisablePreParseMultipartForm: true,
			// Headers carry keys: they stay out of the log.
			SecureErrorLogMessage: true,
		}
	})
	return s.fast.Serve(listener{l, s})
}

// Shutdown closes the listeners and the connections without a request, and
// waits for the others to answer theirs until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.fast.ShutdownWithContext(ctx) }

// handle answers one request. A panic ends the connection alone.
func (s *Server) handle(ctx *fasthttp.RequestCtx) {
	e := &ctx.Conn().(interface{ own() *connection }).own().exchange
	if !e.begin(ctx) {
		ctx.Error("", fasthttp.StatusBadRequest)
		ctx.SetConnectionClose()
		return
	}
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("A request panicked", "method", e.request.Method, "path", e.request.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			ctx.Error("", fasthttp.StatusInternalServerError)
			ctx.SetConnectionClose()
		}
	}()
	s.Handler.ServeHTTP(e, e.request)
	e.finish()
}

// quiet is fasthttp's logger for broken connections, which discards them.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(format string, args ...any) { q.log.Debug(fmt.Sprintf(format, args...)) }
