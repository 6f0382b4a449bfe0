package readahead

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// Order is the order of the entries of a batch by their records.
type Order struct {
	rows   []place
	spare  []place
	common []byte // the common prefix of all records
}

// place is a sort key for rows: the bytes of their records after the common prefix, the
// first eight of them as a number.
type place struct {
	head uint64
	row  uint32
	tail uint8 // bytes after the common prefix; wholeTail if head does not have them all
}

const (
	headBytes = 8
	wholeTail = headBytes + 1
	// countedRows is the number of rows from which on they are sorted by a radix sort.
	countedRows = 512
)

// Sort puts the records of b, which has some, in order.
func (o *Order) Sort(b *Batch) {
	common := b.Record(0)
	for i := range b.rows {
		record := b.Record(i)
		n := 0
		for n < len(common) && n < len(record) && common[n] == record[n] {
			n++
		}
		common = common[:n]
	}
	o.common = common
	o.rows = slices.Grow(o.rows[:0], len(b.rows))
	differ := uint64(0)
	for i := range b.rows {
		var head [headBytes]byte
		rest := b.Record(i)[len(common):]
		copy(head[:], rest)
		h := binary.BigEndian.Uint64(head[:])
		o.rows = append(o.rows, place{head: h, row: uint32(i), tail: uint8(min(len(rest), wholeTail))})
		differ |= h ^ o.rows[0].head
	}
	if len(o.rows) < countedRows {
		slices.SortFunc(o.rows, func(x, y place) int { return o.compare(b, x, y) })
		return
	}
	for shift := 0; shift < 8*headBytes; shift += 8 {
		if byte(differ>>shift) != 0 {
			o.byByte(shift)
		}
	}
	o.untie(b)
}

func (o *Order) compare(b *Batch, x, y place) int {
	if c := cmp.Compare(x.head, y.head); c != 0 {
		return c
	}
	return bytes.Compare(b.Record(int(x.row)), b.Record(int(y.row)))
}

// byByte sorts rows by one byte of their heads, and is stable.
func (o *Order) byByte(shift int) {
	var at [256]uint32
	for i := range o.rows {
		at[byte(o.rows[i].head>>shift)]++
	}
	sum := uint32(0)
	for i, n := range at {
		at[i] = sum
		sum += n
	}
	o.spare = slices.Grow(o.spare[:0], len(o.rows))[:len(o.rows)]
	for _, r := range o.rows {
		b := byte(r.head >> shift)
		o.spare[at[b]] = r
		at[b]++
	}
	o.rows, o.spare = o.spare, o.rows
}

// untie sorts rows with equal heads by their records.
func (o *Order) untie(b *Batch) {
	for from, i := 0, 1; i <= len(o.rows); i++ {
		if i < len(o.rows) && o.rows[i].head == o.rows[from].head {
			continue
		}
		if i-from > 1 {
			slices.SortFunc(o.rows[from:i], func(x, y place) int { return o.compare(b, x, y) })
		}
		from = i
	}
}

// Len is how many entries are in order.
func (o *Order) Len() int { return len(o.rows) }

// At returns which entry of b is number i in the order, and its record. That is put
// together in memory from its head where that has it all, since entries lie far from
// each other in this order.
func (o *Order) At(memory *[]byte, b *Batch, i int) (entry int, record []byte) {
	r := o.rows[i]
	if r.tail == wholeTail {
		return int(r.row), b.Record(int(r.row))
	}
	*memory = binary.BigEndian.AppendUint64(append((*memory)[:0], o.common...), r.head)
	return int(r.row), (*memory)[:len(o.common)+int(r.tail)]
}
