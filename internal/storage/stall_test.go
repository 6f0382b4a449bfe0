package storage

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestStall holds that a sync of the journal that does not end is told of again and again,
// with how long it takes, and no more once it has ended.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := NewMemFS()
		var mu sync.Mutex
		var told []time.Duration
		e, err := Open(Options{Dir: "db", FS: fs, CacheBytes: 1 << 20, MemtableBytes: 1 << 20, OnStall: func(path string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, took)
		}})
		if err != nil {
			t.Fatal(err)
		}
		write := func() {
			u := e.Begin()
			if err := u.Set(FirstIdent, []byte("k"), []byte("v")); err != nil {
				t.Error(err)
			}
			if err := u.Commit(t.Context(), Journaled); err != nil {
				t.Error(err)
			}
		}
		write()
		resume := make(chan struct{})
		fs.SetFault(func(op, _ string) error {
			if op == "sync" {
				<-resume
			}
			return nil
		})
		var writing sync.WaitGroup
		writing.Go(write)
		time.Sleep(4*slowDiskThreshold + time.Second)
		close(resume)
		writing.Wait()
		fs.SetFault(nil)
		write()
		time.Sleep(10 * slowDiskThreshold)
		mu.Lock()
		defer mu.Unlock()
		var want []time.Duration
		for i := range 4 {
			want = append(want, time.Duration(i+1)*slowDiskThreshold)
		}
		if !slices.Equal(told, want) {
			t.Errorf("told %v, not %v", told, want)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
}
