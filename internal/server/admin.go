package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"golang.org/x/net/netutil"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/invariant"
)

const (
	adminReadTimeout = 10 * time.Second
	adminStopTimeout = time.Second
	adminMaxHeader   = 16 << 10
)

// maxAdmins bounds the connections to the admin port; more wait.
const maxAdmins = 64

// admin is the HTTP server with /metrics, /healthz, /readyz and /debug/pprof. It runs from
// before the engine opens until after it has closed.
type admin struct {
	http      *http.Server
	listeners []net.Listener
	done      chan struct{} // closed when all of serve's goroutines have ended
}

// startAdmin listens on the admin port and starts to serve.
func (s *Server) startAdmin(ctx context.Context, o config.Admin) (*admin, error) {
	if o.Port == 0 {
		return nil, nil
	}
	a := &admin{done: make(chan struct{})}
	var err error
	if a.listeners, err = listenHosts(ctx, o.BindIP, o.Port); err != nil {
		return nil, err
	}
	a.http = &http.Server{
		Handler: s.adminHandler(), ReadTimeout: adminReadTimeout, MaxHeaderBytes: adminMaxHeader,
		BaseContext: func(net.Listener) context.Context { return s.life },
	}
	if o.TLS {
		a.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // no HTTP/2
	}
	s.warnOfAdmin(o)
	served := make(chan error)
	for _, l := range a.listeners {
		s.network.Info("Admin HTTP server listens", "id", logAdmin, "address", l.Addr().String(), "tls", o.TLS, "access", o.Access)
		l = netutil.LimitListener(l, maxAdmins)
		if o.TLS {
			l = tls.NewListener(l, s.certificates.Optional())
		}
		go func() { served <- a.http.Serve(l) }()
	}
	go func() {
		defer close(a.done)
		for range a.listeners {
			if err := <-served; !errors.Is(err, http.ErrServerClosed) {
				s.network.Error("Admin HTTP server ended", "id", logAdmin, "error", err)
			}
		}
	}()
	return a, nil
}

func (a *admin) stop() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminStopTimeout)
	defer cancel()
	if a.http.Shutdown(ctx) != nil {
		_ = a.http.Close()
	}
	<-a.done
}

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", s.admitting(auth.ServerStatus, promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})))
	if !s.Options.Admin.Profiles {
		return mux
	}
	for path, h := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": s.commandLine, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		mux.Handle("/debug/pprof/"+path, s.admitting(auth.SetParameter, h))
	}
	return mux
}

// commandLine serves pprof.Cmdline without the secrets.
func (s *Server) commandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(strings.Join(s.Options.Argv(), "\x00")))
}

// healthz returns 200 while clients are served, else 503; the body is the state of the
// server.
func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	tellState(w, s.state.Load().(string))
}

// readyz is healthz, but for a member of a replica set that serves no reads: it returns 503, and the
// state of the member. So another one is not stopped meanwhile.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	state := s.state.Load().(string)
	if state == stateServing && s.app.Unready != nil {
		state = cmp.Or(s.app.Unready(), state)
	}
	tellState(w, state)
}

func tellState(w http.ResponseWriter, state string) {
	w.Header().Set("Content-Type", "application/json")
	if state != stateServing {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(`{"status":` + strconv.Quote(state) + "}\n"))
}

// newRegistry holds the metrics of the process and of the connections.
func (s *Server) newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(s.connectionMetrics()...)
	r.MustRegister(s.newCertificateMetrics())
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "mayfly", Name: "invariants_broken_total", Help: "Assertions found broken."},
			func() float64 { return float64(invariant.Broken()) }))
	return r
}
