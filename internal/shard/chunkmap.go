package shard

import (
	"bytes"
	"iter"
	"slices"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Map holds all chunks of a sharded collection at one version. It is immutable; With
// returns the next one.
type Map struct {
	Namespace string
	key       *Key
	gen       Generation
	blocks    []*block // in the order of keys; none is empty
	shards    []string // names by number; only grows along a line of maps
	owned     []owned  // by number
	owners    []string // the shards that own chunks, in order of name
	top       uint64   // the highest lastmod of all
	n         int
}

// owned is what a map records about one shard.
type owned struct {
	chunks int
	top    uint64 // the highest lastmod of its chunks
}

// NewMap makes a map of all chunks of a collection. Error 117 if they do not cover the
// key space without overlap: they changed while they were read, or are damaged.
func NewMap(ns string, key *Key, gen Generation, chunks []Chunk) (*Map, error) {
	byMin := func(a, b Chunk) int { return a.Min.Compare(b.Min) }
	if !slices.IsSortedFunc(chunks, byMin) {
		chunks = slices.Clone(chunks)
		slices.SortFunc(chunks, byMin)
	}
	b := NewBuilder(ns, key, gen)
	for i := range chunks {
		if err := b.Add(chunks[i]); err != nil {
			return nil, err
		}
	}
	return b.Map()
}

// Builder makes a Map of chunks that come in the order of their keys. It keeps them as the map
// does, but for the last few.
type Builder struct {
	m   *Map
	at  Bound   // where the next chunk begins
	run []Chunk // blockChunks at most, which are in no block yet
}

// NewBuilder returns the builder of the map of a collection.
func NewBuilder(ns string, key *Key, gen Generation) *Builder {
	return &Builder{m: &Map{Namespace: ns, key: key, gen: gen}, at: key.Min()}
}

// Add adds the chunk that follows. Error 117 as NewMap. (invariant cover)
func (b *Builder) Add(c Chunk) error {
	m := b.m
	if c.Shard == "" || c.Min.Compare(c.Max) >= 0 {
		return m.broken("chunk %s is empty or has no shard", m.key.RangeText(c.Range))
	}
	switch d := c.Min.Compare(b.at); {
	case d < 0:
		return m.broken("chunk %s overlaps the one that ends at %s", m.key.RangeText(c.Range), m.key.Doc(b.at))
	case d > 0:
		return m.broken("no chunk for %s", m.key.RangeText(Range{Min: b.at, Max: c.Min}))
	}
	if len(b.run) == blockChunks {
		b.pack()
	}
	b.run, b.at = append(b.run, c), c.Max
	return nil
}

// pack makes a block of the last chunks.
func (b *Builder) pack() {
	parts := make([]piece, len(b.run))
	for i := range b.run {
		parts[i].chunk = &b.run[i]
	}
	b.m.blocks = append(b.m.blocks, b.m.pack(b.run[0].Min, parts)...)
	clear(b.run)
	b.run = b.run[:0]
}

// Map returns the map of all chunks that were added. The builder ends with it. Error 117 as
// NewMap.
func (b *Builder) Map() (*Map, error) {
	if end := b.m.key.Max(); b.at.Compare(end) != 0 {
		return nil, b.m.broken("the chunks end at %s, not at %s", b.m.key.Doc(b.at), b.m.key.Doc(end))
	}
	b.pack()
	b.m.updateOwned(nil, b.m.blocks)
	return b.m, nil
}

func (m *Map) broken(format string, args ...any) error {
	err := mongoerr.New(mongoerr.ConflictingOperationInProgress, format, args...)
	return mongoerr.Prefix(err, "the chunks of "+m.Namespace+" do not cover its key space")
}

// With returns the map after changes: chunks with new bounds, shards or
// versions, which together fill exactly the range of the chunks that they
// replace. Chunks at or below the map's version are skipped,
// so lists of changes may overlap. Error 117 as
// NewMap.
func (m *Map) With(changes []Chunk) (*Map, error) {
	changes = slices.DeleteFunc(slices.Clone(changes), func(c Chunk) bool { return c.Version.Lastmod() <= m.top })
	if len(changes) == 0 {
		return m, nil
	}
	for i := range changes {
		if changes[i].Version.ShardGeneration != m.gen {
			return nil, m.broken("chunk %s belongs to another incarnation of the collection", m.key.RangeText(changes[i].Range))
		}
	}
	slices.SortFunc(changes, func(a, b Chunk) int { return a.Min.Compare(b.Min) })
	next := *m
	next.shards, next.owned = slices.Clip(m.shards), slices.Clone(m.owned)
	next.blocks = make([]*block, 0, len(m.blocks)+len(changes)/blockChunks+1)
	var gone, made []*block
	from := 0 // the first block that is not processed yet
	for len(changes) > 0 {
		first := m.blockOf(changes[0].Min.Key)
		if first < from {
			return nil, m.broken("chunk %s overlaps another change", m.key.RangeText(changes[0].Range))
		}
		// The blocks that one run of changes touches, and the run.
		last, n := first, 0
		for n < len(changes) && (n == 0 || m.blockOf(changes[n].Min.Key) <= last) {
			last = max(last, m.blockBefore(changes[n].Max.Key))
			n++
		}
		replaced, err := next.replace(m.blocks[first:last+1], changes[:n])
		if err != nil {
			return nil, err
		}
		next.blocks = append(append(next.blocks, m.blocks[from:first]...), replaced...)
		gone, made = append(gone, m.blocks[first:last+1]...), append(made, replaced...)
		from, changes = last+1, changes[n:]
	}
	next.blocks = append(next.blocks, m.blocks[from:]...)
	next.updateOwned(gone, made)
	return &next, nil
}

// replace makes blocks of old ones with changes, in order, inserted.
func (m *Map) replace(old []*block, changes []Chunk) ([]*block, error) {
	var parts []piece
	at, end := old[0].first, old[len(old)-1].last()
	b, i := 0, 0
	for at.Compare(end) < 0 {
		if len(changes) > 0 && changes[0].Min.Compare(at) == 0 {
			c := &changes[0]
			if c.Shard == "" || c.Min.Compare(c.Max) >= 0 {
				return nil, m.broken("chunk %s is empty or has no shard", m.key.RangeText(c.Range))
			}
			parts = append(parts, piece{chunk: c})
			at, changes = c.Max, changes[1:]
			continue
		}
		for old[b].end(i).Compare(at) <= 0 {
			if i++; i == len(old[b].entries) {
				b, i = b+1, 0
			}
		}
		r := old[b].rangeOf(i)
		if r.Min.Compare(at) != 0 || len(changes) > 0 && changes[0].Min.Compare(r.Max) < 0 {
			return nil, m.broken("only a part of chunk %s has changed", m.key.RangeText(r))
		}
		parts = append(parts, piece{block: old[b], i: i})
		at = r.Max
	}
	if len(changes) > 0 {
		return nil, m.broken("chunk %s overlaps another change", m.key.RangeText(changes[0].Range))
	}
	return m.pack(old[0].first, parts), nil
}

// updateOwned updates the counts for blocks that were removed from the map and added to
// it.
func (m *Map) updateOwned(gone, made []*block) {
	was, is := make([]owned, len(m.shards)), make([]owned, len(m.shards))
	tally(was, gone)
	tally(is, made)
	m.owned = append(m.owned, make([]owned, len(m.shards)-len(m.owned))...)
	changed := false
	for s := range m.owned {
		o := &m.owned[s]
		had := o.chunks > 0
		o.chunks += is[s].chunks - was[s].chunks
		m.n += is[s].chunks - was[s].chunks
		switch {
		case o.chunks == 0:
			o.top = 0
		case is[s].top >= o.top:
			o.top = is[s].top
		case was[s].top == o.top: // its highest chunk was removed, and none higher was added
			all := make([]owned, len(m.shards))
			tally(all, m.blocks)
			o.top = all[s].top
		}
		m.top = max(m.top, is[s].top)
		changed = changed || had != (o.chunks > 0)
	}
	if !changed {
		return
	}
	m.owners = nil
	for s := range m.owned {
		if m.owned[s].chunks > 0 {
			m.owners = append(m.owners, m.shards[s])
		}
	}
	slices.Sort(m.owners)
}

func tally(o []owned, blocks []*block) {
	for _, b := range blocks {
		for i := range b.entries {
			e := &b.entries[i]
			o[e.shard()].chunks++
			o[e.shard()].top = max(o[e.shard()].top, e.lastmod)
		}
	}
}

// Key returns the shard key.
func (m *Map) Key() *Key { return m.key }

// Len returns the number of chunks.
func (m *Map) Len() int { return m.n }

// Version returns the collection's version: the highest of all chunks.
func (m *Map) Version() Version { return m.gen.At(m.top) }

// ShardVersion returns the highest version of the chunks of a shard; one that
// owns none is at 0|0.
func (m *Map) ShardVersion(shard string) Version { return m.gen.At(m.of(shard).top) }

// ChunksOn returns the number of chunks that a shard owns.
func (m *Map) ChunksOn(shard string) int { return m.of(shard).chunks }

func (m *Map) of(shard string) owned {
	if i := slices.Index(m.shards, shard); i >= 0 {
		return m.owned[i]
	}
	return owned{}
}

// Owners returns the shards that own chunks, in the order of their names. The
// caller must not change the result.
func (m *Map) Owners() []string { return m.owners }

// blockOf returns the number of the block that contains key.
func (m *Map) blockOf(key []byte) int {
	lo, hi := 1, len(m.blocks)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if bytes.Compare(m.blocks[mid].first.Key, key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// blockBefore returns the number of the block that contains the keys just
// before end.
func (m *Map) blockBefore(end []byte) int {
	i := m.blockOf(end)
	if i > 0 && bytes.Equal(m.blocks[i].first.Key, end) {
		i--
	}
	return i
}

// find returns the chunk that contains key.
func (m *Map) find(key []byte) (*block, int) {
	b := m.blocks[m.blockOf(key)]
	return b, b.find(key)
}

// number returns the number of the shard that owns key.
func (m *Map) number(key []byte) int {
	b, i := m.find(key)
	return b.entries[i].shard()
}

// ShardOf returns the shard that owns key, which Key.Append has made.
func (m *Map) ShardOf(key []byte) string { return m.shards[m.number(key)] }

// Find returns the chunk that contains key.
func (m *Map) Find(key []byte) Chunk {
	b, i := m.find(key)
	return m.chunk(b, i)
}

func (m *Map) chunk(b *block, i int) Chunk {
	e := &b.entries[i]
	c := Chunk{ID: e.id, Range: b.rangeOf(i), Shard: m.shards[e.shard()], Version: m.gen.At(e.lastmod), Jumbo: e.jumbo()}
	if e.since > 0 {
		c.History = append([]Placement{{e.since, c.Shard}}, b.older[i]...)
	}
	return c
}

// Chunks iterates over all chunks in the order of their keys.
func (m *Map) Chunks() iter.Seq[Chunk] { return m.Overlapping(m.key.Whole()) }

// Overlapping iterates over the chunks that have keys in common with r.
func (m *Map) Overlapping(r Range) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		n := m.blockOf(r.Min.Key)
		for i := m.blocks[n].find(r.Min.Key); n < len(m.blocks); n, i = n+1, 0 {
			for b := m.blocks[n]; i < len(b.entries); i++ {
				if bytes.Compare(b.start(i).Key, r.Max.Key) >= 0 || !yield(m.chunk(b, i)) {
					return
				}
			}
		}
	}
}

// OwnedBy iterates over the ranges of a shard, adjacent ones joined.
func (m *Map) OwnedBy(shard string) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		n := slices.Index(m.shards, shard)
		var r Range
		open := false
		for _, b := range m.blocks {
			if !open && !slices.Contains(b.owners, uint32(n)) {
				continue
			}
			for i := range b.entries {
				switch mine := b.entries[i].shard() == n; {
				case mine && !open:
					r, open = b.rangeOf(i), true
				case mine:
					r.Max = b.end(i)
				case open:
					open = false
					if !yield(r) {
						return
					}
				}
			}
		}
		if open {
			yield(r)
		}
	}
}

