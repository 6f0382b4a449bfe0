package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// A reader that waits for a writer stops waiting when its context ends, and
// leaves nothing behind.
func TestGateEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		g.Lock()
		killed := errors.New("killed")
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := make(chan error, 2)
		go func() { waits <- g.RLock(ctx) }()
		go func() { waits <- g.RLock(t.Context()) }()
		synctest.Wait()
		cancel(killed)
		if err := <-waits; !errors.Is(err, killed) {
			t.Fatalf("a killed reader got %v", err)
		}
		g.Unlock()
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		if g.TryLock() {
			t.Fatal("a writer entered beside a reader")
		}
		g.RUnlock()
		if !g.TryLock() {
			t.Fatal("the killed reader is still counted")
		}
		g.Unlock()
	})
}

// A writer that waits keeps readers out, and those that wait go before the next
// writer.
func TestGateOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if err := g.RLock(t.Context()); err != nil {
			t.Fatal(err)
		}
		entered := false
		go func() { g.Lock(); entered = true }()
		synctest.Wait()
		if entered || g.TryRLock() || g.TryLock() {
			t.Fatal("a reader passed a writer that waits, or that passed a reader")
		}
		g.RUnlock()
		synctest.Wait()
		if !entered {
			t.Fatal("the writer still waits")
		}
		go func() { _ = g.RLock(t.Context()) }()
		synctest.Wait()
		g.Unlock()
		if g.TryLock() {
			t.Fatal("a writer passed a reader that waited")
		}
		g.RUnlock()
		if !g.TryLock() {
			t.Fatal("the gate is not empty")
		}
	})
}

// A writer whose context ends while the last reader is about to say that it has left waits for
// that: said later, it would be said to the next writer.
func TestGateLastReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if err := g.RLock(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		entered := make(chan error, 1)
		go func() { entered <- g.LockWithin(ctx) }()
		synctest.Wait()
		if n := g.inside.Add(-1); n != -gateClosed { // the first half of RUnlock
			t.Fatalf("%d inside", n)
		}
		cancel()
		synctest.Wait()
		select {
		case err := <-entered:
			t.Fatalf("it waits no more: %v", err)
		default:
		}
		g.mu.Lock() // the second half
		close(g.emptied)
		g.mu.Unlock()
		if err := <-entered; err != nil {
			t.Fatal(err)
		}
		g.Unlock()
	})
}

// Many readers, some of which give up, and writers: nobody is beside a writer.
func TestGateExcludes(t *testing.T) {
	var g gate
	var inside atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2000 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Microsecond)
				if g.RLock(ctx) == nil {
					if inside.Add(1) > 1<<20 {
						t.Error("a reader beside a writer")
					}
					inside.Add(-1)
					g.RUnlock()
				}
				cancel()
			}
		})
	}
	for range 2 {
		all.Go(func() {
			for range 500 {
				g.Lock()
				if n := inside.Add(1 << 21); n != 1<<21 {
					t.Errorf("a writer beside %d", n-1<<21)
				}
				inside.Add(-1 << 21)
				g.Unlock()
			}
		})
	}
	all.Wait()
	if !g.TryLock() {
		t.Fatal("the gate is not empty")
	}
}

func BenchmarkGate(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		ctx := context.Background()
		for pb.Next() {
			if benchedGate.RLock(ctx) == nil {
				benchedGate.RUnlock()
			}
		}
	})
}

var benchedGate gate

// A writer that waits for a reader who has pinned the gate lets others in from time to time,
// and enters as soon as that reader has left.
func TestGatePinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		if !g.TryRLock() {
			t.Fatal("a reader did not enter")
		}
		g.Pin()
		locked := make(chan struct{})
		go func() { g.Lock(); close(locked) }()
		for range 3 {
			synctest.Wait()
			if g.TryRLock() {
				t.Fatal("a reader passed the writer")
			}
			begun := time.Now()
			if err := g.RLock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begun); waited != pinPatience {
				t.Errorf("a reader waited %v", waited)
			}
			g.RUnlock()
			select {
			case <-locked:
				t.Fatal("the writer entered")
			default:
			}
			time.Sleep(pinPause)
		}
		synctest.Wait()
		begun := time.Now()
		g.Unpin()
		g.RUnlock()
		<-locked
		if waited := time.Since(begun); waited != 0 {
			t.Errorf("the writer waited %v more", waited)
		}
		g.Unlock()
		if !g.TryRLock() {
			t.Error("the gate is closed")
		}
		g.RUnlock()
	})
}

// TestUntilEnd: what is committed under a context of UntilEnd is not once that has ended.
func TestUntilEnd(t *testing.T) {
	c := open(t, storage.NewMemFS())
	ns := schema.Namespace{DB: "d", Coll: "c"}
	coll, err := c.Create(t.Context(), ns, nil)
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(UntilEnd(t.Context()))
	u := c.Begin()
	if err := u.Insert(ended, coll, new(bson.Builder).Int32("_id", 1).Finish()); err != nil {
		t.Fatal(err)
	}
	end()
	if err := u.Commit(ended, storage.Buffered); !errors.Is(err, context.Canceled) {
		t.Errorf("a unit: %v", err)
	}
	if _, err := c.Drop(ended, ns); !errors.Is(err, context.Canceled) {
		t.Errorf("a drop: %v", err)
	}
	if c.Lookup(ns) != coll || coll.Count() != 0 {
		t.Errorf("%d documents", coll.Count())
	}
	if err := write(c, coll, nil, new(bson.Builder).Int32("_id", 1).Finish()); err != nil { // the lock is free
		t.Error(err)
	}
}

// A panic of what a unit runs leaves no lock and no gate behind: the next writer of the document,
// and DDL of the collection, do not wait.
func TestPanicLeavesNoLocks(t *testing.T) {
	c := open(t, storage.NewMemFS())
	coll, err := c.Create(t.Context(), testNS, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	write := func(after func()) error {
		return c.Run(ctx, storage.Buffered, func(u *Unit) error {
			if _, _, err := u.LockID(ctx, coll, bson.Int32(1)); err != nil {
				return err
			}
			after()
			return nil
		})
	}
	func() {
		defer func() {
			if p := recover(); p != "planted" {
				t.Errorf("recovered %v", p)
			}
		}()
		_ = write(func() { panic("planted") })
	}()
	if err := write(func() {}); err != nil {
		t.Errorf("the next writer: %v", err)
	}
	if _, err := c.Drop(ctx, testNS); err != nil {
		t.Errorf("DDL: %v", err)
	}
}
