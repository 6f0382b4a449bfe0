package expire

import (
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	// moreProcessors is how many Go has beside those of the machine while removal
	// yields: one for removal, and one for the flush or the compaction that it
	// causes.
	moreProcessors = 2
	// keepProcessors is how long it keeps them: compactions go on for a while.
	keepProcessors = 10 * time.Second
)

// yielding is removal that clients shall not feel: its threads have a lower
// priority (lowerThread), and meanwhile Go has more processors than the machine.
//
// Go looks for what clients have sent where one of its processors has nothing to
// do, and else every 10 ms. On a machine with two, a removal and a compaction
// would leave none; with more it is the system that shares them out, and it lets
// a thread that wakes run before one of lower priority. Nothing else has them,
// since all that is short is up to a tenth slower so. (Measured: docs/perf.)
//
// It is one for the process, as what it changes is.
var yielding struct {
	sync.Mutex
	removals int
	usual    int // processors, while there are more; else 0
	restore  *time.Timer
}

// yield has the calling goroutine's thread run with a lower priority, until the
// goroutine ends, and Go have more processors, until some time after done is
// called. The goroutine does nothing else, before or after.
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

// usualProcessors takes away those that no removal needs any more.
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
		runtime.SetDefaultGOMAXPROCS() // which follows what the system allows
	}
	y.usual, y.restore = 0, nil
}
