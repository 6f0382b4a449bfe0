package server

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/webserver"
)

const (
	cosmosReadTimeout  = time.Minute
	cosmosWriteTimeout = time.Minute
	cosmosIdleTimeout  = 2 * time.Minute
	cosmosStopTimeout  = 5 * time.Second
	cosmosMaxHeader    = 32 << 10
)

// cosmosDirectory, in the data directory, is where the endpoint's certificate
// is.
const cosmosDirectory = "cosmos"

// cosmosEndpoint is the Cosmos DB endpoint as a part of the server.
type cosmosEndpoint struct {
	s         *Server
	o         config.Cosmos
	server    *cosmos.Server
	http      []*webserver.Server
	listeners []net.Listener
	drained   sync.Once
	running   sync.WaitGroup
}

// cosmosComponents returns the endpoint's components, none if it is off.
func (s *Server) cosmosComponents(part cosmos.Options) ([]Component, error) {
	o := s.Options.Cosmos
	if !o.Enabled {
		return nil, nil
	}
	if o.Key == "" {
		o.Key = cosmos.WellKnownKey
	}
	if o.Key == cosmos.WellKnownKey {
		if err := s.checkWellKnownKey(o); err != nil {
			return nil, err
		}
	}
	part.Key, part.Endpoint, part.Region, part.Consistency, part.CrossPartition = o.Key, o.Endpoint, o.Region, o.Consistency, o.CrossPartition
	server, err := cosmos.New(s.life, part)
	if err != nil {
		return nil, err
	}
	e := &cosmosEndpoint{s: s, o: o, server: server}
	return []Component{
		{Name: "cosmos", Start: e.start, Drain: e.drain, Stop: e.stop},
		background("cosmos tending", server.Tend),
	}, nil
}

// cosmosPart returns what any part of the endpoint works with: a server's, a shard's, a config
// server's. A router has neither a catalog nor an executor.
func (s *Server) cosmosPart(cat *catalog.Catalog, x *exec.Executor, d *command.Dispatcher) cosmos.Options {
	return cosmos.Options{Catalog: cat, Exec: x, Dispatcher: d, Log: s.log.Logger("NETWORK").With("ctx", "cosmos"), Memory: s.memory}
}

// checkWellKnownKey rejects the well-known key on addresses other than loopback, unless
// the options allow it: then it logs a warning.
func (s *Server) checkWellKnownKey(o config.Cosmos) error {
	for _, host := range o.BindIP {
		ips, err := resolve(s.life, host, true)
		if err == nil && !slices.ContainsFunc(ips, func(ip net.IP) bool { return !ip.IsLoopback() }) {
			continue
		}
		if !o.AllowWellKnownKey {
			return config.Errors{{Place: "cosmos.bindIp", Message: "at " + host + " anyone could read and change all containers with the emulator's well-known key: " +
				"set a key of your own (cosmos.keyFile or cosmos.key), or cosmos.allowWellKnownKey"}}
		}
		s.control.Warn("The Cosmos DB endpoint accepts the emulator's well-known key at an address that others may reach. "+
			"Read and write access to its containers is unrestricted", "id", logWellKnownKey, "tags", []string{tagStartupWarning}, "address", host)
	}
	return nil
}

func (e *cosmosEndpoint) start(ctx context.Context) error {
	var conf *tls.Config
	if e.o.TLS == "on" {
		dir := e.o.TLSDirectory
		if dir == "" {
			dir = filepath.Join(e.s.Options.Storage.DBPath, cosmosDirectory)
		}
		cert, err := endpointCertificate(dir)
		if err != nil {
			return err
		}
		conf = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	if err := e.listen(ctx, e.o.Port, e.server.Gateway(), conf); err != nil {
		return err
	}
	if e.o.ComputePort == 0 {
		return nil
	}
	return e.listen(ctx, e.o.ComputePort, e.server.ComputeGateway(), conf)
}

func (e *cosmosEndpoint) listen(ctx context.Context, port int, h http.Handler, conf *tls.Config) error {
	listeners, err := listenHosts(ctx, e.o.BindIP, port)
	if err != nil {
		return err
	}
	server := &webserver.Server{
		Handler: busy(h), ReadTimeout: cosmosReadTimeout, WriteTimeout: cosmosWriteTimeout, IdleTimeout: cosmosIdleTimeout, MaxHeader: cosmosMaxHeader, MaxBody: cosmos.MaxRequest,
		TLS: conf, ConnContext: connContext, Log: e.s.network,
	}
	e.http = append(e.http, server)
	for _, l := range listeners {
		e.s.network.Info("Cosmos DB endpoint listens", "id", logCosmos, "address", l.Addr().String(), "tls", conf != nil)
		e.listeners = append(e.listeners, l)
		accepted := newHandoff(l.Addr())
		e.running.Go(func() {
			defer accepted.Close()
			e.s.accept(l, e.s.network.With("ctx", "listener"), cosmos.Protocol, func(l *link) { accepted.take(l) })
		})
		e.running.Go(func() {
			if err := server.Serve(e.s.life, accepted); err != nil {
				e.s.network.Error("Cosmos DB endpoint ended", "id", logCosmos, "error", err)
			}
		})
	}
	return nil
}

// connContext returns the context for requests of a connection: that of its link.
func connContext(_ context.Context, nc net.Conn) context.Context {
	l := nc.(*link) // from a handoff
	return command.WithClient(context.WithValue(l.ctx, linkKey{}, l), l.client)
}

// linkKey is the key of a context's link.
type linkKey struct{}

// busy tracks which connections run a request.
func busy(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l := r.Context().Value(linkKey{}).(*link)
		start := time.Now()
		l.server.stats.requests.Add(1)
		l.begin(start, false)
		defer func() { l.end(time.Since(start)) }()
		h.ServeHTTP(w, r)
	})
}

// drain accepts no more connections, closes idle ones, and lets the others end after
// their request, until ctx ends.
func (e *cosmosEndpoint) drain(ctx context.Context) {
	e.drained.Do(func() {
		closeAll(e.listeners)
		var all sync.WaitGroup
		for _, h := range e.http {
			all.Go(func() {
				if err := h.Shutdown(ctx); err != nil {
					e.s.network.Warn("Requests to the Cosmos DB endpoint were cut off", "id", logCosmos, "error", err)
				}
			})
		}
		all.Wait()
	})
}

func (e *cosmosEndpoint) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cosmosStopTimeout)
	defer cancel()
	e.drain(ctx)
	e.running.Wait()
	return nil
}
