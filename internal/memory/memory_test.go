package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

type waiter struct{ ctx context.Context }

func (w waiter) Context() context.Context { return w.ctx }

var patient = waiter{context.Background()}

func refused(t *testing.T, err error) {
	t.Helper()
	if mongoerr.From(err).Code != mongoerr.ExceededMemoryLimit {
		t.Errorf("got %v, want 146", err)
	}
}

// rest takes everything that operations may have but n bytes.
func rest(t *testing.T, b *Budget, n int64) *Account {
	t.Helper()
	a := new(Account)
	a.Open(b)
	h := a.Hold(nil)
	if err := h.Set(int(b.operations.limit - n)); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestHoldingTakesInChunksAndCloseGivesBack(t *testing.T) {
	b := NewBudget(MinBudget)
	var a Account
	a.Open(b)
	h := a.Hold(patient)
	if err := h.Set(free); err != nil || a.Taken() != 0 {
		t.Errorf("what is free took %d, %v", a.Taken(), err)
	}
	for n := free; n <= 4<<20; n += 1000 {
		before := a.Taken()
		if err := h.Set(n); err != nil {
			t.Fatal(err)
		}
		if a.Taken() < int64(n) && n > free {
			t.Fatalf("%d bytes held, %d taken", n, a.Taken())
		}
		if a.Taken() > int64(n)+lastChunk+firstChunk {
			t.Fatalf("%d bytes held, %d taken, %d before", n, a.Taken(), before)
		}
	}
	if got := b.Stats().Operations; got.Held != a.Taken() || got.Peak != got.Held {
		t.Errorf("%+v", got)
	}
	h.Release()
	if a.Taken() != 0 {
		t.Errorf("%d left after Release", a.Taken())
	}
	if err := h.Set(1 << 20); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if got := b.Stats().Operations.Held; got != 0 {
		t.Errorf("%d left after Close", got)
	}
	if err := h.Set(10 << 20); err != nil || b.Stats().Operations.Held != 0 {
		t.Errorf("a closed account took %d, %v", b.Stats().Operations.Held, err)
	}
}

func TestFirstMemoryIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(MinBudget)
		others := rest(t, b, 0)
		done := make(chan error)
		go func() {
			var a Account
			a.Open(b)
			defer a.Close()
			h := a.Hold(patient)
			done <- h.Set(1 << 20)
		}()
		synctest.Wait()
		if got := b.Stats().Operations; got.Waiting != 1 {
			t.Errorf("%+v", got)
		}
		others.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}

		others = rest(t, b, 0)
		defer others.Close()
		var a Account
		a.Open(b)
		defer a.Close()
		h, start := a.Hold(patient), time.Now()
		refused(t, h.Set(1<<20))
		if d := time.Since(start); d != maxWait {
			t.Errorf("waited %v", d)
		}
		why := errors.New("killed")
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(why)
		h = a.Hold(waiter{ctx})
		if err := h.Set(1 << 20); !errors.Is(err, why) {
			t.Error(err)
		}
		refused(t, h.Set(1<<40))
	})
}

func TestWhoHoldsSomethingDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(MinBudget)
		var a Account
		a.Open(b)
		defer a.Close()
		h, spills := a.Hold(patient), a.Hold(patient)
		if err := h.Set(1 << 20); err != nil {
			t.Fatal(err)
		}
		others := rest(t, b, a.Taken())
		defer others.Close()
		start := time.Now()
		refused(t, h.Set(3<<20))
		if ok, err := spills.Spilling(overdraft); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if ok, err := spills.Spilling(overdraft + 1); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if time.Since(start) != 0 {
			t.Error("it waited")
		}
	})
}

// TestRequestsDoNotWaitForEachOther: more requests than there is room for all
// arrive at once, bit by bit, and all come through.
func TestRequestsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(MinBudget)
		done := make(chan error)
		const requests = 20
		for range requests {
			go func() {
				var r Request
				r.Open(b)
				defer r.Release()
				for n := FreeRequest; n < largestRequest; n *= 2 {
					time.Sleep(time.Millisecond)
					if err := r.Set(context.Background(), n); err != nil {
						done <- err
						return
					}
				}
				done <- r.Set(context.Background(), 2*largestRequest)
			}()
		}
		for range requests {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := b.Stats().Requests; got.Held != 0 || got.Peak > minRequests {
			t.Errorf("%+v", got)
		}
	})
}

func TestARequestThatNobodyEndsIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(MinBudget)
		var stuck, other Request
		stuck.Open(b)
		other.Open(b)
		if err := stuck.Set(context.Background(), 2*largestRequest); err != nil {
			t.Fatal(err)
		}
		refused(t, other.Set(context.Background(), largestRequest))
		stuck.Release()
		if err := other.Set(context.Background(), largestRequest); err != nil {
			t.Error(err)
		}
		other.Release()
		if got := b.Stats().Requests.Held; got != 0 {
			t.Errorf("%d left", got)
		}
	})
}
