package catalog

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clockStep is how far the clock may be off the time that has gone by before
	// that counts as a jump: more than it is slewed by between two looks.
	clockStep = 100 * time.Millisecond
	// clockHold is how long a jump must last before it is believed.
	clockHold = 10 * time.Minute
	// clockFresh is how long the clock is compared with what it was at one moment.
	clockFresh = time.Second
)

// Clock tells the time by which documents expire. The computer's clock may
// jump: it is set wrong and right again, or the machine was asleep. Whether a
// jump was right cannot be known at once, and what was removed is gone; so the
// clock says two times, and errs on the late side with both.
//
//   - Judged is the time by which documents are judged. It goes on with the time
//     that has gone by (which does not jump) when the clock jumps forward, until
//     it has stayed there for clockHold; it follows back at once.
//   - Stamped is the time that writes are marked with: the later of the two.
//
// Safe for use by many goroutines.
type Clock struct {
	wall func() time.Time // nil: the computer's

	// fresh is a moment of late at which the clock was right; nil while it is off.
	fresh atomic.Pointer[moment]

	mu struct {
		sync.Mutex
		at      time.Time     // when base was right, with its monotonic reading
		base    time.Time     // the wall's time then
		jumped  bool          // the clock is off by more than clockStep
		off     time.Duration // how far it is off, in its direction
		offFrom time.Time     // since when
	}
}

// moment is what both clocks said at once: at has its monotonic reading, base
// is the wall's.
type moment struct{ at, base time.Time }

// NewClock is a clock over a wall clock, the computer's where it is nil.
func NewClock(wall func() time.Time) *Clock {
	c := &Clock{wall: wall}
	c.mu.at, c.mu.base = c.read()
	return c
}

// read reads the monotonic clock and the wall's.
func (c *Clock) read() (now, wall time.Time) {
	now = time.Now()
	if c.wall == nil {
		return now, now.Round(0)
	}
	return now, c.wall().Round(0)
}

// look reads both clocks: the wall's, and the one that goes by the time gone by.
func (c *Clock) look() (wall, steady time.Time) {
	now, wall := c.read()
	if f := c.fresh.Load(); f != nil {
		if gone := now.Sub(f.at); gone < clockFresh && (wall.Sub(f.base)-gone).Abs() <= clockStep {
			return wall, wall
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	steady = c.mu.base.Add(now.Sub(c.mu.at))
	off := wall.Sub(steady)
	if off.Abs() <= clockStep {
		c.mu.base, c.mu.at, c.mu.jumped, c.mu.off = wall, now, false, 0
		c.fresh.Store(&moment{at: now, base: wall})
		return wall, wall
	}
	c.fresh.Store(nil)
	if !c.mu.jumped || (off-c.mu.off).Abs() > clockStep {
		c.mu.jumped, c.mu.off, c.mu.offFrom = true, off, now
	}
	if now.Sub(c.mu.offFrom) >= clockHold {
		c.mu.base, c.mu.at, c.mu.jumped, c.mu.off = wall, now, false, 0
		return wall, wall
	}
	return wall, steady
}

// Judged is the time by which documents expire, in milliseconds since 1970.
func (c *Clock) Judged() int64 {
	wall, steady := c.look()
	return min(wall.UnixMilli(), steady.UnixMilli())
}

// Stamped is the time of a write that happens now, in seconds since 1970.
func (c *Clock) Stamped() int64 {
	wall, steady := c.look()
	return max(wall.Unix(), steady.Unix())
}

// Off is how far the computer's clock has jumped and is not believed yet;
// negative for back.
func (c *Clock) Off() time.Duration {
	c.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.off
}
