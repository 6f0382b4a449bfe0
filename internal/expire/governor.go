package expire

import (
	"sync"
	"time"
)

const (
	// governPeriod is the least time between two looks at the foreground.
	governPeriod = 100 * time.Millisecond
	// governOps is how many operations of the foreground tell something.
	governOps = 20
	// slower is how much slower than without removal they may become, on average,
	// and slowerMicros what is too little to count.
	slower       = 1.2
	slowerMicros = 50
	// leastShare is the part of the time that removal has however busy the
	// foreground is: else it would never catch up.
	leastShare = 0.1
	shareUp    = 0.05 // added where the foreground does not suffer
	shareDown  = 0.7  // factor where it does
	// learnIdle and learnBusy are how fast the governor forgets what is normal:
	// quickly while nothing is removed, and slowly while something is, for the
	// load may have changed.
	learnIdle, learnBusy = 0.2, 0.01
)

// governor makes removal give way to the foreground: it compares how long
// operations of clients take on average with how long they take when nothing is
// removed, and changes the share of the time that removal works, in the way of
// TCP: up by steps, down by a factor.
type governor struct {
	// foreground counts the operations of clients and the microseconds they took.
	foreground func() (micros, ops int64)

	mu struct {
		sync.Mutex
		at          time.Time
		micros, ops int64
		normal      float64 // microseconds an operation; 0 while not known
		share       float64 // of the time that removal works
		removed     bool    // something was removed since at
	}
}

func newGovernor(foreground func() (micros, ops int64)) *governor {
	g := &governor{foreground: foreground}
	g.mu.share = 1
	g.mu.at = time.Now()
	g.mu.micros, g.mu.ops = foreground()
	return g
}

// worked is called after a piece of removal that took a while, and says how
// long to pause.
func (g *governor) worked(took time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.removed = true
	g.lookLocked()
	return time.Duration(float64(took) * (1/g.mu.share - 1))
}

// idle is called now and then, for the governor to learn what is normal.
func (g *governor) idle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lookLocked()
}

// Share is the part of the time that removal works now.
func (g *governor) Share() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.share
}

func (g *governor) lookLocked() {
	now := time.Now()
	if now.Sub(g.mu.at) < governPeriod {
		return
	}
	micros, ops := g.foreground()
	g.judgeLocked(micros-g.mu.micros, ops-g.mu.ops, g.mu.removed)
	g.mu.at, g.mu.micros, g.mu.ops, g.mu.removed = now, micros, ops, false
}

// judgeLocked learns from a period in which ops operations took so long.
func (g *governor) judgeLocked(micros, ops int64, removed bool) {
	if ops < governOps {
		g.mu.share = min(1, g.mu.share+shareUp)
		return
	}
	mean := float64(micros) / float64(ops)
	switch {
	case g.mu.normal == 0:
		g.mu.normal = mean
	case !removed:
		g.mu.normal += learnIdle * (mean - g.mu.normal)
		return
	}
	if mean > g.mu.normal*slower+slowerMicros {
		g.mu.share = max(leastShare, g.mu.share*shareDown)
	} else {
		g.mu.share = min(1, g.mu.share+shareUp)
	}
	g.mu.normal += learnBusy * (mean - g.mu.normal)
}
