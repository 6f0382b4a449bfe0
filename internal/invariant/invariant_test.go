package invariant

import (
	"strings"
	"sync"
	"testing"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// breaks says whether f panics, which it must do where assertions are Enabled.
func breaks(t *testing.T, f func()) {
	t.Helper()
	before := Broken()
	defer func() {
		t.Helper()
		if panicked := recover() != nil; panicked != Enabled {
			t.Errorf("panicked %v, want %v", panicked, Enabled)
		}
		if n := Broken() - before; n != 1 {
			t.Errorf("counted %d", n)
		}
	}()
	f()
}

func TestBrokenAssertionIsCountedAndReportedOnce(t *testing.T) {
	var heard []Report
	SetReporter(func(r Report) { heard = append(heard, r) })
	defer SetReporter(nil)
	for range 3 {
		breaks(t, func() { Check(false, "two is one") })
	}
	if len(heard) != 1 {
		t.Fatalf("heard %d times of one place", len(heard))
	}
	r := heard[0]
	if r.Message != "two is one" || r.Stack == "" || !strings.Contains(r.Place, "invariant_test.go:") {
		t.Errorf("heard %+v", r)
	}
	breaks(t, func() { Failf("%d is one", 3) })
	if len(heard) != 2 || heard[1].Message != "3 is one" {
		t.Errorf("heard %+v", heard)
	}
}

func TestHoldingAssertionIsFree(t *testing.T) {
	before := Broken()
	if n := testing.AllocsPerRun(100, func() {
		if !Check(true, "one is one") || Require(true, "one is one") != nil {
			t.Error("a holding assertion was broken")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if Broken() != before {
		t.Error("a holding assertion was counted")
	}
}

func TestRequireIsAnInternalError(t *testing.T) {
	breaks(t, func() {
		if err := Require(false, "two is one"); !mongoerr.Is(err, mongoerr.InternalError) || err.Error() != "invariant broken: two is one" {
			t.Errorf("got %v", err)
		}
	})
}

func TestHeld(t *testing.T) {
	var mu sync.RWMutex
	mu.RLock()
	Held(&mu, "held")
	mu.RUnlock()
	mu.Lock()
	Held(&mu, "held")
	HeldForWriting(&mu, "held")
	mu.Unlock()
	if !Enabled {
		Held(&mu, "nobody looks")
		HeldForWriting(&mu, "nobody looks")
		return
	}
	breaks(t, func() { Held(&mu, "held") })
	mu.RLock()
	defer mu.RUnlock()
	breaks(t, func() { HeldForWriting(&mu, "held") })
}
