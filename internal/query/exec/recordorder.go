package exec

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// recordOrder is the order of the rows of a batch by their records.
type recordOrder struct {
	rows   []fetchOrder
	spare  []fetchOrder
	common []byte // what all records begin with
}

// fetchOrder orders rows by what is in their records behind what all have in
// common: by its first eight bytes, and then by all.
type fetchOrder struct {
	head uint64
	row  uint32
	tail uint8 // bytes behind what is common; wholeTail where head does not have them all
}

const (
	headBytes = 8
	wholeTail = headBytes + 1
	// countedRows is from how many rows on they are put in order by counting bytes.
	countedRows = 512
)

// sort puts the records of g, which has some, in order.
func (o *recordOrder) sort(g *entryBatch) {
	common := g.record(0)
	for i := range g.rows {
		record := g.record(i)
		n := 0
		for n < len(common) && n < len(record) && common[n] == record[n] {
			n++
		}
		common = common[:n]
	}
	o.common = common
	o.rows = slices.Grow(o.rows[:0], len(g.rows))
	differ := uint64(0)
	for i := range g.rows {
		var head [headBytes]byte
		rest := g.record(i)[len(common):]
		copy(head[:], rest)
		h := binary.BigEndian.Uint64(head[:])
		o.rows = append(o.rows, fetchOrder{head: h, row: uint32(i), tail: uint8(min(len(rest), wholeTail))})
		differ |= h ^ o.rows[0].head
	}
	if len(o.rows) < countedRows {
		slices.SortFunc(o.rows, func(x, y fetchOrder) int { return o.compare(g, x, y) })
		return
	}
	for shift := 0; shift < 8*headBytes; shift += 8 {
		if byte(differ>>shift) != 0 {
			o.byByte(shift)
		}
	}
	o.untie(g)
}

func (o *recordOrder) compare(g *entryBatch, x, y fetchOrder) int {
	if c := cmp.Compare(x.head, y.head); c != 0 {
		return c
	}
	return bytes.Compare(g.record(int(x.row)), g.record(int(y.row)))
}

// byByte puts rows in the order of one byte of their heads, and leaves those in
// which it is the same as they are.
func (o *recordOrder) byByte(shift int) {
	var at [256]uint32
	for i := range o.rows {
		at[byte(o.rows[i].head>>shift)]++
	}
	sum := uint32(0)
	for b, n := range at {
		at[b] = sum
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

// untie puts rows with equal heads in the order of their records.
func (o *recordOrder) untie(g *entryBatch) {
	for from, i := 0, 1; i <= len(o.rows); i++ {
		if i < len(o.rows) && o.rows[i].head == o.rows[from].head {
			continue
		}
		if i-from > 1 {
			slices.SortFunc(o.rows[from:i], func(x, y fetchOrder) int { return o.compare(g, x, y) })
		}
		from = i
	}
}

// record is the record of a row, put together in memory from its head where that
// has it all, since rows lie far from each other in this order.
func (o *recordOrder) record(memory *[]byte, g *entryBatch, r fetchOrder) []byte {
	if r.tail == wholeTail {
		return g.record(int(r.row))
	}
	*memory = binary.BigEndian.AppendUint64(append((*memory)[:0], o.common...), r.head)
	return (*memory)[:len(o.common)+int(r.tail)]
}
