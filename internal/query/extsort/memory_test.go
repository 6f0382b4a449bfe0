package extsort

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// scarce is an account that finds no memory, and its budget.
func scarce(t *testing.T) (*memory.Account, *memory.Budget) {
	t.Helper()
	b := memory.NewBudget(memory.MinBudget)
	others := new(memory.Account)
	others.Open(b)
	h := others.Hold(nil)
	for n := memory.MinBudget; ; n -= 1 << 20 {
		if h.Set(n) == nil {
			break
		}
	}
	t.Cleanup(others.Close)
	a := new(memory.Account)
	a.Open(b)
	t.Cleanup(a.Close)
	return a, b
}

func TestASortWithoutMemorySpills(t *testing.T) {
	a, b := scarce(t)
	before := b.Stats().Operations.Held
	s := New(0, t.TempDir())
	s.Hold(a.Hold(nil))
	const rows = 20_000
	for i := range uint32(rows) {
		key := binary.BigEndian.AppendUint32(nil, i*2654435761)
		if err := s.Add(key, nil, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		if held := b.Stats().Operations.Held - before; held > 2<<20 {
			t.Fatalf("%d bytes held", held)
		}
	}
	if err := s.Sort(); err != nil {
		t.Fatal(err)
	}
	if s.Stats.Spills < 2 {
		t.Errorf("%d spills", s.Stats.Spills)
	}
	last, n := uint32(0), 0
	for {
		r, ok, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		k := binary.BigEndian.Uint32(r.Key)
		if k < last {
			t.Fatal("not sorted")
		}
		last, n = k, n+1
	}
	if n != rows {
		t.Errorf("%d rows", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if held := b.Stats().Operations.Held; held != before {
		t.Errorf("%d bytes still held", held-before)
	}
}

func TestASortWithoutMemoryAndDiskFails(t *testing.T) {
	a, _ := scarce(t)
	for _, limit := range []int64{0, 100_000} {
		s := New(limit, "")
		s.Hold(a.Hold(nil))
		var err error
		for i := 0; i < 20_000 && err == nil; i++ {
			err = s.Add(binary.BigEndian.AppendUint32(nil, uint32(i)), nil, make([]byte, 200))
		}
		var e *mongoerr.Error
		if !errors.As(err, &e) || e.Code != mongoerr.ExceededMemoryLimit {
			t.Errorf("limit %d: %v", limit, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
