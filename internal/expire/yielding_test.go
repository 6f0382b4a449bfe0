package expire

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestYield has Go have more processors while removal yields and some time after,
// once for however many removals, and then as many as before.
func TestYield(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2") // as the process found it
	usual := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(usual)
	synctest.Test(t, func(t *testing.T) {
		processors := func(when string, want int) {
			t.Helper()
			synctest.Wait()
			if n := runtime.GOMAXPROCS(0); n != want {
				t.Errorf("%s: %d processors, not %d", when, n, want)
			}
		}
		over := make(chan struct{})
		for range 2 {
			go func() {
				defer yield()()
				<-over
			}()
		}
		processors("removal", 2+moreProcessors)
		close(over)
		time.Sleep(keepProcessors / 2)
		processors("after it", 2+moreProcessors)
		go yield()()
		time.Sleep(keepProcessors / 2)
		processors("after another", 2+moreProcessors)
		time.Sleep(keepProcessors)
		processors("long after", 2)
		go yield()()
		processors("again", 2+moreProcessors)
		usualProcessors()
		processors("at the end", 2)
	})
}
