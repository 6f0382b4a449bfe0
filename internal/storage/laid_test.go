package storage

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// laidKey draws a key of few.
func laidKey(t *rapid.T) []byte {
	return rapid.SliceOfN(rapid.ByteRange(1, 3), 1, 3).Draw(t, "key")
}

// writeSomething makes a write by each unit, the same one.
func writeSomething(t *rapid.T, id Ident, units ...*Unit) {
	k, v, sum := laidKey(t), laidKey(t), int64(rapid.IntRange(-3, 3).Draw(t, "sum"))
	what := rapid.IntRange(0, 4).Draw(t, "write")
	to := laidKey(t)
	for _, u := range units {
		var err error
		switch what {
		case 0:
			err = u.Set(id, k, v)
		case 1:
			err = u.Delete(id, k, -1)
		case 2:
			if bytes.Compare(k, to) < 0 {
				err = u.DeleteRange(id, k, to)
			}
		case 3:
			err = u.OrBits(id+1, k, v)
		case 4:
			err = u.AddSums(id+2, k, []int64{sum, 1})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sameState checks that two readers have the same, by every way of reading.
func sameState(t *rapid.T, id Ident, got, want Reader) {
	for _, id := range []Ident{id, id + 1, id + 2} {
		open := func(r Reader) *Iter {
			it, err := r.NewIter(id, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return it
		}
		a, b := open(got), open(want)
		a.First()
		b.First()
		for range rapid.IntRange(1, 12).Draw(t, "moves") {
			k := laidKey(t)
			moves := []func(*Iter) bool{
				(*Iter).First, (*Iter).Last, (*Iter).Next, (*Iter).Prev,
				func(it *Iter) bool { return it.SeekGE(k) }, func(it *Iter) bool { return it.SeekLT(k) },
				func(it *Iter) bool { it.SetBounds(k, nil); return it.First() },
				func(it *Iter) bool { it.SetBounds(nil, k); return it.Last() },
			}
			n := rapid.IntRange(0, len(moves)-1).Draw(t, "move")
			if !b.Valid() && n > 1 && n < 4 {
				continue // where it goes from is not said
			}
			if ga, gb := moves[n](a), moves[n](b); ga != gb || a.Valid() != b.Valid() {
				t.Fatalf("move %d: %v, want %v", n, ga, gb)
			}
			if !b.Valid() {
				continue
			}
			va, err := a.Value()
			vb, err2 := b.Value()
			if err := errors.Join(err, err2); err != nil || !bytes.Equal(a.Key(), b.Key()) || !bytes.Equal(va, vb) {
				t.Fatalf("%x=%x, want %x=%x, %v", a.Key(), va, b.Key(), vb, err)
			}
			v, closer, err := got.Get(id, b.Key())
			if err != nil || !bytes.Equal(v, vb) {
				t.Fatalf("Get %x is %x, %v", b.Key(), v, err)
			}
			closer.Close()
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
		k := laidKey(t)
		_, ca, errA := got.Get(id, k)
		_, cb, errB := want.Get(id, k)
		if errors.Is(errA, ErrNotFound) != errors.Is(errB, ErrNotFound) {
			t.Fatalf("Get %x: %v, want %v", k, errA, errB)
		}
		for _, c := range []interface{ Close() error }{ca, cb} {
			if c != nil {
				c.Close()
			}
		}
	}
}

// TestLaid: an earlier state with the batches of later units laid over it is the later state, by
// every way of reading; and a unit that is fixed in an earlier state reads it with its own
// writes, as one of the newest state does.
func TestLaid(t *testing.T) {
	e := openMem(t, NewMemFS())
	defer e.Close()
	id := FirstIdent
	rapid.Check(t, func(t *rapid.T) {
		id += 3
		commit := func() []byte {
			u := e.Begin()
			for range rapid.IntRange(0, 6).Draw(t, "writes") {
				writeSomething(t, id, u)
			}
			if err := u.Seal(); err != nil {
				t.Fatal(err)
			}
			batch, _, err := SkipUnit(u.AppendEncoded(nil))
			if err := errors.Join(err, u.Commit(context.Background(), Buffered)); err != nil {
				t.Fatal(err)
			}
			return batch
		}
		commit()
		before := e.NewSnapshot()
		defer before.Close()
		laid := e.LayOver(before)
		for i := range rapid.IntRange(0, 3).Draw(t, "units") {
			if err := laid.Lay(commit(), uint64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		after := e.NewSnapshot()
		defer after.Close()
		shared := laid.Share()
		laid.Close()
		defer shared.Close()
		sameState(t, id, shared, after)
		early, late := e.Begin(), e.Begin()
		defer early.Abort()
		defer late.Abort()
		if err := errors.Join(early.Fix(), late.Fix(), early.FixIn(shared, 0)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			writeSomething(t, id, early, late)
			sameState(t, id, early.View(), late.View())
		}
	})
}
