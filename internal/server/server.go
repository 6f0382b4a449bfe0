package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/certificate"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/telemetry"
)

const (
	// drainTime is how long running operations may continue when the server stops.
	drainTime = 10 * time.Second
	// interruptTime is how long they have to end after an interrupt.
	interruptTime = 5 * time.Second
	// componentTime bounds the end of each component.
	componentTime = 30 * time.Second
)

// The states of the server.
const (
	stateStarting = "starting"
	stateServing  = "serving"
	stateStopping = "stopping"
)

// ErrStuck is the error of Run where operations do not end: what lies below
// them is not closed then, and the process must exit at once.
var ErrStuck = errors.New("operations did not end in time")

// Dispatcher answers requests.
type Dispatcher interface {
	// Dispatch runs one request to its end. ctx ends with a cause, an error for
	// the client, where its client has gone or the server stops.
	Dispatch(ctx context.Context, req *command.Request) command.Response
}

// Component is a part of the server that is started and stopped.
type Component struct {
	Name string
	// Start begins it and returns; ctx ends when the server begins to stop. Nil
	// where the component runs already.
	Start func(ctx context.Context) error
	// Drain has it let nobody in any more and ends its connections, those that run
	// something after it, until ctx ends; nil if it lets nobody in. It is called
	// before any component is stopped.
	Drain func(ctx context.Context)
	// Yield has another process take over what this one does for others, until ctx
	// ends; nil if there is nothing to do. It is called while clients are still served.
	Yield func(ctx context.Context)
	// Stop ends it and waits for what it runs; nil if there is nothing to end.
	Stop func(ctx context.Context) error
}

// App is what the server serves.
type App struct {
	Dispatcher Dispatcher
	Clients    *command.Clients // called for every connection; nil for none
	// Components start in this order, and stop in the reverse.
	Components []Component
	// CheckPassword is for the admin port.
	CheckPassword CheckPassword
	// Unready is the state of a replica set's member that serves no reads, "" of another one; nil
	// where there is no member.
	Unready func() string
	// Collectors are further metrics.
	Collectors []prometheus.Collector
	// Advance sets the server's clock forward, and removes what has come due by that.
	Advance func(ctx context.Context, by time.Duration) (time.Time, error)
}

// Open opens an App. It is called once, with the addresses bound. Where it
// fails it has closed what it opened.
type Open func(ctx context.Context, s *Server) (*App, error)

// Server is the process as a value. New makes it, Run is its life.
type Server struct {
	Options *config.Options
	// Clock is the clock of documents and their expiry, FS has the data, and Guest says that
	// the process is another program's: the server leaves alone how many processors and how
	// much memory that has. All three may be set before Run.
	Clock *catalog.Clock
	FS    storage.FS
	Guest bool
	// Network may be set before Run, too.
	Network Network

	log              *Log
	network, control *slog.Logger
	open             Open
	app              *App
	stats            *stats
	memory           *memory.Budget // of all operations
	registry         *prometheus.Registry
	started          time.Time
	maxConnections   int

	life     context.Context // ends last; the parent of operations' contexts
	end      context.CancelFunc
	stopping atomic.Bool
	yielded  atomic.Bool  // others have taken over, or have failed to
	state    atomic.Value // one of the states above
	asked    chan struct{}
	ask      sync.Once
	ready    chan struct{}
	port     int
	// listeners are those for clients.
	listeners []net.Listener
	audit     atomic.Pointer[audit.Log] // nil for none
	// certificates are those for TLS; nil for none.
	certificates *certificate.Store
	tracer       *telemetry.Tracer // nil for none
	peers        *handoff          // takes connections of other members; nil on a standalone

	accepting sync.WaitGroup // the goroutines of listeners, and watch
	serving   sync.WaitGroup // the goroutines of connections
	mu        struct {
		sync.Mutex
		links  map[*link]struct{}
		lastID int64
	}
}

// New makes a server that will serve what open opens.
func New(o *config.Options, log *Log, open Open) *Server {
	s := &Server{
		Options: o, Clock: catalog.NewClock(nil), FS: storage.OSFS(), log: log, network: log.Logger("NETWORK"), control: log.Logger("CONTROL").With("ctx", "initandlisten"),
		open: open, stats: newStats(), started: time.Now(), asked: make(chan struct{}), ready: make(chan struct{}),
	}
	s.memory = operationMemory(o)
	s.memory.Bound(s.memoryLimit())
	s.life, s.end = context.WithCancel(context.Background())
	s.state.Store(stateStarting)
	s.mu.links = map[*link]struct{}{}
	s.registry = s.newRegistry()
	return s
}

// Log is the server's log.
func (s *Server) Log() *Log { return s.log }

// Stop asks Run to stop and return; it does not wait.
func (s *Server) Stop() { s.ask.Do(func() { close(s.asked) }) }

// shutDown is Stop by a command. yields lets other processes take over first.
func (s *Server) shutDown(yields bool) {
	if !yields {
		s.yielded.Store(true)
	}
	s.Stop()
}

