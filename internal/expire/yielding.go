package expire

import (
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// moreProcessors is how many processors Go has in addition to the machine's
	// while removal yields: one for removal, and one for the flush or the
	// compaction that it causes.
	moreProcessors = 2
	// keepProcessors is how long it keeps them afterwards: compactions continue for
	// a while.
	keepProcessors = 10 * time.Second
)

// yielding makes removal yield to clients: its threads have a lower priority
// (lowerThread), and Go has more processors than the machine in the meantime.
//
// Go polls for what clients have sent when one of its processors is idle, and
// otherwise every 10 ms. On a machine with two, a removal and a compaction would
// leave none idle; with more than the machine has, the system schedules them,
// and runs a thread that wakes before one of lower priority. Other work does not
// use them, as short operations become up to a tenth slower. (Measured:
// docs/perf.)
//
// There is one for the process, as what it changes belongs to the process.
var yielding struct {
	sync.Mutex
	removals int
	usual    int // the usual number of processors, while there are more; else 0
	restore  *time.Timer
}

// yield gives the calling goroutine's thread a lower priority, until the
// goroutine ends, and Go more processors, until some time after done is called.
// The goroutine must do nothing else, before or after.
func yield() (done func()) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	lowerThread()
	y := &yielding
	y.Lock()
	defer y.Unlock()
	if y.restore != nil {
		y.restore.Stop()
		y.restore = nil
	}
	if y.removals++; y.usual == 0 {
		y.usual = runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(y.usual + moreProcessors)
	}
	return func() {
		y.Lock()
		defer y.Unlock()
		if y.removals--; y.removals == 0 {
			y.restore = time.AfterFunc(keepProcessors, usualProcessors)
		}
	}
}

// usualProcessors removes the additional ones when no removal needs them.
func usualProcessors() {
	y := &yielding
	y.Lock()
	defer y.Unlock()
	if y.removals > 0 || y.usual == 0 {
		return
	}
	if _, set := os.LookupEnv("GOMAXPROCS"); set {
		runtime.GOMAXPROCS(y.usual)
	} else {
		runtime.SetDefaultGOMAXPROCS() // which adapts to the limits of the system
	}
	y.usual, y.restore = 0, nil
}
