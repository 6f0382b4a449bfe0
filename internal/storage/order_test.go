package storage

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestOrder makes sure that a unit of many writes leaves what the same writes
// leave one by one.
func TestOrder(t *testing.T) {
	type write struct {
		id    Ident
		key   []byte
		value []byte // nil: delete
		merge bool
		upTo  []byte // with which the range from key on is deleted
	}
	rapid.Check(t, func(t *rapid.T) {
		writes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) write {
			w := write{
				id:    Ident(rapid.IntRange(0xf5, 0xf8).Draw(t, "id")),
				key:   rapid.SliceOfN(rapid.ByteRange(0, 1), 0, 10).Draw(t, "key"),
				value: rapid.SliceOfN(rapid.Byte(), 1, 4).Draw(t, "value"),
				merge: rapid.Bool().Draw(t, "merge"),
			}
			if rapid.Bool().Draw(t, "delete") {
				w.value = nil
			}
			if rapid.IntRange(0, 9).Draw(t, "range") == 0 {
				w.upTo = append(bytes.Clone(w.key), rapid.SliceOfN(rapid.Byte(), 1, 3).Draw(t, "up to")...)
			}
			if w.merge {
				w.id += 10 // or-ed values and others have keyspaces of their own
			}
			return w
		}), 1, 40).Draw(t, "writes")
		apply := func(u *Unit, w write) {
			var err error
			switch {
			case w.upTo != nil:
				err = u.DeleteRange(w.id, w.key, w.upTo)
			case w.value == nil:
				err = u.Delete(w.id, w.key, -1)
			case w.merge:
				err = u.OrBits(w.id, w.key, w.value)
			default:
				err = u.Set(w.id, w.key, w.value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		commit := func(u *Unit) {
			if err := u.Commit(t.Context(), Buffered); err != nil {
				t.Fatal(err)
			}
		}
		one, many := openMemory(t), openMemory(t)
		defer one.Close()
		defer many.Close()
		all := many.Begin()
		for _, w := range writes {
			u := one.Begin()
			apply(u, w)
			commit(u)
			apply(all, w)
		}
		commit(all)
		for id := Ident(0xf5); id < 0xf8+20; id++ {
			if a, b := contents(t, one, id), contents(t, many, id); a != b {
				t.Fatalf("keyspace %d: %q one by one, %q together", id, a, b)
			}
		}
	})
}

func openMemory(t *rapid.T) *Engine {
	e, err := Open(Options{Dir: "data", FS: NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func contents(t *rapid.T, e *Engine, id Ident) string {
	it, err := e.NewIter(id, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	out := ""
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		out += string(it.Key()) + "=" + string(v) + ";"
	}
	return out
}
