package storage

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestOrder makes sure that a unit of many writes, and many units that are applied
// together, leave what the same writes leave one by one.
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
		one, many, together := openMemory(t), openMemory(t), openMemory(t)
		defer one.Close()
		defer many.Close()
		defer together.Close()
		all := many.Begin()
		var units []*Unit
		for i, w := range writes {
			u := one.Begin()
			apply(u, w)
			commit(u)
			apply(all, w)
			u = together.Begin()
			defer u.Abort()
			apply(u, w)
			if err := u.Seal(); err != nil {
				t.Fatal(err)
			}
			u.Place(uint64(i + 1))
			units = append(units, u)
		}
		commit(all)
		if err := together.ApplyAll(units, uint64(len(units))); err != nil {
			t.Fatal(err)
		}
		for id := Ident(0xf5); id < 0xf8+20; id++ {
			a, b, c := contents(t, one, id), contents(t, many, id), contents(t, together, id)
			if a != b || a != c {
				t.Fatalf("keyspace %d: %q one by one, %q in one unit, %q together", id, a, b, c)
			}
		}
	})
}

// TestNewest makes sure that of the versions of one key that are applied together only the
// last is written, and none of what a set does not hide.
func TestNewest(t *testing.T) {
	db, err := pebble.Open("data", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, c := range []struct {
		writes string // a letter is a key; upper case sets it, lower case deletes it, + merges into a
		want   string
	}{
		{"AAAAAAAAAAAAAAAAAAAA", "A"},
		{"ABABABABAB", "AB"},
		{"aAaAaAaAaA", "A"},
		{"AAAAAAAAAa", "Aa"},
		{"AAAAAAAA++", "A++"},
		{"++++++++A+", "A+"},
		{"ABCDEFGHIJ", "ABCDEFGHIJ"},
		{"AAAAAAA", "AAAAAAA"}, // too few to be looked at
	} {
		b := db.NewBatch()
		for i, w := range c.writes {
			key := []byte{byte(w | 0x20)}
			switch {
			case w == '+':
				err = b.Merge([]byte("a"), []byte{byte(i)}, nil)
			case w >= 'a':
				err = b.Delete(key, nil)
			default:
				err = b.Set(key, []byte{byte(i)}, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := order(b, &ordering{}, true); err != nil {
			t.Fatal(err)
		}
		got, n := "", uint32(0)
		for r := b.Reader(); len(r) > 0; n++ {
			kind, key, value, _, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			switch kind {
			case pebble.InternalKeyKindMerge:
				got += "+"
			case pebble.InternalKeyKindDelete:
				got += string(key)
			default:
				got += string(key[0] &^ 0x20)
				if last := strings.LastIndexByte(c.writes, key[0]&^0x20); len(c.writes) >= minOrdered && int(value[0]) != last {
					t.Errorf("%s: key %s has write %d, not the last, %d", c.writes, key, value[0], last)
				}
			}
		}
		if got != c.want || n != b.Count() {
			t.Errorf("%s became %s, %d writes of %d; want %s", c.writes, got, n, b.Count(), c.want)
		}
		b.Close()
	}
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
