package catalog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clockStep is how far the clock may deviate from elapsed time before that
	// counts as a jump: more than it is slewed between two readings.
	clockStep = 100 * time.Millisecond
	// clockHold is how long a jump must last before it is trusted.
	clockHold = 10 * time.Minute
	// clockFresh is how long one reading serves as the base of comparison.
	clockFresh = time.Second
)

// Clock is the clock by which documents expire. The computer's clock may jump:
// it is set wrong and right again, or the machine was asleep. Whether a jump
// was right is not known at once, and a removal cannot be undone; so the clock
// has two times, both of which err on the late side.
//
//   - ExpiryTime is the time by which documents are due. When the clock jumps
//     forward it continues by elapsed time, until the clock has kept the new
//     time for clockHold; when the clock jumps back it follows at once.
//   - Stamped is the time that writes are stamped with: the later of the
//     two.
//
// A test sets it forward with Advance, which is no jump: both times follow at once.
//
// Safe for use by many goroutines.
type Clock struct {
	wall func() time.Time // nil: the computer's

	// fresh is a recent moment at which the clock was right; nil while it is off.
	fresh atomic.Pointer[moment]

	ahead atomic.Int64 // nanoseconds by which it was set forward; changed under mu
	mu    struct {
		sync.Mutex
		at      time.Time     // when base was right, with its monotonic reading
		base    time.Time     // the wall clock's time then
		jumped  bool          // the clock is off by more than clockStep
		off     time.Duration // how far it is off, with its sign
		offFrom time.Time     // since when
	}
}

// moment is a reading of both clocks at the same time: at has the monotonic
// one, base is the wall clock's.
type moment struct{ at, base time.Time }

// NewClock makes a clock over a wall clock, the computer's if it is nil.
func NewClock(wall func() time.Time) *Clock {
	c := &Clock{wall: wall}
	c.mu.at, c.mu.base = c.read()
	return c
}

// read reads the monotonic clock and the wall clock.
func (c *Clock) read() (now, wall time.Time) {
	now = time.Now()
	wall = now
	if c.wall != nil {
		wall = c.wall()
	}
	return now, wall.Round(0).Add(time.Duration(c.ahead.Load()))
}

// Now returns the wall clock's time.
func (c *Clock) Now() time.Time {
	_, wall := c.read()
	return wall
}

// At returns this clock's time when the computer's was t.
func (c *Clock) At(t time.Time) time.Time { return t.Add(time.Duration(c.ahead.Load())) }

// clockEnd is the time up to which a clock can be set forward. Cluster times have seconds of 32 bits,
// which end in 2106: until then it may run.
var clockEnd = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// Advance sets the clock forward by d, and returns its time. It fails if d is negative, or that
// would be behind clockEnd.
func (c *Clock) Advance(d time.Duration) (time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.Now(); d < 0 || now.Add(d).After(clockEnd) {
		return time.Time{}, fmt.Errorf("a clock cannot be set forward by %v: it is at %s, and goes up to %s", d, now.UTC().Format(time.RFC3339), clockEnd.Format(time.RFC3339))
	}
	c.fresh.Store(nil)
	c.mu.base = c.mu.base.Add(d)
	c.ahead.Add(int64(d))
	return c.Now(), nil
}

// times reads both clocks: the wall clock and the monotonic one.
func (c *Clock) times() (wall, steady time.Time) {
	now, wall := c.read()
	if f := c.fresh.Load(); f != nil {
		if gone := now.Sub(f.at); gone < clockFresh && (wall.Sub(f.base)-gone).Abs() <= clockStep {
			return wall, wall
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now, wall = c.read() // Advance may have come in between
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

// ExpiryTime returns the time by which documents are due, in milliseconds since
// 1970.
func (c *Clock) ExpiryTime() int64 {
	wall, steady := c.times()
	return min(wall.UnixMilli(), steady.UnixMilli())
}

// Stamped returns the time for a write that happens now, in seconds since 1970.
func (c *Clock) Stamped() int64 {
	wall, steady := c.times()
	return max(wall.Unix(), steady.Unix())
}

// Off returns by how much the computer's clock has jumped while the jump is not
// trusted; negative for a jump back.
func (c *Clock) Off() time.Duration {
	c.times()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.off
}
