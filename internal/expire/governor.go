package expire

import (
	"math"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

const (
	// governPeriod is the least time between two samples of the foreground.
	governPeriod = 100 * time.Millisecond
	// governOps is how many operations of the foreground tell something.
	governOps = 20
	// slower is how much slower than without removal they may become, on average
	// and for the slowest of a hundred, and slowerMicros what is too little to
	// count.
	slower       = 1.2
	slowerMicros = 50
	// slowShare is the part of the operations that is as slow as a percentile of 99
	// says, and slowDoubt how many standard deviations more may be chance.
	slowShare = 0.01
	slowDoubt = 2
	// leastShare is the part of the time that removal has however busy the
	// foreground is: else it would never catch up.
	leastShare = 0.1
	// firstShare is what removal begins with where there is a foreground and less
	// than ample of the processors is without work: where they idle, what goes at
	// once is gone before anybody suffers.
	firstShare = 0.25
	ample      = 0.4
	shareUp    = 0.05 // added where the foreground does not suffer
	shareDown  = 0.7  // factor where it does
	shareAlone = 2    // factor where there is none
	// learnIdle and learnBusy are how fast the governor forgets what is normal:
	// quickly while nothing is removed, and slowly while something is, for the
	// load may have changed.
	learnIdle, learnBusy = 0.2, 0.002
	// spare is the part of the processors that is to stay without work while there
	// is a foreground: where they are busy all of the time, clients wait for them
	// where nobody measures it, before a request is read and at the client's end.
	spare = 0.1
	// learnSpare is how fast the governor follows how busy they are.
	learnSpare = 0.3
	// fewRemoved is the part of a period that may go to removal without anything
	// to be seen of it.
	fewRemoved = 0.02
)

// governor makes removal give way to the foreground: it compares how long
// operations of clients take, on average and the slowest of a hundred, with how
// long they take when nothing is removed, looks whether processors have time to
// spare, and changes the share of the time that removal works, in the way of TCP:
// up by steps, down by a factor.
type governor struct {
	foreground func() command.Foreground
	// processors are the ticks that they had, and those without work, since some
	// time; 0 where nobody knows.
	processors func() (idle, all int64)

	mu struct {
		sync.Mutex
		at     time.Time
		last   command.Foreground
		normal normal
		idle   int64 // ticks of processors at at
		ticks  int64
		spare  float64       // the part of them without work of late
		share  float64       // of the time that removal works
		busy   bool          // there was a foreground in the last period
		worked time.Duration // that went to removal since at
	}
}

// normal is what operations take without removal.
type normal struct {
	known bool
	mean  float64 // microseconds
	// tail is how large a part of them is in each bucket.
	tail [command.TailBuckets]float64
}

// learn takes a period in, which counts for so much.
func (n *normal) learn(f *command.Foreground, weight float64) {
	if !n.known {
		n.known, weight = true, 1
	}
	ops := float64(f.Ops)
	n.mean += weight * (float64(f.Micros)/ops - n.mean)
	for i, count := range f.Tail {
		n.tail[i] += weight * (float64(count)/ops - n.tail[i])
	}
}

// slow is what all but slowShare of the operations take less than, in
// microseconds.
func (n *normal) slow() float64 {
	sum := 0.0
	for i := len(n.tail) - 1; i > 0; i-- {
		if sum += n.tail[i]; sum >= slowShare {
			return float64(command.TailBound(i + 1))
		}
	}
	return 0
}

// suffers says whether operations of a period took longer than they may.
func (n *normal) suffers(f *command.Foreground) bool {
	if float64(f.Micros)/float64(f.Ops) > n.mean*slower+slowerMicros {
		return true
	}
	limit, beyond := n.slow()*slower+slowerMicros, 0.0
	for i := len(f.Tail) - 1; i >= 0 && float64(command.TailBound(i)) >= limit; i-- {
		beyond += float64(f.Tail[i])
	}
	usual := slowShare * float64(f.Ops)
	return beyond > usual+slowDoubt*math.Sqrt(usual)
}

func newGovernor(foreground func() command.Foreground, processors func() (idle, all int64)) *governor {
	g := &governor{foreground: foreground, processors: processors}
	g.mu.share, g.mu.spare = 1, 1
	g.mu.idle, g.mu.ticks = processors()
	g.mu.at = time.Now()
	g.mu.last = foreground()
	return g
}

// worked is called after a piece of removal that took a while, and says how
// long to pause.
func (g *governor) worked(took time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sampleLocked()
	g.mu.worked += took
	return time.Duration(float64(took) * (1/g.mu.share - 1))
}

// idle is called now and then, for the governor to learn what is normal.
func (g *governor) idle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sampleLocked()
}

// Busy says whether there is a foreground.
func (g *governor) Busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.busy
}

// Share is the part of the time that removal works now.
func (g *governor) Share() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.share
}

func (g *governor) sampleLocked() {
	now := time.Now()
	if now.Sub(g.mu.at) < governPeriod {
		return
	}
	if idle, ticks := g.processors(); ticks > g.mu.ticks {
		g.mu.spare += learnSpare * (float64(idle-g.mu.idle)/float64(ticks-g.mu.ticks) - g.mu.spare)
		g.mu.idle, g.mu.ticks = idle, ticks
	}
	f := g.foreground()
	passed := f.Since(&g.mu.last)
	g.adjustLocked(&passed, g.mu.worked.Seconds() > fewRemoved*now.Sub(g.mu.at).Seconds())
	g.mu.at, g.mu.last, g.mu.worked = now, f, 0
}

// adjustLocked learns from a period with or without removal.
func (g *governor) adjustLocked(f *command.Foreground, removed bool) {
	n := &g.mu.normal
	g.mu.busy = f.Ops >= governOps
	switch {
	case !g.mu.busy:
		g.mu.share = min(1, g.mu.share*shareAlone)
		if !removed {
			g.mu.share = 1 // there is no foreground
		}
		return
	case !removed:
		n.learn(f, learnIdle)
		if g.mu.spare < ample {
			g.mu.share = min(g.mu.share, firstShare)
		} else {
			g.mu.share = min(1, g.mu.share+shareUp)
		}
		return
	}
	if !n.known {
		n.learn(f, 1)
	}
	if g.mu.spare < spare || n.suffers(f) {
		g.mu.share = max(leastShare, g.mu.share*shareDown)
	} else {
		g.mu.share = min(1, g.mu.share+shareUp)
	}
	n.learn(f, learnBusy)
}
