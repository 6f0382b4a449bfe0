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
	// governOps is the least number of operations of the foreground from which a
	// sample is taken.
	governOps = 20
	// slower is how much slower than without removal they may become, on average
	// and at the 99th percentile, and slowerMicros the difference that is too small
	// to count.
	slower       = 1.2
	slowerMicros = 50
	// slowShare is the share of operations beyond the 99th percentile, and
	// slowDoubt how many standard deviations more may be chance.
	slowShare = 0.01
	slowDoubt = 2
	// leastShare is the share of time that removal gets however busy the foreground
	// is: otherwise it would never catch up.
	leastShare = 0.1
	// firstShare is the share with which removal begins where there is a foreground
	// and less than ample of the processors is idle: on idle processors removal is
	// done before it can slow down clients.
	firstShare = 0.25
	ample      = 0.4
	shareUp    = 0.05 // added while the foreground is not slowed down
	shareDown  = 0.7  // factor while it is
	shareAlone = 2    // factor while there is none
	// learnIdle and learnBusy are how fast the governor adapts its notion of
	// normal: quickly while nothing is removed, and slowly while something is, as
	// the load may have changed.
	learnIdle, learnBusy = 0.2, 0.002
	// spare is the share of the processors that should stay idle while there is a
	// foreground: where they are busy all the time, clients wait for them where it
	// is not measured, before a request is read and on the client's side.
	spare = 0.1
	// learnSpare is how fast the governor adapts to how busy they are.
	learnSpare = 0.3
	// rangeRest is how much longer than a unit that removes a range, or a part of listing its
	// documents, the pause after it is while there is a foreground, and maxRangeRest the longest
	// such pause: units of 8,192 documents, each told in the oplog, are some 250,000 a second
	// with it. The share may make it longer.
	rangeRest    = 4
	maxRangeRest = 20 * time.Millisecond
	// fewRemoved is the share of a period up to which removal has no effect that
	// can be measured.
	fewRemoved = 0.02
)

// governor makes removal yield to the foreground. It compares the latency of
// clients' operations, on average and at the 99th percentile, with their latency
// when nothing is removed, checks whether processors are idle, and changes the
// share of time in which removal runs as TCP does: additive increase,
// multiplicative decrease.
type governor struct {
	foreground func() command.Foreground
	// processors returns the processors' ticks, and the idle ones among them, since
	// some time; 0 if they are not known.
	processors func() (idle, all int64)

	mu struct {
		sync.Mutex
		at     time.Time
		last   command.Foreground
		normal normal
		idle   int64 // ticks of processors at at
		ticks  int64
		spare  float64       // the share of them that was idle recently
		share  float64       // of the time in which removal runs
		busy   bool          // there was a foreground in the last period
		worked time.Duration // spent on removal since at
	}
}

// normal is the latency of operations without removal.
type normal struct {
	known bool
	mean  float64 // microseconds
	// tail is the share of them in each bucket.
	tail [command.TailBuckets]float64
}

// learn adds a period, with a weight.
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

// slow returns the latency that all but slowShare of the operations stay below,
// in microseconds.
func (n *normal) slow() float64 {
	sum := 0.0
	for i := len(n.tail) - 1; i > 0; i-- {
		if sum += n.tail[i]; sum >= slowShare {
			return float64(command.TailBound(i + 1))
		}
	}
	return 0
}

// suffers reports whether the operations of a period took longer than they may.
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

// worked is called after a piece of removal with the time it took, and returns
// how long to pause.
func (g *governor) worked(took time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sampleLocked()
	g.mu.worked += took
	return time.Duration(float64(took) * (1/g.mu.share - 1))
}

// ranged is worked for a unit that removes a range, or a part of listing its documents. While
// there is a foreground, clients have the machine for a while after each, whatever the share
// is: units follow one another, and many are over before the share has fallen.
func (g *governor) ranged(took time.Duration) time.Duration {
	rest := g.worked(took)
	if g.Busy() {
		rest = max(rest, min(rangeRest*took, maxRangeRest))
	}
	return rest
}

// idle is called now and then, so that the governor learns what is normal.
func (g *governor) idle() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sampleLocked()
}

// Busy reports whether there is a foreground.
func (g *governor) Busy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.busy
}

// Share returns the share of time in which removal runs now.
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
