package storage

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
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
		if err := e.PauseSettling(t.Context()); err != nil {
			t.Fatal(err)
		}
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
// is open again, though nobody writes. Keys rise, so that the first level takes all
// tables.
func TestSettleAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewMemFS()
		open := func() *Engine {
			e, err := Open(Options{Dir: "d", FS: fs, MemtableBytes: 1 << 20, Compression: CompressionNone, byHand: true})
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		e := open()
		value := make([]byte, 1<<20)
		for i := range 3 * settleLeast >> 21 {
			u := e.Begin()
			if err := u.Set(FirstIdent, []byte{byte(i)}, value); err != nil {
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
		synctest.Wait() // the table is written beside the opening
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

// openSettling opens a store whose memtables take all that a test writes.
func openSettling(t *testing.T, log *slog.Logger) *Engine {
	t.Helper()
	e, err := Open(Options{Dir: "d", FS: NewMemFS(), MemtableBytes: 64 << 20, Compression: CompressionNone, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// putSized stores so many bytes under a key.
func putSized(t *testing.T, e *Engine, key, size int) {
	t.Helper()
	u := e.Begin()
	if err := u.Set(FirstIdent, []byte{byte(key)}, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := u.Commit(t.Context(), Buffered); err != nil {
		t.Fatal(err)
	}
}

// calm lets time go by until the store has looked whether to settle.
func calm() {
	time.Sleep(2 * settleCalm)
	synctest.Wait()
}

// TestSettleTooLittle writes one key again and again beside others. That is too
// little to settle, and what trickles in afterwards flushes nothing.
func TestSettleTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		e := openSettling(t, slog.New(whenSettled(func() { times++ })))
		defer e.Close()
		for key := range 2 * settleLeast >> 20 {
			putSized(t, e, key, 1<<20)
		}
		calm()
		for range settleLeast>>20 + 1 {
			putSized(t, e, 0, 1<<20)
		}
		calm()
		if times != 1 {
			t.Fatalf("it settled %d times", times)
		}
		before := e.Metrics().Flushes
		for range 5 {
			putSized(t, e, 1, 1)
			calm()
		}
		if n := e.Metrics().Flushes - before; n > 0 {
			t.Errorf("%d flushes", n)
		}
	})
}

// whenSettled is a log that calls itself when the store has settled.
type whenSettled func()

func (f whenSettled) Enabled(context.Context, slog.Level) bool { return true }
func (f whenSettled) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f whenSettled) WithGroup(string) slog.Handler            { return f }

func (f whenSettled) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "storage: settled") {
		f()
	}
	return nil
}

// TestSettleLater writes while the store is about to have settled, as much as to
// settle again, and no more then.
func TestSettleLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *Engine
		times := 0
		e = openSettling(t, slog.New(whenSettled(func() {
			for key := 100; times == 0 && key < 100+settleLeast>>20+1; key++ {
				putSized(t, e, key, 1<<20)
			}
			times++
		})))
		defer e.Close()
		for key := range settleLeast>>20 + 1 {
			putSized(t, e, key, 1<<20)
		}
		calm()
		calm()
		if times != 2 {
			t.Errorf("it settled %d times", times)
		}
	})
}

// TestPauseSettling pauses while a step is under way that does not end, as on a
// full disk.
func TestPauseSettling(t *testing.T) {
	e := openSettling(t, nil)
	defer e.Close()
	e.settler.step <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.PauseSettling(ctx); err == nil || e.settler.pauses.Load() != 0 {
		t.Errorf("%v, %d pauses", err, e.settler.pauses.Load())
	}
	<-e.settler.step
	if err := e.PauseSettling(t.Context()); err != nil || e.settler.pauses.Load() != 1 {
		t.Errorf("%v, %d pauses", err, e.settler.pauses.Load())
	}
	e.ResumeSettling()
}
