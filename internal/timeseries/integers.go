package timeseries

import (
	"encoding/binary"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Integers, dates and timestamps: type ‖ the first value ‖ the first
// difference, then how each difference differs from the one before. A zero is
// followed by how many more zeros there are: readings at a steady pace cost
// nothing.

func appendIntegers(dst []byte, t bson.Type, data []byte) []byte {
	d := differ{dst: append(dst, byte(t))}
	var last, step int64
	add := func(x int64) {
		d.append(x - last - step)
		last, step = x, x-last
	}
	if t == bson.TypeInt32 {
		for ; len(data) > 0; data = data[4:] {
			add(int64(int32(binary.LittleEndian.Uint32(data))))
		}
	}
	for ; len(data) > 0; data = data[8:] {
		add(int64(binary.LittleEndian.Uint64(data)))
	}
	return d.finish()
}

// integers reads n of them, and says of which type they are.
func integers(r *reader, n int, dst []byte) (bson.Type, []byte) {
	t := bson.Type(r.byte())
	width := 8
	switch t {
	case bson.TypeInt32:
		width = 4
	case bson.TypeInt64, bson.TypeDate, bson.TypeTimestamp:
	default:
		r.fail()
		return t, dst
	}
	u := undiffer{r: r}
	dst = slices.Grow(dst, n*width)
	var last, step int64
	for range n {
		step += u.next()
		last += step
		if width == 4 {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(last))
		} else {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(last))
		}
	}
	u.finish()
	return t, dst
}

// differ writes signed numbers as varints, zeros by their number.
type differ struct {
	dst   []byte
	zeros uint64
}

func (d *differ) append(x int64) {
	if x == 0 {
		d.zeros++
		return
	}
	d.flush()
	d.dst = binary.AppendVarint(d.dst, x)
}

func (d *differ) flush() {
	if d.zeros > 0 {
		d.dst = binary.AppendUvarint(append(d.dst, 0), d.zeros-1)
		d.zeros = 0
	}
}

func (d *differ) finish() []byte {
	d.flush()
	return d.dst
}

// undiffer reads what differ wrote.
type undiffer struct {
	r     *reader
	zeros uint64
}

func (u *undiffer) next() int64 {
	if u.zeros > 0 {
		u.zeros--
		return 0
	}
	if b := u.r.b; len(b) > 0 && b[0] < 0x80 && b[0] != 0 { // most are small
		u.r.b = b[1:]
		return int64(b[0]>>1) ^ -int64(b[0]&1)
	}
	x := u.r.varint()
	if x == 0 {
		u.zeros = u.r.uvarint()
	}
	return x
}

// finish checks that no number is left over.
func (u *undiffer) finish() {
	if u.zeros > 0 {
		u.r.fail()
	}
}
