package command

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		if _, err := g.Unlock(); err == nil {
			t.Error("unlocked what was not locked")
		}
		must := func(err error) {
			if err != nil {
				t.Helper()
				t.Error(err)
			}
		}
		must(g.Enter(t.Context()))
		locked := make(chan int64)
		go func() { n, _ := g.Lock(t.Context()); locked <- n }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.Enter(short) == nil {
			t.Error("a write passed a locked gate")
		}
		g.Leave()
		if n := <-locked; n != 1 || g.Locks() != 1 {
			t.Errorf("%d locks", n)
		}
		_, err := g.Lock(t.Context())
		must(err)
		entered := make(chan error)
		go func() { entered <- g.Enter(t.Context()) }()
		_, err = g.Unlock()
		must(err)
		synctest.Wait()
		if _, err = g.Unlock(); err != nil {
			t.Error(err)
		}
		must(<-entered)
		g.Leave()
	})
}
