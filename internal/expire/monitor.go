package expire

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/archive"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// Ids of the monitor's log lines, as mongod's.
const (
	logStarting         = 22528
	logDisabled         = 22529
	logLocked           = 22530
	logVisit            = 22533
	logInterrupted      = 22537
	logSpecial          = 22541
	logDeletedClustered = 5400702
	logError            = 5400703
	logDeleted          = 5479200
	logSleepChanged     = 7005501
	logRemoved          = 9000501
	logClockJumped      = 9000502
	logClockTrusted     = 9000503
	logNotWritable      = 9000504
	logRelays           = 9000505
	logRelaid           = 9000506
	logRelayFailed      = 9000507
	logArchiveAway      = 9000512
	logArchiveBack      = 9000513
	logOrphans          = 9000510
	logArchiveExpired   = 9000511
	logForgotten        = 9000514
)

// levelDebug3 is D3; see package server.
const levelDebug3 = slog.LevelDebug - 2

// Options are what a Monitor works with.
type Options struct {
	Catalog    *catalog.Catalog
	Exec       *exec.Executor
	Dispatcher *command.Dispatcher
	Log        *slog.Logger
	// Guest says that the process is another program's, whose threads and processors are not
	// for removal to change.
	Guest bool
	// Archives are where rules may archive; nil for nowhere. Owner returns the id of this server, or of
	// its replica set; nil for none.
	Archives *archive.Places
	Owner    func() (string, error)
	// Shares asks for this shard's shares of the budgets of sharded collections; nil where each
	// is this server's alone.
	Shares func(ctx context.Context, claims []Claim) (Shares, error)
}

// Monitor is the TTL monitor: one background goroutine that removes what is
// due, with helpers where several collections have something due.
type Monitor struct {
	o      Options
	params *Params
	Stats  Stats
	wake   chan struct{} // capacity 1: the sleep has changed
	rule   chan struct{} // capacity 1: a rule has changed
	// asked has those who wait for a pass that begins after they asked: see Pass.
	asked chan chan error
	stop  context.CancelFunc
	done  sync.WaitGroup
	mu    struct {
		sync.Mutex
		stopped chan struct{} // closed by Stop; Start makes another one
		failed  error         // of the first visit that failed since the pass began
	}

	held atomic.Pointer[string] // why it does not start; nil for no reason
	// units is read-held over each unit that removes something, and limits counts the
	// changes of parameters: see removal.permit.
	units  sync.RWMutex
	limits atomic.Int64

	states    *ruleStates
	archives  archives
	archivers *archivers
	relays    *relays
	governor  *governor
	jumped    bool // the clock had jumped at the last due check
}

// New makes a Monitor and registers its parameters.
func New(o Options) *Monitor {
	m := &Monitor{o: o, wake: make(chan struct{}, 1), rule: make(chan struct{}, 1), asked: make(chan chan error), states: newRuleStates(), archivers: newArchivers(), relays: newRelays()}
	m.mu.stopped = make(chan struct{})
	m.archives.docs = archiveDocs
	m.archives.forgetting = make(chan struct{}, 1)
	m.governor = newGovernor(o.Dispatcher.Metrics.Foreground, processorTicks)
	m.params = NewParams(o.Dispatcher.Params, m.Wake, m.brake)
	m.params.Windows = o.Dispatcher.Params.Bool(command.BoolSpec{Name: "expiryWindows", Default: true,
		OnChange: func() {
			o.Catalog.NoWindows.Store(!m.params.Windows.Load())
			m.brake()
		}})
	m.params.ListExpired = o.Dispatcher.Params.Bool(command.BoolSpec{Name: "oplogListsExpired", Default: true,
		OnChange: func() { o.Catalog.NoExpiredList.Store(!m.params.ListExpired.Load()) }})
	return m
}

// brake ends the running visits, and waits for their units: from here on
// everything is removed by the parameters as they are now.
func (m *Monitor) brake() {
	m.limits.Add(1)
	m.units.Lock()
	defer m.units.Unlock()
}

// Wake makes the monitor compute the time of its next pass again.
func (m *Monitor) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// ruleChanged causes an immediate due check of the rules whose time to live has
// changed.
func (m *Monitor) ruleChanged() {
	select {
	case m.rule <- struct{}{}:
	default:
	}
}

// Pass has the monitor make a pass now, and waits for its end. If the monitor is not started
// it waits for that; if it is held or disabled, or the member takes no writes, it does nothing.
// Errors: those of visits; that the monitor was stopped.
func (m *Monitor) Pass(ctx context.Context) error {
	if m.held.Load() != nil {
		return nil
	}
	m.mu.Lock()
	stopped := m.mu.stopped
	m.mu.Unlock()
	ended := make(chan error, 1)
	select {
	case m.asked <- ended:
	case <-stopped:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-ended:
		return err
	case <-stopped:
		return errStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errStopped = mongoerr.New(mongoerr.ShutdownInProgress, "the TTL monitor has stopped")

// fail notes that a visit has failed, for who has asked for the pass.
func (m *Monitor) fail(err error) {
	m.mu.Lock()
	if m.mu.failed == nil {
		m.mu.failed = err
	}
	m.mu.Unlock()
}

// failed returns why the first visit failed that has since it was asked last.
func (m *Monitor) failed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.mu.failed
	m.mu.failed = nil
	return err
}

// Hold sets the reason, for reports, why the monitor is not started.
func (m *Monitor) Hold(why string) { m.held.Store(&why) }

// Start begins the passes. Stop must follow.
func (m *Monitor) Start() {
	select {
	case <-m.wake: // a parameter set before the start is not a change
	default:
	}
	m.o.Catalog.OnTTL(m.ruleChanged)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.mu.Lock()
	select {
	case <-m.mu.stopped:
		m.mu.stopped = make(chan struct{})
	default:
	}
	m.mu.Unlock()
	m.done.Go(func() { m.run(ctx) })
	m.done.Go(func() { m.sweeps(ctx) })
	m.done.Go(func() { m.sealIdle(ctx) })
	m.done.Go(func() { m.relayAll(ctx) })
	m.done.Go(func() { m.collectOrphans(ctx) })
	if m.o.Shares != nil {
		m.done.Go(func() { m.shareBudgets(ctx) })
	}
}

// Stop ends the passes and waits for the running one to end.
func (m *Monitor) Stop() {
	m.mu.Lock()
	select {
	case <-m.mu.stopped:
	default:
		close(m.mu.stopped)
	}
	m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.done.Wait()
	}
	usualProcessors()
}

