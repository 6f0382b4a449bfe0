package storage

import (
	"bytes"
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestJoined: several iterators that were joined go where one over all their keys
// does, forward, backward and by seeks, and say of which one a key is.
func TestJoined(t *testing.T) {
	e, err := Open(Options{Dir: "db", FS: vfs.NewMem(), CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, next := context.Background(), FirstIdent
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "iterators")
		ids, all := make([]Ident, n), next
		for i := range ids {
			next++
			ids[i] = next
		}
		next++
		u := e.Begin()
		for range rapid.IntRange(0, 20).Draw(t, "keys") {
			k := rapid.SliceOfN(rapid.ByteRange(1, 3), 1, 3).Draw(t, "key")
			i := rapid.IntRange(0, n-1).Draw(t, "owner")
			if err := u.Set(ids[i], k, k); err != nil {
				t.Fatal(err)
			}
			// Where several have a key, they have it in their order.
			if err := u.Set(all, append(append(bytes.Clone(k), 0), byte(i)), k); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.Commit(ctx, Buffered); err != nil {
			t.Fatal(err)
		}
		s := e.NewSnapshot()
		defer s.Close()
		open := func(id Ident) *Iter {
			it, err := s.NewIter(id, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return it
		}
		parts := make([]*Iter, n)
		for i := range parts {
			parts[i] = open(ids[i])
		}
		got, want := Join(parts...), open(all)
		defer got.Close()
		defer want.Close()
		moves := []func(*Iter) bool{(*Iter).First, (*Iter).Last, (*Iter).Next, (*Iter).Prev, nil, nil}
		for range rapid.IntRange(1, 30).Draw(t, "moves") {
			i := rapid.IntRange(0, len(moves)-1).Draw(t, "move")
			if !want.Valid() && (i == 2 || i == 3) {
				continue
			}
			move := moves[i]
			if move == nil {
				k := rapid.SliceOfN(rapid.ByteRange(1, 3), 1, 3).Draw(t, "key")
				move = func(it *Iter) bool { return it.SeekGE(k) }
				if i == 5 {
					move = func(it *Iter) bool { return it.SeekLT(k) }
				}
			}
			a, b := move(got), move(want)
			if a != b || got.Valid() != b {
				t.Fatalf("move %d: %t, want %t", i, a, b)
			}
			if !b {
				continue
			}
			v, err := got.Value()
			if is := append(append(bytes.Clone(got.Key()), 0), byte(got.Part())); err != nil || !bytes.Equal(is, want.Key()) || !bytes.Equal(v, got.Key()) {
				t.Fatalf("move %d: %x (%v), want %x", i, is, err, want.Key())
			}
		}
	})
}
