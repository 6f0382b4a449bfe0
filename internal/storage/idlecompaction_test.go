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

// TestIdleCompaction writes keys in no order, and again, deletes some, and finds all
// that is left on the last level once nobody has written for a while.
func TestIdleCompaction(t *testing.T) {
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
		if from, _, _, err := e.uncompacted(); from == nil || err != nil {
			t.Fatal("all is on the last level already", err)
		}
		time.Sleep(idleAfter - time.Second)
		write(100, set) // more than a noise
		time.Sleep(idleAfter)
		synctest.Wait()
		if e.idleCompactor.compacted.Load() != 0 {
			t.Fatal("it compacted although somebody wrote")
		}
		if err := e.PauseIdleCompaction(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * idleAfter)
		synctest.Wait()
		if e.idleCompactor.compacted.Load() != 0 {
			t.Fatal("it compacted although it was to pause")
		}
		e.ResumeIdleCompaction()
		time.Sleep(idleAfter)
		synctest.Wait()
		if from, to, _, err := e.uncompacted(); from != nil || err != nil {
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

// TestIdleCompactionAfterOpen closes a store before idle compaction, and finds that it does once it
// is open again, though nobody writes. Keys rise, so that the first level takes all
// tables.
func TestIdleCompactionAfterOpen(t *testing.T) {
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
		for i := range 3 * idleCompactionLeast >> 21 {
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
		if from, _, _, err := e.uncompacted(); from == nil || err != nil {
			t.Fatal("all is on the last level already", err)
		}
		time.Sleep(idleAfter)
		synctest.Wait()
		if from, to, _, err := e.uncompacted(); from != nil || err != nil {
			t.Fatalf("not on the last level: %x to %x, %v", from, to, err)
		}
	})
}

// openIdle opens a store whose memtables take all that a test writes.
func openIdle(t *testing.T, log *slog.Logger) *Engine {
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

// calm lets time go by until the store has decided whether to compact.
func calm() {
	time.Sleep(2 * idleAfter)
	synctest.Wait()
}

// TestIdleCompactionTooLittle writes one key again and again beside others. That is too
// little to compact, and what trickles in afterwards flushes nothing.
func TestIdleCompactionTooLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := 0
		e := openIdle(t, slog.New(whenCompacted(func() { times++ })))
		defer e.Close()
		for key := range 2 * idleCompactionLeast >> 20 {
			putSized(t, e, key, 1<<20)
		}
		calm()
		for range idleCompactionLeast>>20 + 1 {
			putSized(t, e, 0, 1<<20)
		}
		calm()
		if times != 1 {
			t.Fatalf("it compacted %d times", times)
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

// whenCompacted is a log that calls itself when an idle compaction is over.
type whenCompacted func()

func (f whenCompacted) Enabled(context.Context, slog.Level) bool { return true }
func (f whenCompacted) WithAttrs([]slog.Attr) slog.Handler       { return f }
func (f whenCompacted) WithGroup(string) slog.Handler            { return f }

func (f whenCompacted) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "storage: idle compaction finished") {
		f()
	}
	return nil
}

// TestIdleCompactionLater writes while an idle compaction is about to end, as much as is
// worth another one, and no more then.
func TestIdleCompactionLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *Engine
		times := 0
		e = openIdle(t, slog.New(whenCompacted(func() {
			for key := 100; times == 0 && key < 100+idleCompactionLeast>>20+1; key++ {
				putSized(t, e, key, 1<<20)
			}
			times++
		})))
		defer e.Close()
		for key := range idleCompactionLeast>>20 + 1 {
			putSized(t, e, key, 1<<20)
		}
		calm()
		calm()
		if times != 2 {
			t.Errorf("it compacted %d times", times)
		}
	})
}

// TestPauseIdleCompaction pauses while a step is under way that does not end, as on a
// full disk.
func TestPauseIdleCompaction(t *testing.T) {
	e := openIdle(t, nil)
	defer e.Close()
	e.idleCompactor.step <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.PauseIdleCompaction(ctx); err == nil || e.idleCompactor.pauses.Load() != 0 {
		t.Errorf("%v, %d pauses", err, e.idleCompactor.pauses.Load())
	}
	<-e.idleCompactor.step
	if err := e.PauseIdleCompaction(t.Context()); err != nil || e.idleCompactor.pauses.Load() != 1 {
		t.Errorf("%v, %d pauses", err, e.idleCompactor.pauses.Load())
	}
	e.ResumeIdleCompaction()
}
