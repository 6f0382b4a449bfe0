package expire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// clients are operations of a foreground.
type clients struct{ f command.Foreground }

// take adds operations that took so many microseconds each.
func (c *clients) take(ops, micros int64) {
	c.f.Ops += ops
	c.f.Micros += ops * micros
	at := 0
	for at+1 < command.TailBuckets && command.TailBound(at+1) <= micros {
		at++
	}
	c.f.Tail[at] += ops
}

// TestGovernor holds that removal gives way while operations take longer than
// they do without it, on average or the slowest of a hundred, never below its
// least share, and comes back; and while processors have no time to spare.
func TestGovernor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clients
		var idle, ticks int64
		busy := int64(80)
		g := newGovernor(func() command.Foreground { return c.f }, func() (int64, int64) {
			idle, ticks = idle+100-busy, ticks+100
			return idle, ticks
		})
		period := func(mean, slowest int64, removing bool) {
			c.take(992, mean)
			c.take(8, slowest)
			time.Sleep(governPeriod)
			if removing {
				g.worked(10 * time.Millisecond)
			} else {
				g.idle()
			}
		}
		share := func(want float64, when string) {
			t.Helper()
			if s := g.Share(); s < want-1e-9 || s > want+1e-9 {
				t.Fatalf("share %v %s", s, when)
			}
		}
		if g.idle(); g.Share() != 1 {
			t.Fatalf("share %v without a foreground", g.Share())
		}
		for range 20 {
			period(200, 1000, false)
		}
		share(firstShare, "while idle")
		busy = 50
		for range 20 {
			period(200, 1000, false)
		}
		share(1, "while idle, with processors to spare")
		period(200, 1000, true) // what went before it
		for range 15 {
			period(200, 1000, true)
		}
		share(1, "while nobody suffers")
		period(400, 1000, true)
		share(shareDown, "after one bad period")
		if p := g.worked(7 * time.Millisecond); p < 2*time.Millisecond || p > 4*time.Millisecond {
			t.Fatalf("a pause of %v after 7 ms", p)
		}
		for range 20 {
			period(200, 1000, true)
		}
		share(1, "when all is well again")
		c.take(40, 5000)
		period(200, 1000, true)
		share(shareDown, "where the slowest are slower")
		for range 20 {
			period(400, 1000, true)
		}
		if s := g.Share(); s < leastShare || s > leastShare+shareUp {
			t.Fatalf("share %v after many bad periods", s)
		}
		for range 20 {
			time.Sleep(governPeriod)
			g.worked(10 * time.Millisecond)
		}
		share(1, "without a foreground")
		busy = 95
		for range 20 {
			period(200, 1000, true)
		}
		if s := g.Share(); s > leastShare+shareUp {
			t.Fatalf("share %v while processors are busy", s)
		}
	})
}

// TestGovernorRanged has clients have the machine between units that remove ranges, for a
// bounded time and from the first unit on, and no pause where there are no clients.
func TestGovernorRanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clients
		var idle, ticks int64
		g := newGovernor(func() command.Foreground { return c.f }, func() (int64, int64) {
			idle, ticks = idle+90, ticks+100
			return idle, ticks
		})
		rests := func(when string, took, want time.Duration) {
			t.Helper()
			if got := g.ranged(took); got != want {
				t.Errorf("%s: a pause of %v after %v, not of %v", when, got, took, want)
			}
		}
		rests("without clients", 6*time.Millisecond, 0)
		c.take(100, 200)
		time.Sleep(governPeriod)
		g.idle()
		rests("with clients", 2*time.Millisecond, rangeRest*2*time.Millisecond)
		rests("after a long unit", 6*time.Millisecond, maxRangeRest)
		for range 20 { // clients suffer
			c.take(100, 5000)
			time.Sleep(governPeriod)
			g.ranged(50 * time.Millisecond)
		}
		if got := g.ranged(50 * time.Millisecond); got <= maxRangeRest {
			t.Errorf("a pause of %v where the share is %v", got, g.Share())
		}
		time.Sleep(governPeriod)
		g.idle()
		time.Sleep(governPeriod)
		g.idle()
		rests("when clients have gone", 6*time.Millisecond, 0)
	})
}
