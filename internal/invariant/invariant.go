package invariant

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var (
	broken   atomic.Int64
	reporter atomic.Pointer[func(Report)]
	reported sync.Map // Report.Place → nothing: one entry for each broken check of the source
)

// Report is a broken assertion.
type Report struct {
	Message string // the check's own
	Place   string // the function, file and line of the check
	Stack   string // as debug.Stack prints it
}

// Check reports message when cond does not hold, and returns cond, so that a
// caller can turn a broken assertion into an answer:
//
//	if !invariant.Check(len(key) > 0, "storage: a record key is not empty") { return nil }
//
// The message says what must hold.
func Check(cond bool, message string) bool {
	if !cond {
		fail(message)
	}
	return cond
}

// Require is Check for a function that can fail: nil if cond holds, else
// error 1, InternalError.
func Require(cond bool, message string) error {
	if cond {
		return nil
	}
	return violated(message)
}

func violated(message string) error {
	fail(message)
	return mongoerr.New(mongoerr.InternalError, "invariant broken: %s", message)
}

// Failf reports an assertion that is already known to be broken: a switch that
// reached its impossible case, for one.
func Failf(format string, args ...any) { fail(fmt.Sprintf(format, args...)) }

// Broken is the number of assertions found broken since the process started,
// for serverStatus and /metrics.
func Broken() int64 { return broken.Load() }

// SetReporter names who hears of broken assertions, of each place in the source
// once; nil names nobody.
func SetReporter(report func(Report)) {
	if report == nil {
		reporter.Store(nil)
		return
	}
	reporter.Store(&report)
}

func count(message string) {
	broken.Add(1)
	report := reporter.Load()
	if report == nil {
		return
	}
	at := place()
	if _, again := reported.LoadOrStore(at, nil); again {
		return
	}
	(*report)(Report{Message: message, Place: at, Stack: string(debug.Stack())})
}

// place is the nearest caller outside of this package.
func place() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "internal/invariant.") || strings.HasSuffix(f.File, "_test.go") || !more {
			return fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
}
