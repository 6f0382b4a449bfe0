package catalog

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAdvanceIsNoJump holds that a clock which is set forward is trusted at once, while others
// read it, and that a jump of the computer's clock is not, also of one that was set forward.
func TestAdvanceIsNoJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jump := time.Duration(0)
		c := NewClock(func() time.Time { return time.Now().Add(jump) })
		start := c.ExpiryTime()
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for last := start; last < start+time.Hour.Milliseconds(); {
					now := c.ExpiryTime()
					if now < last {
						t.Errorf("the clock went back by %d ms", last-now)
						return
					}
					last = now
				}
			})
		}
		for range 60 {
			if _, err := c.Advance(time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		readers.Wait()
		want := start + time.Hour.Milliseconds()
		if due, off := c.ExpiryTime(), c.Off(); due != want || off != 0 {
			t.Errorf("after an hour documents are due by %d, and the clock is off by %v; want %d", due, off, want)
		}
		if at := c.At(time.Now()); !at.Equal(c.Now()) || c.Stamped() != want/1000 {
			t.Errorf("At is %v, Now %v, Stamped %d", at, c.Now(), c.Stamped())
		}
		jump = 24 * time.Hour
		if due, off := c.ExpiryTime(), c.Off(); due != want || off != jump {
			t.Errorf("after a jump documents are due by %d, and the clock is off by %v; want %d", due, off, want)
		}
	})
}

// TestAdvanceEnds holds that no clock is set to where cluster times end.
func TestAdvanceEnds(t *testing.T) {
	c := NewClock(func() time.Time { return time.Unix(1<<32-1, 0).Add(-99 * 365 * 24 * time.Hour) })
	year := 365 * 24 * time.Hour
	if _, err := c.Advance(90 * year); err != nil {
		t.Error(err)
	}
	for _, d := range []time.Duration{4 * year, 99 * year, 1<<63 - 1, -1} {
		if now, err := c.Advance(d); err == nil {
			t.Errorf("by %v, to %v", d, now)
		}
	}
}
