package pending

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mayflydb/mayfly/internal/memory"
)

// one is a write of one document.
func one(key string, doc []byte) *Write {
	w := new(Write)
	w.Put([]byte(key), []byte("record"), doc)
	return w
}

// TestNewest holds that a document is what the newest write makes of it, for its own
// evaluation alone, and that what was refused is not read any more.
func TestNewest(t *testing.T) {
	var table Table
	e1, e2 := Evaluation{Term: 1}, Evaluation{Term: 1, Epoch: 1}
	read := func(at Evaluation) string {
		v, ok := table.Read([]byte("k"), at)
		if !ok {
			return "none"
		}
		return string(v.Doc)
	}
	a, b := one("k", []byte("a")), one("k", []byte("b"))
	table.Add(a, e1)
	table.Add(b, e1)
	if got := read(e1) + read(e2); got != "bnone" {
		t.Errorf("after two writes: %s", got)
	}
	table.Resolve(b, errors.New("dropped"))
	if got := read(e1) + read(e2); got != "nonenone" { // of a only that it is there
		t.Errorf("after the second one was refused: %s", got)
	}
	if err := b.Wait(t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("b ends with %v", err)
	}
	if table.Newest([]byte("k")) != a {
		t.Error("a is not the newest")
	}
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("killed"))
	if err := a.Wait(over); err == nil || err.Error() != "killed" {
		t.Errorf("a wait ends with %v", err)
	}
	c := one("k", []byte("c"))
	table.Add(c, e2)
	table.Resolve(a, nil)
	if got := read(e1) + read(e2); got != "nonec" {
		t.Errorf("after the first one was applied: %s", got)
	}
	table.Resolve(c, nil)
	table.Resolve(c, errors.New("again"))
	if err := c.Wait(t.Context()); err != nil {
		t.Errorf("c ends with %v", err)
	}
	if s := table.Stats(); s != (Stats{Writes: 3, Read: 2, Refused: 1}) {
		t.Errorf("%+v", s)
	}
}

// TestBounds holds that a write has few documents, and a table so many bytes.
func TestBounds(t *testing.T) {
	var table Table
	w := new(Write)
	for i := range MaxDocuments {
		if !w.Put([]byte{byte(i)}, nil, []byte("doc")) {
			t.Fatalf("the document %d is too many", i)
		}
	}
	if w.Put([]byte("more"), nil, []byte("doc")) {
		t.Error("one more is not too many")
	}
	if !w.Put([]byte{0}, nil, []byte("again")) {
		t.Error("one that it has is too many")
	}
	large := one("large", make([]byte, maxBytes))
	if !table.Add(large, Evaluation{}) || table.Add(w, Evaluation{}) {
		t.Error("the bound of bytes does not hold")
	}
	if s := table.Stats(); s.Kept != 1 || s.Bytes != maxBytes || s.Documents != 1 {
		t.Errorf("%+v", s)
	}
	table.Resolve(large, nil)
	if !table.Add(w, Evaluation{}) {
		t.Error("there is no room when all are applied")
	}
}

// TestTableIsEmptyInTheEnd resolves writes of several documents in any order: each
// document is what its newest write is that is left, and nothing stays.
func TestTableIsEmptyInTheEnd(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var table Table
		var left []*Write
		newest := func(key string) *Write {
			for i := len(left) - 1; i >= 0; i-- {
				for _, v := range left[i].versions {
					if v.Key == key {
						return left[i]
					}
				}
			}
			return nil
		}
		for n := range 60 {
			if rng.IntN(2) == 0 && n < 40 {
				w := new(Write)
				for range 1 + rng.IntN(3) {
					w.Put([]byte{byte('a' + rng.IntN(4))}, nil, fmt.Append(nil, n))
				}
				table.Add(w, Evaluation{})
				left = append(left, w)
			} else if len(left) > 0 {
				i := rng.IntN(len(left))
				w := left[i]
				left = append(left[:i:i], left[i+1:]...)
				table.Resolve(w, nil)
			}
			for k := range 4 {
				key := string(rune('a' + k))
				if got, want := table.Newest([]byte(key)), newest(key); got != want {
					t.Fatalf("seed %d: the newest of %s is %p, not %p", seed, key, got, want)
				}
			}
		}
		for _, w := range left {
			table.Resolve(w, nil)
		}
		if s := table.Stats(); s.Documents != 0 || s.Bytes != 0 {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// TestTableInBudget holds that what is pending is memory of operations: where none is
// left a write keeps its locks, and what is resolved is given back.
func TestTableInBudget(t *testing.T) {
	b := memory.NewBudget(memory.MinBudget)
	held := func() int64 { return b.Stats().Operations.Held }
	table := NewTable(b)
	const size = 1 << 20
	var added []*Write
	add := func() bool {
		w := one(fmt.Sprint(len(added)), make([]byte, size))
		if !table.Add(w, Evaluation{Term: 1}) {
			return false
		}
		added = append(added, w)
		return true
	}
	for add() {
	}
	if n := b.Standing(maxBytes); int64(len(added)) != n/size {
		t.Errorf("%d MB are pending of %d", len(added), n/size)
	}
	if n := held(); n < int64(len(added))*size {
		t.Errorf("operations hold %d bytes", n)
	}
	resolve := func() {
		for _, w := range added {
			table.Resolve(w, nil)
		}
		added = nil
		if n := held(); n > 2*size {
			t.Errorf("operations hold %d bytes when nothing is pending", n)
		}
	}
	resolve()

	var others memory.Account
	others.Open(b)
	h := others.Hold(nil)
	for n := 0; h.Set(n+size) == nil; n += size {
	}
	for add() {
	}
	if len(added) > 3 {
		t.Errorf("%d MB are pending where others hold all memory", len(added))
	}
	if kept := table.Stats().Kept; kept != 2 {
		t.Errorf("%d writes did not fit", kept)
	}
	others.Close()
	if !add() {
		t.Error("it does not fit when there is memory again")
	}
	resolve()
}
