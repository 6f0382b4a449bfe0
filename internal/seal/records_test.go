package seal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// written is a file of records, and the plain bytes of each.
func written(t *testing.T, rng *rand.Rand, n int) (m *memory, records [][]byte) {
	t.Helper()
	m = newMemory()
	r, err := NewRecords(m, 10, testKey())
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		p := randomBytes(rng, 1+rng.IntN([]int{20, 3000, 40_000}[rng.IntN(3)]))
		if rng.IntN(3) == 0 { // an attempt with other bytes fails first
			m.room = rng.IntN(len(p) + recordStart)
			if k, err := r.Write(randomBytes(rng, len(p)+rng.IntN(50))); k != 0 || !errors.Is(err, errFull) {
				t.Fatal(k, err)
			}
			m.room = -1
		}
		if k, err := r.Write(p); k != len(p) || err != nil {
			t.Fatal(k, err)
		}
		records = append(records, p)
	}
	return m, records
}

func TestRecords(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		m, records := written(t, rng, 40)
		want := bytes.Join(records, nil)
		// What a longer attempt has left behind the end does not count.
		r, err := OpenRecords(m, 10, int64(len(m.b)), testKey())
		if err != nil || r.Size() < int64(len(want)) {
			t.Fatalf("%d bytes of %d: %v", r.Size(), len(want), err)
		}
		got := make([]byte, len(want))
		if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Fatal(err)
		}
		for range 20 {
			at := rng.IntN(len(want))
			p := make([]byte, rng.IntN(len(want)-at))
			if _, err := r.ReadAt(p, int64(at)); err != nil || !bytes.Equal(p, want[at:at+len(p)]) {
				t.Fatal(at, len(p), err)
			}
		}
		big := bytes.Repeat([]byte{1}, 2*maxRecord+5)
		w, _ := NewRecords(newMemory(), 0, testKey())
		if n, err := w.Write(big); n != len(big) || err != nil {
			t.Fatal(n, err)
		}
	}
}

// TestRecordsDamage cuts a file, and changes a bit: whole records before that are as they were,
// and no other bytes are made up but zeros.
func TestRecordsDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 0))
	m, records := written(t, rng, 30)
	want := bytes.Join(records, nil)
	for range 300 {
		c := m.clone()
		at := 10 + rng.IntN(len(c.b)-10)
		cut := rng.IntN(2) == 0
		if cut {
			c.b = c.b[:at]
		} else {
			c.b[at] ^= 1 << rng.IntN(8)
		}
		r, err := OpenRecords(c, 10, int64(len(c.b)), testKey())
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, r.Size())
		if _, err := r.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		begin, end := 0, 10
		for _, p := range records {
			n := end + recordStart + len(p) + tagBytes
			if n > at {
				break
			}
			begin, end = begin+len(p), n
		}
		if len(got) < begin || !bytes.Equal(got[:begin], want[:begin]) {
			t.Fatalf("what stands before offset %d has changed", at)
		}
		for i := begin; i < len(got); i++ {
			if got[i] != 0 && (i >= len(want) || got[i] != want[i]) {
				t.Fatalf("byte %d is made up", i)
			}
		}
		if cut && len(got) != begin {
			t.Fatalf("%d bytes of a file that was cut behind %d", len(got), begin)
		}
	}
}

// TestRecordsMoved swaps two records of one length, and takes one away.
func TestRecordsMoved(t *testing.T) {
	m := newMemory()
	r, _ := NewRecords(m, 0, testKey())
	for i := range 4 {
		if _, err := r.Write(bytes.Repeat([]byte{byte(i + 1)}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	const each = recordStart + 100 + tagBytes
	for what, b := range map[string][]byte{
		"swapped": bytes.Join([][]byte{m.b[each : 2*each], m.b[:each], m.b[2*each:]}, nil),
		"missing": m.b[each:],
		"twice":   append(bytes.Clone(m.b[:each]), m.b[:each]...),
	} {
		c := newMemory()
		c.b = b
		r, err := OpenRecords(c, 0, int64(len(b)), testKey())
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 200)
		if _, err := r.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if got[100] != 0 || what != "twice" && got[0] != 0 {
			t.Errorf("%s: a record opens in another place", what)
		}
	}
}
