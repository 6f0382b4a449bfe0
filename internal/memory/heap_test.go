package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// TestWhoTakesMemoryWaitsForACollection turns Go's own collections off: what many
// take, fill and drop stays below the ceiling all the same, whichever way they
// take it.
func TestWhoTakesMemoryWaitsForACollection(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 50))
	const size = 8 << 20
	var budget *Budget
	filled := make([]byte, 0)
	for name, take := range map[string]func(t *testing.T) func(){
		"the first of an account": func(t *testing.T) func() {
			var a Account
			a.Open(budget)
			h := a.Hold(patient)
			if err := h.Set(size); err != nil {
				t.Error(err)
			}
			return a.Close
		},
		"forced": func(t *testing.T) func() {
			var a Account
			a.Open(budget)
			for range size / overdraft {
				h := a.Hold(nil)
				if err := h.grow(overdraft, true); err != nil {
					t.Error(err)
				}
			}
			return a.Close
		},
		"a request": func(t *testing.T) func() {
			var r Request
			r.Open(budget)
			if err := r.Set(t.Context(), size); err != nil {
				t.Error(err)
			}
			return r.Release
		},
		"taken already": func(t *testing.T) func() {
			budget.Settle(size)
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			runtime.GC()
			budget = NewBudget(MinBudget)
			limit := heapBytes() + 128<<20
			budget.Bound(limit)
			for range 200 {
				giveBack := take(t)
				filled = make([]byte, size)
				if n := heapBytes(); n > limit {
					t.Fatalf("%d bytes in the heap, %d are the limit", n, limit)
				}
				giveBack()
			}
		})
	}
	runtime.KeepAlive(filled)
}

// TestAFullHeapIsNotCollectedForEveryByte holds that who takes memory of a heap
// that is full of what lives does not collect it each time.
func TestAFullHeapIsNotCollectedForEveryByte(t *testing.T) {
	lives := make([]byte, 64<<20)
	runtime.GC()
	b := NewBudget(MinBudget)
	b.Bound(heapBytes())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 1000 {
		b.Settle(1 << 20)
	}
	runtime.ReadMemStats(&after)
	if n := after.NumForcedGC - before.NumForcedGC; n > 1 {
		t.Errorf("%d collections", n)
	}
	runtime.KeepAlive(lives)
}

func heapBytes() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}
