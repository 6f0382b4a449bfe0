package waits

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Two goroutines that wait for the same thing at a time have waited once, and what is waited for
// beside something else counts once in the total.
func TestWaitsOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Context{Context: t.Context()}
		ctx, cancel := context.WithCancel(c) // as a handler derives them
		defer cancel()
		wait := func(k Kind, after, d time.Duration) {
			time.Sleep(after)
			Of(ctx).Begin(k)
			time.Sleep(d)
			Of(ctx).End(k)
		}
		var all sync.WaitGroup
		all.Go(func() { wait(Shards, 0, 3*time.Second) })
		all.Go(func() { wait(Shards, time.Second, 4*time.Second) })
		all.Go(func() { wait(Disk, 4*time.Second, 2*time.Second) })
		all.Wait()
		wait(Shards, time.Second, time.Second)
		totals := c.Waits.Totals()
		if shards, disk := totals.Of(Shards), totals.Of(Disk); shards != 6*time.Second || disk != 2*time.Second || totals.All != 7*time.Second {
			t.Errorf("waited %v for shards, %v for the disk, %v in all; want 6s, 2s, 7s", shards, disk, totals.All)
		}
		wait(Disk, 0, time.Second)
		if more := c.Waits.Totals().Since(&totals); more.All != time.Second || more.Of(Disk) != time.Second || more.Of(Shards) != 0 {
			t.Errorf("waited %v more, want 1s for the disk", more)
		}
		var kinds []string
		for k := range totals.Each {
			kinds = append(kinds, k.String())
		}
		if len(kinds) != 2 || kinds[0] != "disk" || kinds[1] != "shards" {
			t.Errorf("waited for %v", kinds)
		}
	})
}

// What runs for no operation waits unmeasured.
func TestWaitsOfNobody(t *testing.T) {
	Of(t.Context()).Begin(Lock)
	Of(t.Context()).End(Lock)
}
