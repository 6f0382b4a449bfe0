package storage

import (
	"testing"
	"testing/synctest"
	"time"
)

func put(t *testing.T, e *Engine, key, value string) {
	t.Helper()
	u := e.Begin()
	defer u.Abort()
	u.Set(FirstIdent, []byte(key), []byte(value))
	if err := u.Commit(t.Context(), Buffered); err != nil {
		t.Fatal(err)
	}
}

// first reads the first value through an iterator that it gives back.
func first(t *testing.T, s *Snapshot, lower string) string {
	t.Helper()
	it, err := s.NewIter(FirstIdent, []byte(lower), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	if !it.First() {
		return ""
	}
	v, err := it.Value()
	if err != nil {
		t.Fatal(err)
	}
	return string(v)
}

// TestSnapshotsShareAView: snapshots that no commit separates share a state and
// its iterators; one that does gives the next snapshot a state of its own.
func TestSnapshotsShareAView(t *testing.T) {
	e := openMem(t, NewMemFS())
	put(t, e, "a", "1")
	before, same := e.NewSnapshot(), e.NewSnapshot()
	if before.v != same.v {
		t.Error("two snapshots of one state have two views")
	}
	if got := first(t, before, ""); got != "1" || len(before.v.idle.iters) != 1 {
		t.Errorf("read %q, %d idle iterators", got, len(before.v.idle.iters))
	}
	if got := first(t, same, "b"); got != "" || len(before.v.idle.iters) != 1 {
		t.Errorf("read %q beyond the end, %d idle iterators", got, len(before.v.idle.iters))
	}
	put(t, e, "a", "2")
	after := e.NewSnapshot()
	if old, now := first(t, same, ""), first(t, after, ""); old != "1" || now != "2" {
		t.Errorf("read %q before and %q after the commit", old, now)
	}
	for _, s := range []*Snapshot{before, same, after} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if before.v.idle.iters != nil {
		t.Error("a view that nobody reads keeps iterators")
	}
}

// TestIdleViewGoes: a state that nobody reads is let go of soon.
func TestIdleViewGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(Options{Dir: "data", FS: NewMemFS()})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		s := e.NewSnapshot()
		v := s.v
		first(t, s, "")
		s.Close()
		if current(e) != v {
			t.Error("the view went at once")
		}
		time.Sleep(2 * viewKept)
		synctest.Wait()
		if current(e) != nil || v.idle.iters != nil {
			t.Error("the view stayed")
		}
	})
}

func current(e *Engine) *view {
	e.views.mu.Lock()
	defer e.views.mu.Unlock()
	return e.views.current
}
