package storage

import (
	"encoding/binary"
	"testing"
)

// TestReclaimable holds that little counts as space to give back where nothing
// is deleted, and where all that was is compacted.
func TestReclaimable(t *testing.T) {
	e, err := Open(Options{Dir: "db", FS: NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id, err := e.NewIdent()
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
	if err := e.Compact(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if n, used := reclaimable(keys / 2); n > used/10 {
		t.Errorf("%d of %d bytes after a compaction", n, used)
	}
}
