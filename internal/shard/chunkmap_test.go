package shard

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

func mustKey(pattern string) *Key {
	k, err := ParseKey(bson.MustParse(pattern))
	if err != nil {
		panic(err)
	}
	return k
}

func intBound(k *Key, i int) Bound {
	b, ok := k.ParseBound(new(bson.Builder).Int32("x", int32(i)).Finish())
	if !ok {
		panic("no bound")
	}
	return b
}

// evenChunks cuts {x: 1} at 10, 20, …, dealt to shards in turn.
func evenChunks(k *Key, n, shards int) []Chunk {
	chunks := make([]Chunk, n)
	at := k.Min()
	for i := range chunks {
		end := k.Max()
		if i < n-1 {
			end = intBound(k, (i+1)*10)
		}
		shard := fmt.Sprintf("s%d", i%shards)
		chunks[i] = Chunk{Range: Range{Min: at, Max: end}, Shard: shard, Version: testGeneration.At(1<<32 + uint64(i)), History: []Placement{{1, shard}}}
		binary.BigEndian.PutUint32(chunks[i].ID[:], uint32(i))
		at = end
	}
	return chunks
}

// TestMapAgainstNaive makes random splits, merges and moves, and compares the
// map after each with a plain list of the documents of config.chunks, also with
// one that gets several changes at a time, as a router does.
func TestMapAgainstNaive(t *testing.T) {
	k := mustKey(`{x: 1}`)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 5, 300, 1500}).Draw(t, "chunks")
		naive := evenChunks(k, n, 3)
		m, err := NewMap("d.c", k, testGeneration, naive)
		if err != nil {
			t.Fatal(err)
		}
		behind := m // what a router knows
		ids := uint32(n)
		newID := func() (id [12]byte) {
			ids++
			binary.BigEndian.PutUint32(id[:], ids)
			return id
		}
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			i := rapid.IntRange(0, len(naive)-1).Draw(t, "chunk")
			c := naive[i]
			var change Change
			switch rapid.SampledFrom([]string{"split", "merge", "move", "part"}).Draw(t, "operation") {
			case "split":
				change, _ = m.Split(c.Range, innerPoints(t, k, c), newID)
			case "merge":
				last := min(i+rapid.IntRange(1, 700).Draw(t, "more"), len(naive)-1)
				for j := i + 1; j <= last; j++ { // most neighbours differ: make them one shard's
					if naive[j].Shard != c.Shard {
						move, err := m.Move(naive[j].Range, c.Shard, 5, 0, newID)
						if err != nil {
							t.Fatal(err)
						}
						m, naive = step(t, m, naive, move)
					}
					if j > i+20 {
						last = j
					}
				}
				change, err = m.Merge(Range{Min: c.Min, Max: naive[last].Max})
			case "move":
				change, err = m.Move(c.Range, fmt.Sprintf("s%d", rapid.IntRange(0, 4).Draw(t, "to")), 7, 3, newID)
			case "part":
				p := innerPoints(t, k, c)
				if len(p) == 2 && p[0].Compare(p[1]) < 0 && p[0].Compare(c.Min) >= 0 && p[1].Compare(c.Max) <= 0 {
					change, err = m.Move(Range{Min: p[0], Max: p[1]}, "s5", 9, 8, newID)
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			m, naive = step(t, m, naive, change)
			if rapid.Bool().Draw(t, "refresh") {
				behind = refreshed(t, behind, naive)
				sameMap(t, behind, naive)
			}
		}
		sameMap(t, refreshed(t, behind, naive), naive)
	})
}

// innerPoints draws up to two places in or about a chunk.
func innerPoints(t *rapid.T, k *Key, c Chunk) []Bound {
	lo, hi := k.BoundValues(c.Min)[0], k.BoundValues(c.Max)[0]
	from, to := -50, 20000
	if lo.IsNumber() {
		from = int(lo.Int32())
	}
	if hi.IsNumber() {
		to = int(hi.Int32())
	}
	var out []Bound
	for _, at := range rapid.SliceOfN(rapid.IntRange(min(from, to), to), 1, 2).Draw(t, "points") {
		out = append(out, intBound(k, at))
	}
	return out
}

