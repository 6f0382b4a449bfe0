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
		pass, err := g.Enter(t.Context())
		must(err)
		locked := make(chan int64, 1)
		go func() { n, _ := g.Lock(t.Context()); locked <- n }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Enter(short); err == nil {
			t.Error("a write passed a locked gate")
		}
		// What the write inside may be waiting for passes, and Lock waits for it, too.
		within, err := g.EnterWithin(t.Context())
		must(err)
		pass.Leave()
		synctest.Wait()
		if len(locked) > 0 {
			t.Error("locked with a write inside")
		}
		within.Leave()
		if n := <-locked; n != 1 || g.Locks() != 1 {
			t.Errorf("%d locks", n)
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.EnterWithin(late); err == nil {
			t.Error("a write passed a locked gate with nothing inside")
		}
		_, err = g.Lock(t.Context())
		must(err)
		entered := make(chan Pass)
		go func() {
			pass, err := g.Enter(t.Context())
			must(err)
			entered <- pass
		}()
		_, err = g.Unlock()
		must(err)
		synctest.Wait()
		if _, err = g.Unlock(); err != nil {
			t.Error(err)
		}
		(<-entered).Leave()
	})
}

// Drain waits for the writes that have passed before, also for those of an earlier Drain
// that was given up, and not for later ones.
func TestGateDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		enter := func() Pass {
			pass, err := g.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return pass
		}
		drain := func() chan error {
			done := make(chan error, 1)
			go func() { done <- g.Drain(t.Context()) }()
			synctest.Wait()
			return done
		}
		if err := g.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := enter()
		done := drain()
		later := enter()
		if len(done) > 0 {
			t.Error("drained with a write inside")
		}
		first.Leave()
		if err := <-done; err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if g.Drain(short) == nil {
			t.Error("drained with a write inside")
		}
		between := enter()
		done = drain()
		for _, p := range []Pass{between, later} {
			if len(done) > 0 {
				t.Error("drained with a write inside")
			}
			p.Leave()
			synctest.Wait()
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
