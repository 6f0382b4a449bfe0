package expire

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestGovernor holds that removal gives way while operations take longer than
// they do without it, never below its least share, and comes back.
func TestGovernor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var micros, ops int64
		g := newGovernor(func() (int64, int64) { return micros, ops })
		period := func(mean int64, removing bool) {
			micros, ops = micros+1000*mean, ops+1000
			time.Sleep(governPeriod)
			if removing {
				g.worked(time.Millisecond)
			} else {
				g.idle()
			}
		}
		for range 20 {
			period(200, false)
		}
		if s := g.Share(); s != 1 {
			t.Fatalf("share %v while idle", s)
		}
		for range 5 {
			period(200, true)
		}
		if s := g.Share(); s != 1 {
			t.Fatalf("share %v while nobody suffers", s)
		}
		period(400, true)
		if s := g.Share(); s != shareDown {
			t.Fatalf("share %v after one bad period", s)
		}
		if p := g.worked(7 * time.Millisecond); p < 2*time.Millisecond || p > 4*time.Millisecond {
			t.Fatalf("a pause of %v after 7 ms", p)
		}
		for range 20 {
			period(400, true)
		}
		if s := g.Share(); s < leastShare || s > leastShare+shareUp {
			t.Fatalf("share %v after many bad periods", s)
		}
		for range 20 {
			period(220, true)
		}
		if s := g.Share(); s != 1 {
			t.Fatalf("share %v when all is well again", s)
		}
		period(400, true)
		for range 20 {
			time.Sleep(governPeriod)
			g.worked(0)
		}
		if s := g.Share(); s != 1 {
			t.Fatalf("share %v without a foreground", s)
		}
	})
}
