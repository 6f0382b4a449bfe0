package storage

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// TestSettle writes keys in no order, and again, deletes some, and finds all
// that is left on the last level once nobody has written for a while.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := Open(Options{Dir: "d", FS: NewMemFS(), MemtableBytes: 1 << 20, Compression: CompressionNone})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		random := rand.New(rand.NewPCG(1, 2))
		key := func(n int) []byte { return []byte{byte(n * 7), byte(n >> 8), byte(n)} }
		const keys, rounds, size = 10_000, 3, 1000
		value := make([]byte, size)
		write := func(n int, f func(u *Unit, key []byte) error) {
			u := e.Begin()
			for range n {
				if err := f(u, key(random.IntN(keys))); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.Commit(t.Context(), Buffered); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]bool{}
		set := func(u *Unit, key []byte) error { want[string(key)] = true; return u.Set(FirstIdent, key, value) }
		for range keys * rounds / 100 {
			write(100, set)
		}
		write(keys/10, func(u *Unit, key []byte) error { delete(want, string(key)); return u.Delete(FirstIdent, key, size) })
		if from, _, _, err := e.unsettled(); from == nil || err != nil {
			t.Fatal("all is on the last level already", err)
		}
		time.Sleep(settleCalm - time.Second)
		write(100, set) // more than a noise
		time.Sleep(settleCalm)
		synctest.Wait()
		if e.settler.settled.Load() != 0 {
			t.Fatal("it settled although somebody wrote")
		}
		e.PauseSettling()
		time.Sleep(2 * settleCalm)
		synctest.Wait()
		if e.settler.settled.Load() != 0 {
			t.Fatal("it settled although it was to pause")
		}
		e.ResumeSettling()
		time.Sleep(settleCalm)
		synctest.Wait()
		if from, to, _, err := e.unsettled(); from != nil || err != nil {
			t.Fatalf("not on the last level: %x to %x, %v", from, to, err)
		}
		if n := e.Metrics().MemtableBytes; n > 1<<20 {
			t.Fatalf("%d bytes in memtables", n)
		}
		for n := range keys {
			_, c, err := e.Get(FirstIdent, key(n))
			if found := err == nil; found != want[string(key(n))] {
				t.Fatalf("key %x: %v", key(n), err)
			}
			if err == nil {
				c.Close()
			}
		}
	})
}

// TestSettleAnew closes a store before it settles, and finds that it does once it
// is open again, though nobody writes.
func TestSettleAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewMemFS()
		open := func() *Engine {
			e, err := Open(Options{Dir: "d", FS: fs, MemtableBytes: 1 << 20, Compression: CompressionNone})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := open()
		value := make([]byte, 1<<20)
		for i := range 3 * settleLeast >> 20 {
			u := e.Begin()
			if err := u.Set(FirstIdent, []byte{byte(i * 7 % 16)}, value); err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(t.Context(), Buffered); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		e = open()
		defer e.Close()
		if from, _, _, err := e.unsettled(); from == nil || err != nil {
			t.Fatal("all is on the last level already", err)
		}
		time.Sleep(settleCalm)
		synctest.Wait()
		if from, to, _, err := e.unsettled(); from != nil || err != nil {
			t.Fatalf("not on the last level: %x to %x, %v", from, to, err)
		}
	})
}
