package bson

import (
	"encoding/binary"
	"iter"
	"strconv"
)

// Doc is one encoded BSON document, its length in front and its zero byte at
// the end. The bytes are immutable once a Doc is shared. Methods of Doc never
// panic on malformed bytes: iteration stops at the first element that is not
// whole (Validate tells where).
type Doc []byte

// Empty is the document without fields.
var Empty = Doc{5, 0, 0, 0, 0}

// Iter walks the elements of a document in order:
//
//	for it := d.Iter(); it.Next(); {
//		use(it.Key, it.Value)
//	}
type Iter struct {
	rest  []byte
	Key   string // shares the document's bytes
	Value Value
}

// Iter starts a walk in front of the first element. It is inlined, so that the
// Iter stays on the stack; it is a pointer because a loop variable that is a
// struct would be copied in every turn.
func (d Doc) Iter() *Iter { return &Iter{rest: d.elements()} }

// elements is the bytes between the length and the final zero.
func (d Doc) elements() []byte {
	if len(d) < 5 {
		return nil
	}
	n := int(binary.LittleEndian.Uint32(d))
	if n < 5 || n > len(d) {
		return nil
	}
	return d[4 : n-1]
}

// Next moves to the next element and reports whether there is one.
func (it *Iter) Next() bool {
	b := it.rest
	if len(b) < 2 {
		return false
	}
	t := Type(b[0])
	k := cstringLen(b[1:]) + 1
	if k < len(b) {
		data := b[k+1:]
		if n := payloadLen(t, data); n >= 0 {
			it.Key = unsafeString(b[1:k])
			it.Value.Type = t
			it.Value.Data = data[:n:n]
			it.rest = data[n:]
			return true
		}
	}
	it.rest = nil
	return false
}

// All ranges over names and values in order.
func (d Doc) All() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		for it := d.Iter(); it.Next(); {
			if !yield(it.Key, it.Value) {
				return
			}
		}
	}
}

// Values ranges over the values in order: the elements of an array.
func (d Doc) Values() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for it := d.Iter(); it.Next(); {
			if !yield(it.Value) {
				return
			}
		}
	}
}

// Lookup returns the value of the first field with that very name (no dotted
// path), or Missing.
func (d Doc) Lookup(name string) Value {
	for b := d.elements(); len(b) >= 2; {
		t := Type(b[0])
		k := cstringLen(b[1:])
		if k+2 > len(b) {
			break
		}
		key, data := b[1:1+k], b[k+2:]
		n := payloadLen(t, data)
		if n < 0 {
			break
		}
		if string(key) == name {
			return Value{t, data[:n:n]}
		}
		b = data[n:]
	}
	return Value{}
}

// Has reports whether a field with that very name exists.
func (d Doc) Has(name string) bool { return !d.Lookup(name).IsMissing() }

// First returns the first element, or an empty name and Missing.
func (d Doc) First() (string, Value) {
	it := d.Iter()
	if it.Next() {
		return it.Key, it.Value
	}
	return "", Value{}
}

// Len counts the elements.
func (d Doc) Len() int {
	n := 0
	for it := d.Iter(); it.Next(); {
		n++
	}
	return n
}

// IsEmpty reports whether the document has no fields.
func (d Doc) IsEmpty() bool { return len(d) <= 5 }

// Slice collects the elements of an array.
func (d Doc) Slice() []Value {
	var vs []Value
	for it := d.Iter(); it.Next(); {
		vs = append(vs, it.Value)
	}
	return vs
}

// Clone copies the bytes, for a document that must outlive its buffer.
func (d Doc) Clone() Doc { return append(Doc(nil), d...) }

// Clone copies the payload, for a value that must outlive its buffer.
func (v Value) Clone() Value { return Value{v.Type, append([]byte(nil), v.Data...)} }

var smallIndexes = func() (s [256]string) {
	for i := range s {
		s[i] = strconv.Itoa(i)
	}
	return
}()

// Index is the name of the i-th element of an array.
func Index(i int) string {
	if i >= 0 && i < len(smallIndexes) {
		return smallIndexes[i]
	}
	return strconv.Itoa(i)
}

// AllDigits reports whether a name of a path is nothing but digits, and so may
// also stand for the place of an element of an array.
func AllDigits(name string) bool {
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return false
		}
	}
	return name != ""
}