// Advance sets the server's clock forward, and removes what has come due by that; once Ready
// is closed.
func (s *Server) Advance(ctx context.Context, by time.Duration) (time.Time, error) {
	return s.app.Advance(ctx, by)
}

// Ready is closed once clients are let in.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Port is the port that is listened on, known once Ready is closed.
func (s *Server) Port() int { return s.port }

// Run serves until Stop is called or ctx ends, and stops. The error is a
// *ListenError, ErrStuck, or what a part failed with.
func (s *Server) Run(ctx context.Context) (err error) {
	defer s.end()
	if err := s.openCertificates(); err != nil {
		return err
	}
	if err := s.openAudit(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.closeAudit()) }()
	listeners, port, err := s.listen(ctx)
	if err != nil {
		return err
	}
	s.port, s.listeners = port, listeners
	admin, err := s.startAdmin(ctx, s.Options.Admin)
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer admin.stop()
	if err := s.openTelemetry(ctx); err != nil {
		closeAll(listeners)
		return err
	}
	defer s.tracer.Close()
	s.maxConnections = maxConnections(s.Options.Net.MaxConnections, s.control)
	if s.app, err = s.open(ctx, s); err != nil {
		closeAll(listeners)
		return err
	}
	s.registry.MustRegister(s.app.Collectors...)
	running, stopBackground := context.WithCancel(s.life)
	defer stopBackground()
	started := 0
	for _, c := range s.app.Components {
		if c.Start != nil {
			if err = c.Start(running); err != nil {
				err = fmt.Errorf("%s: %w", c.Name, err)
				break
			}
		}
		started++
	}
	if err == nil {
		s.serve(ctx, listeners)
		err = s.stopConnections()
	} else {
		closeAll(listeners)
	}
	stopBackground()
	if errors.Is(err, ErrStuck) {
		return err
	}
	return errors.Join(err, s.stopComponents(s.app.Components[:started]))
}

// serve accepts clients until the server is asked to stop.
func (s *Server) serve(ctx context.Context, listeners []net.Listener) {
	log := s.network.With("ctx", "listener")
	s.accepting.Go(s.watch)
	for _, l := range listeners {
		log.Info("Listening on", "id", logListening, "address", l.Addr().String())
		s.accepting.Go(func() { s.accept(l, log, "", func(l *link) { go s.serveLink(l) }) })
	}
	log.Info("Waiting for connections", "id", logWaiting, "port", s.port, "ssl", map[bool]string{false: "off", true: "on"}[s.certificates.Accepts()])
	s.state.Store(stateServing)
	close(s.ready)
	select {
	case <-ctx.Done():
	case <-s.asked:
	}
	s.state.Store(stateStopping)
	if !s.yielded.Load() {
		s.yield()
	}
	s.stopping.Store(true)
	s.network.Info("Shutdown: going to close listening sockets", "id", logCloseListeners)
	closeAll(listeners)
}

// disconnect breaks all connections, whatever they do, and lets no new ones in: for a process
// that cannot stop any more, and possibly not even end.
func (s *Server) disconnect() {
	s.stopping.Store(true)
	closeAll(s.listeners)
	s.each(func(l *link) { _ = l.Conn.Close() })
}

// yield lets another member take over before any client is disconnected: new clients
// are still served, or redirected.
func (s *Server) yield() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for _, c := range s.app.Components {
		if c.Yield != nil {
			c.Yield(ctx)
		}
	}
}

// stopConnections ends all connections. Running operations have drainTime to end, then
// they are interrupted.
func (s *Server) stopConnections() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	for _, c := range s.app.Components {
		if c.Drain != nil {
			s.accepting.Go(func() { c.Drain(ctx) })
		}
	}
	s.each((*link).stop)
	if n := s.Stats().Active; n > 0 {
		s.control.Info("Waiting for running operations to end", "id", logDraining, "operations", n)
	}
	if !s.ended(drainTime) {
		s.control.Warn("Interrupting operations that are still running", "id", logInterrupting, "operations", s.Stats().Active)
		s.each(func(l *link) { l.cancel(errInterrupted) })
		if !s.ended(interruptTime) {
			return ErrStuck
		}
	}
	s.end()
	s.accepting.Wait()
	return nil
}

// ended reports whether all connections have ended within a time. A connection that is
// stuck sending its last reply is closed at its end.
func (s *Server) ended(within time.Duration) bool {
	done := make(chan struct{})
	go func() {
		s.serving.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(within):
	}
	s.each(func(l *link) {
		if l.busySince.Load() == 0 {
			_ = l.Conn.Close()
		}
	})
	return false
}

func (s *Server) each(do func(*link)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.mu.links {
		do(l)
	}
}

// stopComponents stops the components in reverse order. An error of one does not keep
// the others from stopping.
func (s *Server) stopComponents(all []Component) error {
	var errs []error
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Stop == nil {
			continue
		}
		s.control.Debug("Stopping component", "id", logComponentStop, "name", all[i].Name)
		ctx, cancel := context.WithTimeout(context.Background(), componentTime)
		if err := all[i].Stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stopping %s: %w", all[i].Name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}
