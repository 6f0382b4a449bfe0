package invariant

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

var (
	broken   atomic.Int64
	reporter atomic.Pointer[func(message, stack string)]
)

// Check reports message when cond does not hold, and returns cond, so that a
// caller can turn a broken assertion into an error:
//
//	if !invariant.Check(len(key) > 0, "empty record key") { return errCorrupt }
func Check(cond bool, message string) bool {
	if !cond {
		fail(message)
	}
	return cond
}

// Failf reports an assertion that is already known to be broken: a switch that
// reached its impossible case, for one.
func Failf(format string, args ...any) { fail(fmt.Sprintf(format, args...)) }

// Broken is the number of assertions found broken since the process started,
// for /metrics.
func Broken() int64 { return broken.Load() }

// SetReporter names who hears of broken assertions; nil names nobody. The
// stack is the one that debug.Stack prints.
func SetReporter(report func(message, stack string)) { reporter.Store(&report) }

func count(message string) {
	broken.Add(1)
	if r := reporter.Load(); r != nil && *r != nil {
		(*r)(message, string(debug.Stack()))
	}
}
