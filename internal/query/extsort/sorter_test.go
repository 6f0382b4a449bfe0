package extsort

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSorter compares a Sorter with a stable sort of a slice: with and without
// a limit, and with spills at random places.
func TestSorter(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.SampledFrom([]int64{0, 1, 3, 50, 1 << 62}).Draw(rt, "limit")
		keys := rapid.SliceOfN(rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 12), 0, 400).Draw(rt, "keys")
		common := rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(rt, "common")
		spillAt := rapid.IntRange(0, 600).Draw(rt, "spill every")
		s := New(limit, dir)
		defer s.Close()
		var want []Row
		for i, k := range keys {
			row := Row{Key: append(slices.Clone(common), k...), Record: []byte{byte(i)}, Doc: binary.BigEndian.AppendUint32(nil, uint32(i))}
			want = append(want, row)
			if err := s.Add(row.Key, row.Record, row.Doc); err != nil {
				rt.Fatal(err)
			}
			if spillAt > 0 && i%spillAt == spillAt-1 {
				s.cut(false)
				if err := s.spill(); err != nil {
					rt.Fatal(err)
				}
			}
		}
		slices.SortStableFunc(want, func(a, b Row) int { return bytes.Compare(a.Key, b.Key) })
		if limit > 0 && int64(len(want)) > limit {
			want = want[:limit]
		}
		if err := s.Sort(); err != nil {
			rt.Fatal(err)
		}
		passed := rapid.IntRange(0, len(want)).Draw(rt, "passed")
		for i, w := range want {
			if i < passed {
				if ok, err := s.Pass(); !ok || err != nil {
					rt.Fatal(ok, err)
				}
				continue
			}
			r, ok, err := s.Next()
			if err != nil || !ok || !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.Record, w.Record) || !bytes.Equal(r.Doc, w.Doc) {
				rt.Fatalf("row %d of %d: %v, %v, %v; want %v", i, len(want), r, ok, err, w)
			}
		}
		if !s.Done() {
			rt.Fatal("not done")
		}
		if _, ok, err := s.Next(); ok || err != nil {
			rt.Fatal("more rows than there are", err)
		}
	})
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
}

// TestSorterMemory fills the memory of one.
func TestSorterMemory(t *testing.T) {
	doc := make([]byte, 1<<20)
	fill := func(s *Sorter) (err error) {
		for i := 0; i < 120 && err == nil; i++ {
			err = s.Add([]byte{byte(120 - i)}, nil, doc)
		}
		return err
	}
	if err := fill(New(0, "")); !errors.Is(err, ErrMemory) {
		t.Errorf("without a directory: %v", err)
	}
	few := New(10, "")
	if err := fill(few); err != nil {
		t.Errorf("with a limit: %v", err)
	}
	if few.Stats.MaxBytes > MaxMemory+2<<20 {
		t.Errorf("with a limit it held %d bytes", few.Stats.MaxBytes)
	}
	// What counts is most of the memory, but fits.
	many := New(70, "")
	if err := errors.Join(fill(many), many.Sort()); err != nil {
		t.Errorf("with a limit of 70 MB: %v", err)
	}
	if held := many.rows.held(); many.Stats.MaxBytes > MaxMemory+2<<20 || held > MaxMemory {
		t.Errorf("with a limit of 70 MB it held %d bytes, %d of them in the end", many.Stats.MaxBytes, held)
	}
	for want := byte(1); want <= 70; want++ {
		if r, ok, err := many.Next(); !ok || err != nil || r.Key[0] != want || len(r.Doc) != len(doc) {
			t.Fatalf("row %d: %v, %v, %v", want, r.Key, ok, err)
		}
	}
	if err := fill(New(110, "")); !errors.Is(err, ErrMemory) {
		t.Errorf("with a limit of 110 MB and without a directory: %v", err)
	}
	all := New(0, t.TempDir())
	defer all.Close()
	if err := errors.Join(fill(all), all.Sort()); err != nil || all.Stats.Spills != 2 {
		t.Errorf("%v, %d spills", err, all.Stats.Spills)
	}
}

// TestSorterTight has a Sorter with a limit move its rows together again and
// again.
func TestSorterTight(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var r rows
		var want []Row
		for step := range rapid.IntRange(1, 5).Draw(rt, "steps") {
			for i := range rapid.IntRange(0, 40).Draw(rt, "rows") {
				size := rapid.SampledFrom([]int{0, 10, 3000, 300_000, 900_000}).Draw(rt, "size")
				row := Row{Key: []byte{rapid.Byte().Draw(rt, "key")}, Record: []byte{byte(step), byte(i)}, Doc: bytes.Repeat([]byte{byte(i)}, size)}
				r.add(row.Key, row.Record, row.Doc)
				want = append(want, row)
			}
			r.sort()
			slices.SortStableFunc(want, func(a, b Row) int { return bytes.Compare(a.Key, b.Key) })
			n := rapid.IntRange(0, len(want)).Draw(rt, "kept")
			want = want[:n]
			r.keep(n, true)
			for i, w := range want {
				if got := r.row(r.items[i]); !bytes.Equal(got.Key, w.Key) || !bytes.Equal(got.Record, w.Record) || !bytes.Equal(got.Doc, w.Doc) {
					rt.Fatalf("row %d of %d after step %d: %v", i, n, step, got.Record)
				}
			}
		}
	})
}

// held is the memory of the chunks, in bytes.
func (r *rows) held() int {
	n := 0
	for _, c := range r.chunks {
		n += cap(c)
	}
	return n
}

func BenchmarkSorter(b *testing.B) {
	doc := make([]byte, 300)
	b.ReportAllocs()
	for b.Loop() {
		s := New(0, "")
		for i := range uint32(100_000) {
			if err := s.Add(binary.BigEndian.AppendUint32([]byte{0x2b}, i*0x9e3779b1), nil, doc); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Sort(); err != nil {
			b.Fatal(err)
		}
	}
}
