package extsort

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// rows are rows in memory: their bytes one after the other in large chunks, as
// runs on disk have them, and for each a small item that sorting moves. Neither
// costs the garbage collector anything.
type rows struct {
	chunks [][]byte
	used   int // chunks that hold rows
	items  []item
	bytes  int
	// Keys have their first common bytes in common.
	common int
	first  []byte // key of the first row
}

// item is a row in a sort.
type item struct {
	prefix uint64 // the key's first bytes after those that all have in common
	at     uint64 // the chunk, and the place in it: in the order of arrival
}

const (
	// chunkBytes is the size of a chunk.
	chunkBytes = 1 << 20
	// firstChunk is the size of the first chunk: most sorts are small.
	firstChunk = 4 << 10
	// itemBytes is the size of an item.
	itemBytes = 16
)

func (r *rows) add(key, record, doc []byte) {
	if len(r.items) == 0 {
		r.first, r.common = append(r.first[:0], key...), len(key)
	} else {
		r.common = commonPrefix(r.first[:r.common], key)
	}
	r.put(key, record, doc)
}

func (r *rows) put(key, record, doc []byte) {
	n := 3*binary.MaxVarintLen32 + len(key) + len(record) + len(doc)
	if r.used == 0 || !fits(r.chunks[r.used-1], n) {
		r.nextChunk(n)
	}
	last := r.used - 1
	c := r.chunks[last]
	at := len(c)
	c = binary.AppendUvarint(c, uint64(len(key)))
	c = binary.AppendUvarint(c, uint64(len(record)))
	c = binary.AppendUvarint(c, uint64(len(doc)))
	c = append(append(append(c, key...), record...), doc...)
	r.chunks[last] = c
	r.items = append(r.items, item{at: uint64(last)<<32 | uint64(at)})
	r.bytes += len(c) - at + itemBytes
}

func fits(chunk []byte, n int) bool { return cap(chunk)-len(chunk) >= n }

// nextChunk begins a chunk with room for n bytes: one that was used before, or
// a new one, twice as large as the last.
func (r *rows) nextChunk(n int) {
	if r.used < len(r.chunks) && cap(r.chunks[r.used]) >= n {
		r.chunks[r.used] = r.chunks[r.used][:0]
		r.used++
		return
	}
	size := firstChunk
	if r.used > 0 {
		size = min(2*cap(r.chunks[r.used-1]), chunkBytes)
	}
	if n > chunkBytes/4 {
		size = n // or much of the chunk would stay empty
	}
	r.chunks = append(r.chunks[:r.used], make([]byte, 0, max(size, n)))
	r.used++
}

// encoded is the row as it lies in its chunk and on disk, with what follows.
func (r *rows) encoded(it item) []byte { return r.chunks[it.at>>32][uint32(it.at):] }

func (r *rows) row(it item) Row {
	row, _ := decodeRow(r.encoded(it))
	return row
}

// decodeRow takes a row apart and returns its length.
func decodeRow(b []byte) (Row, int) {
	key, n := binary.Uvarint(b)
	record, m := binary.Uvarint(b[n:])
	n += m
	doc, m := binary.Uvarint(b[n:])
	n += m
	ends := [3]int{n + int(key), n + int(key+record), n + int(key+record+doc)}
	return Row{b[n:ends[0]:ends[0]], b[ends[0]:ends[1]:ends[1]], b[ends[1]:ends[2]:ends[2]]}, ends[2]
}

func (r *rows) sort() {
	for i, it := range r.items {
		key := r.row(it).Key[r.common:]
		if len(key) >= 8 {
			r.items[i].prefix = binary.BigEndian.Uint64(key)
			continue
		}
		var full [8]byte
		copy(full[:], key)
		r.items[i].prefix = binary.BigEndian.Uint64(full[:])
	}
	slices.SortFunc(r.items, func(a, b item) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		if c := bytes.Compare(r.row(a).Key, r.row(b).Key); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
}

// keep keeps the first n rows of those sorted, and moves them together once the
// bytes of the others are most, or at once if tight is set.
func (r *rows) keep(n int, tight bool) {
	r.items = r.items[:n]
	used := 0
	for _, it := range r.items {
		_, size := decodeRow(r.encoded(it))
		used += size + itemBytes
	}
	if tight || used <= r.bytes/2 {
		r.moveTogether()
		r.bytes = used
	}
}

// moveTogether moves the rows to the front of the chunks. They keep the order
// of arrival, so none is moved onto one that was not moved yet: in that order
// the rows before any one took at least as much room before as they do now.
func (r *rows) moveTogether() {
	byArrival := make([]int32, len(r.items))
	for i := range byArrival {
		byArrival[i] = int32(i)
	}
	slices.SortFunc(byArrival, func(a, b int32) int { return cmp.Compare(r.items[a].at, r.items[b].at) })
	to, end := 0, 0
	for _, i := range byArrival {
		b := r.encoded(r.items[i])
		_, size := decodeRow(b)
		for cap(r.chunks[to])-end < size {
			r.chunks[to] = r.chunks[to][:end]
			to, end = to+1, 0
		}
		copy(r.chunks[to][:cap(r.chunks[to])][end:], b[:size])
		r.items[i].at = uint64(to)<<32 | uint64(end)
		end += size
	}
	if r.used = 0; len(r.items) > 0 {
		r.chunks[to], r.used = r.chunks[to][:end], to+1
	}
	clear(r.chunks[r.used:])
	r.chunks = r.chunks[:r.used]
}

// reset forgets the rows and keeps their memory for the next ones.
func (r *rows) reset() {
	r.used, r.items, r.bytes = 0, r.items[:0], 0
}

// trim releases memory without rows.
func (r *rows) trim() {
	clear(r.chunks[r.used:])
	r.chunks = r.chunks[:r.used]
	if len(r.items) == 0 {
		r.items = nil
	}
}

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