// chunksOn iterates over the chunks of a shard in the order of their keys.
func (m *Map) chunksOn(shard string) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		n := slices.Index(m.shards, shard)
		for _, b := range m.blocks {
			if !slices.Contains(b.owners, uint32(n)) {
				continue
			}
			for i := range b.entries {
				if b.entries[i].shard() == n && !yield(m.chunk(b, i)) {
					return
				}
			}
		}
	}
}

// anyOn iterates over the chunks of a shard, beginning somewhere in the map, which another
// version of it changes. So whoever takes the first chunk again and again does not look through
// all of those that a shard has given away before. A map of one block has one beginning.
func (m *Map) anyOn(shard string) iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		n := slices.Index(m.shards, shard)
		if n < 0 {
			return
		}
		at := int((m.top*0x9e3779b97f4a7c15 + uint64(n)*0xc2b2ae3d27d4eb4f) >> 33 % uint64(len(m.blocks)))
		for k := range m.blocks {
			b := m.blocks[(at+k)%len(m.blocks)]
			if !slices.Contains(b.owners, uint32(n)) {
				continue
			}
			for i := range b.entries {
				if b.entries[i].shard() == n && !yield(m.chunk(b, i)) {
					return
				}
			}
		}
	}
}

// RangesOf yields what a shard owns, in order; chunks that touch are one range.
func (m *Map) RangesOf(shard string) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		var r Range
		open := false
		for c := range m.Chunks() {
			switch {
			case c.Shard != shard:
				if open && !yield(r) {
					return
				}
				open = false
			case open:
				r.Max = c.Max
			default:
				r, open = c.Range, true
			}
		}
		if open {
			yield(r)
		}
	}
}
