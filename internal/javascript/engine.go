package javascript

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/memory"
)

const (
	// maxPrograms is how many compiled texts one generation of the cache keeps.
	maxPrograms = 256
	// maxRunning is how many calls run at once; others wait.
	maxRunning = 64
)

// Options are what an Engine depends on.
type Options struct {
	// Log takes what functions print; nil drops it.
	Log *slog.Logger
	// Memory is how many bytes the process may use.
	Memory int64
	// Budget is what calls take memory from that run for long; nil for none.
	Budget *memory.Budget
}

// Engine compiles functions and bounds how many run at once. Safe for use by
// many goroutines.
type Engine struct {
	options Options
	running chan struct{}
	held    atomic.Int64 // of the budget, by all calls
	long    atomic.Int64 // calls that hold some
	prelude *goja.Program

	mu struct {
		sync.Mutex
		// The cache evicts by generations: programs that were not used while young
		// filled up are dropped with old.
		young, old map[string]*Function
	}
}

// NewEngine makes an Engine.
func NewEngine(o Options) *Engine {
	e := &Engine{options: o, running: make(chan struct{}, maxRunning), prelude: goja.MustCompile(preludeName, preludeText, true)}
	e.mu.young = map[string]*Function{}
	return e
}

// Function is a compiled text. It is immutable.
type Function struct{ program *goja.Program }

// Compile makes a function of a text that a client sent: that of a function, an
// expression whose value is returned, or statements. The error is a
// *mongoerr.Error with code 139.
func (e *Engine) Compile(text string) (*Function, error) {
	f := e.cached(text)
	if f == nil {
		program, err := compile(text)
		if err != nil {
			return nil, err
		}
		f = &Function{program}
	}
	e.keep(text, f)
	return f, nil
}

func (e *Engine) cached(text string) *Function {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.mu.young[text]; f != nil {
		return f
	}
	return e.mu.old[text]
}

func (e *Engine) keep(text string, f *Function) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.young[text] == nil {
		text = strings.Clone(text) // it shares the bytes of a command
		if len(e.mu.young) >= maxPrograms {
			e.mu.young, e.mu.old = map[string]*Function{}, e.mu.young
		}
		e.mu.young[text] = f
	}
}

// enter waits for one of maxRunning places.
func (e *Engine) enter(ctx context.Context) error {
	select {
	case e.running <- struct{}{}:
		return nil
	default:
	}
	select {
	case e.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *Engine) leave() { <-e.running }

// print writes a line to the log.
func (e *Engine) print(line string) {
	if e.options.Log != nil {
		e.options.Log.Info("JavaScript print", "text", line)
	}
}
