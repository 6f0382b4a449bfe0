package auth

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Failures make the next logins of the same user from the same address wait, ever
// longer up to a bound, and nobody else.
func TestFailuresDelayTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Failures
		ann := UserName{User: "ann", DB: "admin"}
		for _, want := range []time.Duration{0, 100, 200, 400, 800, 1600, 3200, 5000, 5000} {
			start := time.Now()
			if err := f.Wait(t.Context(), "10.0.0.1:4000", ann); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != want*time.Millisecond {
				t.Errorf("waited %s, want %s ms", got, want*time.Millisecond)
			}
			f.Failed("10.0.0.1:5000", ann)
		}
		if d := f.Delay("10.0.0.2:4000", ann); d != 0 {
			t.Errorf("another address waits %s", d)
		}
		for _, other := range []UserName{{User: "bob", DB: "admin"}, {User: "ann", DB: "test"}} {
			if d := f.Delay("10.0.0.1:4000", other); d != 0 {
				t.Errorf("%s waits %s", other, d)
			}
		}
		gone, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("gone")
		cancel(cause)
		if err := f.Wait(gone, "10.0.0.1:4000", ann); !errors.Is(err, cause) {
			t.Errorf("a client that is gone: %v", err)
		}
		time.Sleep(quiet + time.Second)
		if d := f.Delay("10.0.0.1:4000", ann); d != 0 {
			t.Errorf("waits %s after a quiet time", d)
		}
		f.Failed("10.0.0.1:4000", ann)
		if d := f.Delay("10.0.0.1:4000", ann); d != firstDelay {
			t.Errorf("waits %s after a quiet time and one failure", d)
		}
		f.Succeeded("10.0.0.1:6000", ann)
		if d := f.Delay("10.0.0.1:4000", ann); d != 0 {
			t.Errorf("waits %s after a login", d)
		}
	})
}

// What is remembered has a bound; the oldest failures go first.
func TestFailuresAreBounded(t *testing.T) {
	var f Failures
	for i := range maxFailing + 10 {
		f.Failed("10.0.0.1:4000", UserName{User: strconv.Itoa(i), DB: "admin"})
	}
	if len(f.byPair) != maxFailing || f.recent.Len() != maxFailing {
		t.Errorf("%d and %d remembered", len(f.byPair), f.recent.Len())
	}
	first, last := UserName{User: "0", DB: "admin"}, UserName{User: strconv.Itoa(maxFailing + 9), DB: "admin"}
	if f.Delay("10.0.0.1:4000", first) != 0 || f.Delay("10.0.0.1:4000", last) != firstDelay {
		t.Error("not the oldest went")
	}
}