// step applies a change to both.
func step(t *rapid.T, m *Map, naive []Chunk, change Change) (*Map, []Chunk) {
	next, err := m.With(change.Put)
	if err != nil {
		t.Fatalf("%v\n%v", err, change)
	}
	naive = slices.DeleteFunc(slices.Clone(naive), func(c Chunk) bool {
		return slices.Contains(change.Removed, c.ID) || slices.ContainsFunc(change.Put, func(p Chunk) bool { return p.ID == c.ID })
	})
	naive = append(naive, change.Put...)
	slices.SortFunc(naive, func(a, b Chunk) int { return a.Min.Compare(b.Min) })
	sameMap(t, next, naive)
	return next, naive
}

// refreshed is a map after it heard of what has a version above its own.
func refreshed(t *rapid.T, m *Map, naive []Chunk) *Map {
	var news []Chunk
	for _, c := range naive {
		if c.Version.Lastmod() >= m.top {
			news = append(news, c)
		}
	}
	slices.SortStableFunc(news, func(a, b Chunk) int { return int(a.Version.Lastmod()) - int(b.Version.Lastmod()) })
	next, err := m.With(news)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// sameMap compares a map with a list, in all that a map tells.
func sameMap(t *rapid.T, m *Map, naive []Chunk) {
	t.Helper()
	i := 0
	for c := range m.Chunks() {
		w := naive[i]
		if c.ID != w.ID || !c.Range.Same(w.Range) || c.Shard != w.Shard || c.Version != w.Version || c.Jumbo != w.Jumbo || !reflect.DeepEqual(c.History, w.History) {
			t.Fatalf("chunk %d is %v, not %v", i, c, w)
		}
		if found := m.Find(c.Min.Key); found.ID != c.ID {
			t.Fatalf("the lower bound of %v is looked up in %v", c, found)
		}
		i++
	}
	if i != len(naive) || m.Len() != len(naive) {
		t.Fatalf("%d chunks, counted as %d, not %d", i, m.Len(), len(naive))
	}
	counts, tops := map[string]int{}, map[string]uint64{}
	top := uint64(0)
	for _, c := range naive {
		counts[c.Shard]++
		tops[c.Shard] = max(tops[c.Shard], c.Version.Lastmod())
		top = max(top, c.Version.Lastmod())
	}
	var owners []string
	for _, s := range []string{"s0", "s1", "s2", "s3", "s4", "s5"} {
		if counts[s] > 0 {
			owners = append(owners, s)
		}
		if m.ChunksOn(s) != counts[s] || m.ShardVersion(s).Lastmod() != tops[s] {
			t.Fatalf("%s: %d chunks at %v, not %d at %v", s, m.ChunksOn(s), m.ShardVersion(s), counts[s], testGeneration.At(tops[s]))
		}
	}
	if !slices.Equal(owners, m.Owners()) || m.Version().Lastmod() != top {
		t.Fatalf("owners %v at %v, not %v at %v", m.Owners(), m.Version(), owners, testGeneration.At(top))
	}
	sameOwned(t, m, naive)
}

// sameOwned checks that the ranges of each shard are its chunks, joined.
func sameOwned(t *rapid.T, m *Map, naive []Chunk) {
	for _, s := range m.Owners() {
		var want []Range
		for _, c := range naive {
			switch n := len(want); {
			case c.Shard != s:
			case n > 0 && want[n-1].Max.Compare(c.Min) == 0:
				want[n-1].Max = c.Max
			default:
				want = append(want, c.Range)
			}
		}
		got := slices.Collect(m.OwnedBy(s))
		if !slices.EqualFunc(got, want, Range.Same) {
			t.Fatalf("%s owns %v, not %v", s, got, want)
		}
	}
}

// TestSharedBlocks: a change leaves all blocks but those it touches as they are.
func TestSharedBlocks(t *testing.T) {
	k := mustKey(`{x: 1}`)
	m, err := NewMap("d.c", k, testGeneration, evenChunks(k, 10_000, 3))
	if err != nil {
		t.Fatal(err)
	}
	c := m.Find(intBound(k, 50_000).Key)
	change, err := m.Move(c.Range, "s0", 9, 0, func() [12]byte { return [12]byte{} })
	if err != nil {
		t.Fatal(err)
	}
	next, err := m.With(change.Put)
	if err != nil {
		t.Fatal(err)
	}
	differ := 0
	for i, b := range next.blocks {
		if b != m.blocks[i] {
			differ++
		}
	}
	if len(next.blocks) != len(m.blocks) || differ != 2 { // that of the chunk, and that of the donor's other one
		t.Errorf("%d of %d blocks differ", differ, len(next.blocks))
	}
}
