package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// read returns the keys and values that a reader has in a keyspace.
func read(t *testing.T, r Reader, id Ident) (all string) {
	t.Helper()
	it, err := r.NewIter(id, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		got, closer, err := r.Get(id, it.Key())
		if err != nil || string(got) != string(v) {
			t.Errorf("Get of %s is %s %v, an iterator has %s", it.Key(), got, err, v)
		} else {
			closer.Close()
		}
		all += fmt.Sprintf("%s=%s ", it.Key(), v)
	}
	return all
}

// A fixed unit reads one state with its own writes on top, and what others commit under a
// lock since then is a conflict.
func TestFixed(t *testing.T) {
	e, err := Open(Options{Dir: "db", FS: NewMemFS()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const id = FirstIdent
	set := func(key, value string) {
		t.Helper()
		u := e.Begin()
		if _, err := u.Lock(t.Context(), LockRecord, id, []byte(key)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(u.Set(id, []byte(key), []byte(value)), u.Commit(t.Context(), Buffered)); err != nil {
			t.Fatal(err)
		}
	}
	set("a", "1")
	set("b", "1")
	u := e.Begin()
	defer u.Abort()
	if err := u.Fix(); err != nil {
		t.Fatal(err)
	}
	set("b", "2")
	set("c", "2")
	if got := read(t, u, id); got != "a=1 b=1 " {
		t.Errorf("it reads %s", got)
	}
	lock := func(key string) error {
		_, err := u.Lock(t.Context(), LockRecord, id, []byte(key))
		return err
	}
	if err := lock("b"); err != ErrConflict {
		t.Errorf("what was committed since: %v", err)
	}
	if err := lock("a"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(u.Set(id, []byte("a"), []byte("3")), u.Set(id, []byte("d"), []byte("3")), u.Delete(id, []byte("b"), -1)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, u, id); got != "a=3 d=3 " {
		t.Errorf("with its own writes it reads %s", got)
	}
	if got := read(t, e, id); got != "a=1 b=2 c=2 " {
		t.Errorf("others read %s", got)
	}
	// Another unit that wants the lock gets an error with which it can wait.
	other := e.Begin()
	_, err = other.Lock(t.Context(), LockRecord, id, []byte("a"))
	if !errors.Is(err, ErrLockBusy) || !IsHeld(err) {
		t.Fatalf("the lock of a fixed unit: %v", err)
	}
	other.Abort()
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	if err := WaitBusy(ctx, err); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the wait for a fixed unit ends with %v", err)
	}
	// Its writes go, its locks stay.
	if err := u.Loosen(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, u, id); got != "a=1 b=2 c=2 " {
		t.Errorf("loosened it reads %s", got)
	}
	waited := make(chan error, 1)
	go func() { waited <- WaitBusy(t.Context(), err) }()
	if err := errors.Join(u.Set(id, []byte("a"), []byte("4")), u.Commit(t.Context(), Buffered)); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	set("a", "5")
	if n := e.recent.open.Load(); n != 0 || e.recent.now != nil {
		t.Errorf("%d fixed units are open, %d locks are remembered", n, len(e.recent.now))
	}
}

// What is forgotten of earlier commits is a conflict for who was fixed before it.
func TestRecentForgets(t *testing.T) {
	r := recent{e: new(Engine)}
	since := r.fix()
	for i := range 5 * maxRecent / 2 {
		r.note(0, true, []lockID{lockID(i)})
	}
	if !r.since(lockID(4*maxRecent), since) {
		t.Error("a lock of which nothing is known any more is no conflict")
	}
	later := r.fix()
	r.note(0, true, []lockID{7})
	if r.since(8, later) || !r.since(7, later) {
		t.Error("what has happened since is not what is remembered")
	}
	if n := len(r.now) + len(r.old); n > 2*maxRecent {
		t.Errorf("%d locks are remembered", n)
	}
}
