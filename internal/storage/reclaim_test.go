package storage

import (
	"strings"
	"testing"
	"time"
)

// TestCompactEndsBesideAnother compacts a keyspace while another compaction has
// its tables and does not end: both ways of compacting end after their patience,
// and the next one, once the other has ended, goes through.
func TestCompactEndsBesideAnother(t *testing.T) {
	fs := NewMemFS()
	e, err := Open(Options{Dir: "d", FS: fs, MemtableBytes: 1 << 20, Compression: CompressionNone, byHand: true, patience: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const keys, size = 100, 64 << 10
	value := make([]byte, size)
	write := func(step int, f func(u *Unit, key []byte) error) {
		for i := 0; i < keys; i += step {
			u := e.Begin()
			if err := f(u, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
			if err := u.Commit(t.Context(), Buffered); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	write(1, func(u *Unit, key []byte) error { return u.Set(FirstIdent, key, value) })
	write(2, func(u *Unit, key []byte) error { return u.Delete(FirstIdent, key, len(value)) })

	blocked, goOn, first := make(chan struct{}), make(chan struct{}), true
	fs.SetFault(func(op, name string) error {
		if op == "create" && strings.HasSuffix(name, ".sst") && first {
			first = false
			close(blocked)
			<-goOn
		}
		return nil
	})
	other := make(chan error)
	go func() {
		b, n := rangeBounds(nil, FirstIdent, nil, nil)
		other <- e.db.Compact(t.Context(), b[:n], b[n:], false)
	}()
	<-blocked
	if whole, err := e.Compact(t.Context(), FirstIdent); whole || err != nil {
		t.Errorf("%t, %v", whole, err)
	}
	close(goOn)
	if err := <-other; err != nil {
		t.Error(err)
	}
	e.opts.patience = compactPatience
	if whole, err := e.Compact(t.Context(), FirstIdent); !whole || err != nil {
		t.Errorf("%t, %v", whole, err)
	}
	if n, err := e.DiskUsage(FirstIdent); n > keys*size*6/10 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
}
