package expire

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// Ids of the lines that the monitor logs, as mongod's.
const (
	logDisabled    = 22529
	logStarting    = 22528
	logSpecial     = 22541
	logError       = 5400703
	logDeleted     = 5479200
	logInterrupted = 22537
)

// Options is what a Monitor works with.
type Options struct {
	Catalog    *catalog.Catalog
	Exec       *exec.Executor
	Dispatcher *command.Dispatcher
	Log        *slog.Logger
	// Hold says that writes are locked out (fsyncLock): passes are left out.
	Hold func() bool
	// SlowMS is the duration from which a visit is logged, in milliseconds.
	SlowMS func() int64
}

// Monitor is the TTL monitor: one background goroutine that removes what is
// due.
type Monitor struct {
	o      Options
	params *Params
	Stats  Stats
	wake   chan struct{} // capacity 1: the sleep has changed
	stop   context.CancelFunc
	done   sync.WaitGroup

	unexhausted map[rule]int64 // sub-passes in a row that hit a limit
}

// New makes a Monitor and registers its parameters.
func New(o Options) *Monitor {
	m := &Monitor{o: o, wake: make(chan struct{}, 1), unexhausted: map[rule]int64{}}
	m.params = NewParams(o.Dispatcher.Params, m.Wake)
	return m
}

// Wake makes the monitor look again at when its next pass is due.
func (m *Monitor) Wake() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Start begins the passes. Stop must follow.
func (m *Monitor) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.done.Go(func() { m.run(ctx) })
}

// Stop ends the passes and waits for the one under way to let go.
func (m *Monitor) Stop() {
	if m.stop != nil {
		m.stop()
		m.done.Wait()
	}
}

func (m *Monitor) run(ctx context.Context) {
	for m.sleep(ctx) {
		switch {
		case !m.params.Enabled.Load():
			m.o.Log.LogAttrs(ctx, slog.LevelDebug, "TTLMonitor is disabled", slog.String("c", "INDEX"), slog.Int("id", logDisabled))
		case m.o.Hold != nil && m.o.Hold():
		default:
			if err := m.pass(ctx); err != nil && ctx.Err() == nil {
				m.o.Log.LogAttrs(ctx, slog.LevelWarn, "TTLMonitor was interrupted, waiting before doing another pass",
					slog.String("c", "INDEX"), slog.Int("id", logInterrupted), slog.String("error", err.Error()))
			}
		}
	}
}

// sleep waits for the next pass, counted from now; a change of the parameter
// counts at once. It returns false when the monitor is stopped.
func (m *Monitor) sleep(ctx context.Context) bool {
	begun := time.Now()
	for {
		t := time.NewTimer(time.Until(begun.Add(m.params.sleep())))
		select {
		case <-ctx.Done():
			t.Stop()
			return false
		case <-m.wake:
			t.Stop()
		case <-t.C:
			return true
		}
	}
}

// isInterrupt says whether err ends the whole pass and not only one visit: the
// operation was killed, or the server stops.
func isInterrupt(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, context.Canceled)
}