func (m *Monitor) run(ctx context.Context) {
	for {
		asked, ok := m.sleep(ctx)
		if !ok {
			return
		}
		_ = m.failed() // of due checks: what is due still is visited again
		var err error
		var archiving *archiveRound
		switch {
		case !m.params.Enabled.Load():
			m.say(ctx, slog.LevelDebug, logDisabled, "disabled")
		case m.o.Dispatcher.Gate.Locks() > 0:
			m.say(ctx, levelDebug3, logLocked, "locked for writing")
		case m.o.Dispatcher.TakesWrites() != nil:
			m.say(ctx, levelDebug3, logNotWritable, "this member takes no writes")
		default:
			archiving = m.handOver(ctx)
			if err = m.tracedPass(ctx); err != nil && ctx.Err() == nil {
				m.interrupted(ctx, err)
			}
			err = errors.Join(err, m.failed())
		}
		if asked != nil {
			m.done.Go(func() {
				archiving.wait(ctx)
				asked <- err
			})
		}
	}
}

// tracedPass is a pass in a span.
func (m *Monitor) tracedPass(ctx context.Context) error {
	ctx, span := m.o.Dispatcher.Tracer.Work(ctx, "expiry pass")
	defer span.End()
	before := m.Stats.Deleted.Load()
	err := m.pass(ctx)
	span.Count("mayfly.documents_removed", m.Stats.Deleted.Load()-before)
	span.Fail(err)
	return err
}

// sleep waits for the next pass, counted from now, with due checks in between; a
// change of the parameter takes effect at once. asked is who has asked for the pass, or nil.
// It returns false when the monitor is stopped.
func (m *Monitor) sleep(ctx context.Context) (asked chan error, ok bool) {
	begun := time.Now()
	interval, checked := dueCheckInterval, begun
	for {
		next := begun.Add(m.params.sleep())
		t := time.NewTimer(min(time.Until(next), time.Until(checked.Add(interval))))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, false
		case asked = <-m.asked:
			t.Stop()
			return asked, true
		case <-m.wake:
			t.Stop()
			m.say(ctx, slog.LevelInfo, logSleepChanged, "ttlMonitorSleepSecs has changed", slog.Int64("newSleepSeconds", m.params.SleepSecs.Load()))
			continue
		case <-m.rule:
			t.Stop()
			if _, err := m.checkDue(ctx, m.changed(), next); err != nil && ctx.Err() == nil {
				m.interrupted(ctx, err)
			}
			continue
		case <-t.C:
		}
		m.governor.idle() // also while nothing may be removed: it learns what is normal then
		if checked = time.Now(); !checked.Before(next) {
			return nil, true
		}
		m.watchClock(ctx)
		var err error
		if interval, err = m.checkDue(ctx, m.rules(), next); err != nil && ctx.Err() == nil {
			m.interrupted(ctx, err)
		}
		checked = time.Now()
	}
}

func (m *Monitor) interrupted(ctx context.Context, err error) {
	m.o.Log.LogAttrs(ctx, slog.LevelWarn, "TTLMonitor was interrupted, waiting before doing another pass",
		slog.String("c", "INDEX"), slog.Int("id", logInterrupted), slog.String("error", err.Error()))
}

// watchClock logs that the computer's clock has jumped, and that it is trusted
// again.
func (m *Monitor) watchClock(ctx context.Context) {
	off := m.o.Catalog.Clock.Off()
	if off != 0 == m.jumped {
		return
	}
	m.jumped = off != 0
	if m.jumped {
		m.say(ctx, slog.LevelWarn, logClockJumped, "the clock has jumped; documents expire by elapsed time until the clock is trusted again",
			slog.String("jump", off.String()))
		return
	}
	m.say(ctx, slog.LevelInfo, logClockTrusted, "the clock is trusted again")
}

// say logs a line about the monitor itself.
func (m *Monitor) say(ctx context.Context, l slog.Level, id int, text string, attrs ...slog.Attr) {
	m.o.Log.LogAttrs(ctx, l, "TTLMonitor: "+text, append([]slog.Attr{slog.String("c", "INDEX"), slog.Int("id", id)}, attrs...)...)
}

// isInterrupt reports whether err ends the whole pass and not only one visit: the
// operation was killed, or the server stops.
func isInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.Canceled) || mongoerr.Is(err, mongoerr.Interrupted)
}
