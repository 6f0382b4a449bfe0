package storage

import (
	"encoding/binary"
	"testing"
	"time"
)

// TestReclaimable holds that little counts as space to give back where nothing
// is deleted, and where all that was is compacted.
func TestReclaimable(t *testing.T) {
	e, err := Open(Options{Dir: "db", FS: NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id, err := newIdent(e)
	if err != nil {
		t.Fatal(err)
	}
	const keys = 20000
	write := func(from, to int, f func(*Unit, []byte) error) {
		u := e.Begin()
		for i := from; i < to; i++ {
			if err := f(u, binary.BigEndian.AppendUint32(nil, uint32(i))); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.Commit(t.Context(), Buffered); err != nil {
			t.Fatal(err)
		}
	}
	reclaimable := func(live int64) (uint64, uint64) {
		n, err := e.Reclaimable(id, live)
		if err != nil {
			t.Fatal(err)
		}
		used, err := e.DiskUsage(id)
		if err != nil {
			t.Fatal(err)
		}
		return n, used
	}
	value := make([]byte, 100)
	write(0, keys, func(u *Unit, k []byte) error {
		binary.BigEndian.PutUint64(value, uint64(binary.BigEndian.Uint32(k))*0x9e3779b97f4a7c15)
		return u.Set(id, k, value)
	})
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	// The statistics of a new table come a little later: without them nothing is
	// known.
	if n, used := reclaimable(keys); n > used/10 {
		t.Errorf("%d of %d bytes while nothing is deleted", n, used)
	}
	write(0, keys/2, func(u *Unit, k []byte) error { return u.Delete(id, k, len(value)) })
	if _, err := e.Compact(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n, used := reclaimable(keys / 2); n > used/10 {
		t.Errorf("%d of %d bytes after a compaction", n, used)
	}
}

// TestReclaim deletes every second key of many, and gives their space back in
// steps; where little is to give back it does nothing.
func TestReclaim(t *testing.T) {
	e, err := Open(Options{Dir: "db", FS: NewMemFS(), CacheBytes: 8 << 20, MemtableBytes: 4 << 20, Compression: CompressionNone})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id, err := newIdent(e)
	if err != nil {
		t.Fatal(err)
	}
	const keys, size = 90, 1 << 20
	value := make([]byte, size)
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	for i := range keys {
		u := e.Begin()
		if err := u.Set(id, key(i), value); err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(t.Context(), Buffered); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Compact(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	reclaim := func(live int64) (steps int, used uint64) {
		if err := e.Reclaim(t.Context(), id, live, func(time.Duration) error { steps++; return nil }); err != nil {
			t.Fatal(err)
		}
		used, err := e.DiskUsage(id)
		if err != nil {
			t.Fatal(err)
		}
		return steps, used
	}
	if steps, used := reclaim(keys); steps != 0 || used < keys*size {
		t.Errorf("%d bytes after %d steps while nothing is deleted", used, steps)
	}
	u := e.Begin()
	for i := 0; i < keys; i += 2 {
		if err := u.Delete(id, key(i), size); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Commit(t.Context(), Buffered); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if steps, used := reclaim(keys / 2); steps == 0 || used > keys/2*size*11/10 {
		t.Errorf("%d bytes of %d after %d steps", used, keys*size, steps)
	}
}
