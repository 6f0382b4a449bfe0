package exec

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestRecordOrder puts records of a few letters in order, which often begin alike
// and often are alike but for what is behind their end.
func TestRecordOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, o := new(entryBatch), new(recordOrder)
		for range 2 { // in the same memory
			g.clear()
			var want [][]byte
			begin := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "begin")
			letter := rapid.SampledFrom([]byte{0, 1, 0xff})
			for range rapid.SampledFrom([]int{1, 2, 20, countedRows, 2 * countedRows}).Draw(t, "records") {
				record := append(slices.Clone(begin), rapid.SliceOfN(letter, 0, 11).Draw(t, "record")...)
				g.add([]byte("key"), record, []byte{1}, 1)
				want = append(want, record)
			}
			if rising := slices.IsSortedFunc(want, bytes.Compare) && len(slices.CompactFunc(slices.Clone(want), bytes.Equal)) == len(want); g.rising != rising {
				t.Fatalf("rising: %v", g.rising)
			}
			o.sort(g)
			slices.SortFunc(want, bytes.Compare)
			var memory []byte
			for i, r := range o.rows {
				if got := o.record(&memory, g, r); !bytes.Equal(got, want[i]) || !bytes.Equal(got, g.record(int(r.row))) {
					t.Fatalf("%x in place %d of %x", got, i, want)
				}
			}
		}
	})
}

// TestGatheredMemory holds that rows have no more memory than the bounds on them
// say, but for the last one.
func TestGatheredMemory(t *testing.T) {
	g, key := new(entryBatch), make([]byte, 4000)
	for len(g.entries) < maxPrefetchBytes {
		g.add(key, key[:8], nil, 1)
	}
	if n := cap(g.entries); n > maxPrefetchBytes+2*len(key) {
		t.Errorf("%d bytes for entries", n)
	}
	g = new(entryBatch)
	for range maxPrefetchRows {
		g.add(key[:1], key[:8], nil, 1)
	}
	if n := cap(g.rows); n > maxPrefetchRows {
		t.Errorf("room for %d rows", n)
	}
}
