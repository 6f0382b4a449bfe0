package keystring

import (
	"bytes"
	"encoding/binary"

	"github.com/mayflydb/mayfly/internal/bson"
)

// maxDepth bounds the nesting of what is read from a key, as of what can be
// written into one.
const maxDepth = bson.MaxMessageDepth

// reader walks over one component; flip is ff if it is inverted. A key that
// is too short or wrong sets bad, once and for all.
type reader struct {
	key    []byte
	at     int
	flip   byte
	bad    bool
	memory []byte // of values that are decoded
}

func (r *reader) fail() { r.bad, r.at = true, len(r.key) }

func (r *reader) byte() byte {
	if r.at >= len(r.key) {
		r.fail()
		return 0
	}
	b := r.key[r.at]
	r.at++
	return b ^ r.flip
}

// peek is the next byte without moving on.
func (r *reader) peek() byte {
	if r.at >= len(r.key) {
		r.fail()
		return 0
	}
	return r.key[r.at] ^ r.flip
}

// raw is the next n bytes as they stand in the key.
func (r *reader) raw(n int) []byte {
	if n > len(r.key)-r.at {
		r.fail()
		return nil
	}
	b := r.key[r.at : r.at+n]
	r.at += n
	return b
}

// uint is the next n bytes, 1 to 8, as a number.
func (r *reader) uint(n int) uint64 {
	b := r.raw(n)
	if b == nil {
		return 0
	}
	var u uint64
	if n == 8 {
		u = binary.BigEndian.Uint64(b)
	} else {
		for _, c := range b {
			u = u<<8 | uint64(c)
		}
	}
	if r.flip != 0 {
		u ^= ^uint64(0) >> (64 - 8*n)
	}
	return u
}

// until is what stands in the key before the next end, which is passed.
func (r *reader) until() []byte {
	n := bytes.IndexByte(r.key[r.at:], end^r.flip)
	if n < 0 {
		r.fail()
		return nil
	}
	b := r.key[r.at : r.at+n]
	r.at += n + 1
	return b
}

func (r *reader) length() int {
	n := r.byte()
	if n < longLength {
		return int(n)
	}
	if n > longLength+3 {
		r.fail()
		return 0
	}
	return int(r.uint(int(n-longLength) + 1))
}

// Skip returns the length of the component at the start of key, or -1 where
// there is no whole one.
func Skip(key []byte, descending bool) int {
	r := reader{key: key}
	if descending {
		r.flip = 0xff
	}
	r.skip(0)
	if r.bad {
		return -1
	}
	return r.at
}

func (r *reader) skip(depth int) {
	switch tag := r.byte(); tag {
	case tagMinKey, tagUndefined, tagNull, tagNaN, tagZero, tagFalse, tagTrue, tagMaxKey:
	case tagString, tagCode:
		r.until()
	case tagObjectID:
		r.raw(12)
	case tagDate, tagTimestamp:
		r.raw(8)
	case tagObject:
		r.skipFields(depth + 1)
	case tagCodeScope:
		r.until()
		r.skipFields(depth + 1)
	case tagArray:
		if depth >= maxDepth {
			r.fail()
		}
		for r.peek() != end {
			r.skip(depth + 1)
		}
		r.at++
	case tagBinary:
		r.raw(r.length() + 1)
	case tagDBPointer:
		r.raw(r.length() + 12)
	case tagRegex:
		r.until()
		r.until()
	default:
		r.number(tag)
	}
}

func (r *reader) skipFields(depth int) {
	if depth > maxDepth {
		r.fail()
	}
	for r.byte() != end {
		r.until()
		r.skip(depth)
	}
}

// number is what a number's component says.
type number struct {
	negative bool
	whole    uint64 // of a number below 2^63 and not below 1
	fraction uint64 // as many bits as fractionBits(whole)
	double   uint64 // bits of a double, where whole is 0
	rest     []byte // of a decimal, as it stands in the key
	flip     byte   // how rest is inverted
}

// number reads what follows the tag of a number that is neither NaN nor zero.
func (r *reader) number(tag byte) (n number) {
	if tag < tagNegLarge || tag > tagPosLarge {
		r.fail()
		return
	}
	if tag < tagZero {
		n.negative, tag = true, mirror(tag)
		r.flip = ^r.flip
		defer func() { r.flip = ^r.flip }()
	}
	var more bool
	switch tag {
	case tagPosSmall, tagPosLarge:
		u := r.uint(8)
		n.double, more = u>>1, u&1 != 0
	default:
		u := r.uint(int(tag) - tagPosWhole1 + 1)
		n.whole = u >> 1
		if n.whole == 0 {
			r.fail()
			return
		}
		if u&1 != 0 {
			size := fractionBits(n.whole)/8 + 1
			f := r.uint(size)
			n.fraction, more = f>>1, f&1 != 0
		}
	}
	if more {
		start := r.at
		r.raw(2)
		r.until()
		if !r.bad {
			n.rest, n.flip = r.key[start:r.at-1], r.flip
		}
	}
	return n
}
