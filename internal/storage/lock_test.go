package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLockIsFair(t *testing.T) {
	e := openMem(t, NewMemFS())
	synctest.Test(t, func(t *testing.T) {
		holder := e.Begin()
		if fresh, err := holder.Lock(t.Context(), LockRecord, 20, []byte("k")); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				u := e.Begin()
				defer u.Abort()
				if _, err := u.Lock(t.Context(), LockRecord, 20, []byte("k")); err != nil {
					t.Error(err)
				}
				order = append(order, i) // the lock guards it
			})
			synctest.Wait()
		}
		if ok, _ := e.Begin().TryLock(LockRecord, 20, []byte("k")); ok {
			t.Error("a held lock was taken")
		}
		holder.Abort()
		wg.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4]" {
			t.Errorf("granted in the order %v", order)
		}
	})
}

func TestLockWaitEndsWithContext(t *testing.T) {
	e := openMem(t, NewMemFS())
	synctest.Test(t, func(t *testing.T) {
		holder := e.Begin()
		holder.Lock(t.Context(), LockRecord, 20, []byte("k"))
		cause := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, cause)
		defer cancel()
		u := e.Begin()
		if _, err := u.Lock(ctx, LockRecord, 20, []byte("k")); err != cause {
			t.Errorf("got %v", err)
		}
		u.Abort()
		holder.Abort()
		u = e.Begin()
		if ok, fresh := u.TryLock(LockRecord, 20, []byte("k")); !ok || !fresh {
			t.Error("the lock is not free at the end")
		}
		u.Abort()
	})
}

// TestLocksNeverDeadlock has many units take random locks, as writers do: in
// any order while they may be refused, from scratch when they were.
func TestLocksNeverDeadlock(t *testing.T) {
	e := openMem(t, NewMemFS())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			u := e.Begin()
			for range 2000 {
				class := LockClass(rng.IntN(3))
				key := []byte{byte(rng.IntN(6))}
				_, err := u.Lock(ctx, class, 20, key)
				if errors.Is(err, ErrLockBusy) {
					u.Abort()
					u = e.Begin()
					if _, err = u.Lock(ctx, class, 20, key); errors.Is(err, ErrLockBusy) {
						err = errors.New("a unit without locks was refused")
					}
				}
				if err != nil {
					t.Error(err)
					break
				}
				if rng.IntN(5) == 0 {
					u.Abort()
					u = e.Begin()
				}
			}
			u.Abort()
		})
	}
	wg.Wait()
	for i := range e.locks.shards {
		if n := len(e.locks.shards[i].held); n > 0 {
			t.Errorf("%d locks are left", n)
		}
	}
}
