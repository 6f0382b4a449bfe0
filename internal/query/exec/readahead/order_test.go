package readahead

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestOrder puts records of a few letters in order, which often begin alike
// and often are alike but for what is behind their end.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, o := new(Batch), new(Order)
		for range 2 { // in the same memory
			g.Clear()
			var want [][]byte
			begin := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "begin")
			letter := rapid.SampledFrom([]byte{0, 1, 0xff})
			for range rapid.SampledFrom([]int{1, 2, 20, countedRows, 2 * countedRows}).Draw(t, "records") {
				record := append(slices.Clone(begin), rapid.SliceOfN(letter, 0, 11).Draw(t, "record")...)
				g.Add([]byte("key"), record, []byte{1}, 1)
				want = append(want, record)
			}
			if rising := slices.IsSortedFunc(want, bytes.Compare) && len(slices.CompactFunc(slices.Clone(want), bytes.Equal)) == len(want); g.Rising != rising {
				t.Fatalf("rising: %v", g.Rising)
			}
			o.Sort(g)
			slices.SortFunc(want, bytes.Compare)
			var memory []byte
			for i := range o.Len() {
				if entry, got := o.At(&memory, g, i); !bytes.Equal(got, want[i]) || !bytes.Equal(got, g.Record(entry)) {
					t.Fatalf("%x in place %d of %x", got, i, want)
				}
			}
		}
	})
}

// TestBatchMemory holds that rows have no more memory than the bounds on them
// say, but for the last one.
func TestBatchMemory(t *testing.T) {
	g, key := new(Batch), make([]byte, 4000)
	for len(g.entries) < MaxBytes {
		g.Add(key, key[:8], nil, 1)
	}
	if n := cap(g.entries); n > MaxBytes+2*len(key) {
		t.Errorf("%d bytes for entries", n)
	}
	g = new(Batch)
	for range MaxRows {
		g.Add(key[:1], key[:8], nil, 1)
	}
	if n := cap(g.rows); n > MaxRows {
		t.Errorf("room for %d rows", n)
	}
}
