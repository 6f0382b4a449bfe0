package shard

import (
	"bytes"
	"slices"
)

// A block holds up to maxBlock chunks; a larger one is split into blocks of about
// blockChunks.
const (
	blockChunks = 256
	maxBlock    = 2 * blockChunks
)

// block is a run of chunks. It is immutable, and shared by maps.
type block struct {
	first   Bound  // the start of its first chunk
	arena   []byte // the ends of its chunks: key and type bits, one after the other
	entries []entry
	owners  []uint32            // the numbers of the shards that own them, each once
	older   map[int][]Placement // the history after the first placement
}

// entry is one chunk of a block.
type entry struct {
	id      [12]byte
	owner   uint32 // the number of its shard; the highest bit: jumbo
	lastmod uint64
	since   uint64
	key     uint32 // the end, in the arena, of the key of its end
	bits    uint32 // the end of the type bits of its end
}

const jumboBit = 1 << 31

func (e *entry) shard() int  { return int(e.owner &^ jumboBit) }
func (e *entry) jumbo() bool { return e.owner&jumboBit != 0 }

// end returns the end of chunk i.
func (b *block) end(i int) Bound {
	e := &b.entries[i]
	from := b.offset(i)
	return Bound{Key: b.arena[from:e.key:e.key], TypeBits: b.arena[e.key:e.bits:e.bits]}
}

func (b *block) offset(i int) uint32 {
	if i == 0 {
		return 0
	}
	return b.entries[i-1].bits
}

// start returns the start of chunk i. (invariant cover)
func (b *block) start(i int) Bound {
	if i == 0 {
		return b.first
	}
	return b.end(i - 1)
}

func (b *block) rangeOf(i int) Range { return Range{Min: b.start(i), Max: b.end(i)} }

func (b *block) last() Bound { return b.end(len(b.entries) - 1) }

// find returns the first chunk that ends after key, or the last one.
func (b *block) find(key []byte) int {
	lo, hi := 0, len(b.entries)-1
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if bytes.Compare(b.arena[b.offset(mid):b.entries[mid].key], key) <= 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// piece is a chunk to be put into a block: one of an old block, or a new one.
type piece struct {
	block *block
	i     int
	chunk *Chunk
}

func (p piece) end() Bound {
	if p.chunk != nil {
		return p.chunk.Max
	}
	return p.block.end(p.i)
}

// pack makes blocks of chunks, the first of which begins at first. New shards
// get numbers.
func (m *Map) pack(first Bound, parts []piece) []*block {
	numbers := make(map[string]uint32, len(m.shards))
	for i, s := range m.shards {
		numbers[s] = uint32(i)
	}
	n := 1
	if len(parts) > maxBlock {
		n = (len(parts) + blockChunks - 1) / blockChunks
	}
	out := make([]*block, 0, n)
	for ; n > 0; n-- {
		size := (len(parts) + n - 1) / n
		b := m.packOne(first, parts[:size], numbers)
		out = append(out, b)
		first, parts = b.last(), parts[size:]
	}
	return out
}

func (m *Map) packOne(first Bound, parts []piece, numbers map[string]uint32) *block {
	size := 0
	for _, p := range parts {
		e := p.end()
		size += len(e.Key) + len(e.TypeBits)
	}
	b := &block{first: Bound{Key: slices.Clone(first.Key), TypeBits: slices.Clone(first.TypeBits)}, arena: make([]byte, 0, size), entries: make([]entry, len(parts))}
	for i, p := range parts {
		e := &b.entries[i]
		var older []Placement
		if p.chunk == nil {
			*e, older = p.block.entries[p.i], p.block.older[p.i]
		} else {
			*e, older = m.entryOf(p.chunk, numbers)
		}
		end := p.end()
		b.arena = append(b.arena, end.Key...)
		e.key = uint32(len(b.arena))
		b.arena = append(b.arena, end.TypeBits...)
		e.bits = uint32(len(b.arena))
		if len(older) > 0 {
			if b.older == nil {
				b.older = map[int][]Placement{}
			}
			b.older[i] = older
		}
		if s := uint32(e.shard()); !slices.Contains(b.owners, s) {
			b.owners = append(b.owners, s)
		}
	}
	return b
}

func (m *Map) entryOf(c *Chunk, numbers map[string]uint32) (entry, []Placement) {
	number, ok := numbers[c.Shard]
	if !ok {
		number = uint32(len(m.shards))
		numbers[c.Shard], m.shards = number, append(m.shards, c.Shard)
	}
	e := entry{id: c.ID, owner: number, lastmod: c.Version.Lastmod(), since: c.Since()}
	if c.Jumbo {
		e.owner |= jumboBit
	}
	if len(c.History) > 1 {
		return e, c.History[1:]
	}
	return e, nil
}
