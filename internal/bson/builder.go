package bson

import (
	"encoding/binary"
	"slices"
)

// Builder writes one document, front to back. The zero Builder is ready for
// use; its methods return it, so replies read as one expression:
//
//	new(bson.Builder).Int32("n", 1).Double("ok", 1).Finish()
type Builder struct {
	buf   []byte
	base  int   // where the outermost document starts in buf
	stack []int // where the open nested documents start
	open  bool
}

// Reset starts a new document appended to buf, which may be nil.
func (b *Builder) Reset(buf []byte) *Builder {
	b.base, b.stack, b.open = len(buf), b.stack[:0], true
	b.buf = append(buf, 0, 0, 0, 0)
	return b
}

// Grow makes room for n more bytes.
func (b *Builder) Grow(n int) { b.buf = slices.Grow(b.buf, n) }

func (b *Builder) name(t Type, name string) {
	if !b.open {
		b.Reset(b.buf[:0])
	}
	b.buf = append(append(append(b.buf, byte(t)), name...), 0)
}

// Value appends a field of any type; a Missing value appends nothing.
func (b *Builder) Value(name string, v Value) *Builder {
	if v.Type != Missing {
		b.name(v.Type, name)
		b.buf = append(b.buf, v.Data...)
	}
	return b
}

// Double appends a double.
func (b *Builder) Double(name string, f float64) *Builder { return b.Value(name, Double(f)) }

// Int32 appends an int.
func (b *Builder) Int32(name string, i int32) *Builder {
	b.name(TypeInt32, name)
	b.buf = binary.LittleEndian.AppendUint32(b.buf, uint32(i))
	return b
}

// Int64 appends a long.
func (b *Builder) Int64(name string, i int64) *Builder {
	b.name(TypeInt64, name)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(i))
	return b
}

// Int appends an int where i fits one, else a long.
func (b *Builder) Int(name string, i int64) *Builder { return b.Value(name, Int(i)) }

// String appends a string.
func (b *Builder) String(name, s string) *Builder {
	b.name(TypeString, name)
	b.buf = appendString(b.buf, s)
	return b
}

// Bool appends a bool.
func (b *Builder) Bool(name string, v bool) *Builder { return b.Value(name, Bool(v)) }

// Null appends a null.
func (b *Builder) Null(name string) *Builder { return b.Value(name, Null) }

// Date appends a date, in milliseconds since 1970.
func (b *Builder) Date(name string, ms int64) *Builder {
	b.name(TypeDate, name)
	b.buf = binary.LittleEndian.AppendUint64(b.buf, uint64(ms))
	return b
}

// Timestamp appends a timestamp.
func (b *Builder) Timestamp(name string, t uint64) *Builder { return b.Value(name, Timestamp(t)) }

// ObjectID appends an ObjectId.
func (b *Builder) ObjectID(name string, id [12]byte) *Builder { return b.Value(name, ObjectID(id)) }

// Binary appends a binary value.
func (b *Builder) Binary(name string, subtype byte, content []byte) *Builder {
	return b.Value(name, Binary(subtype, content))
}

// Doc appends a whole nested document.
func (b *Builder) Doc(name string, d Doc) *Builder { return b.Value(name, Document(d)) }

// Array appends a whole array, given as a document with the names "0", "1" …
func (b *Builder) Array(name string, d Doc) *Builder { return b.Value(name, ArrayOf(d)) }

// Strings appends an array of strings.
func (b *Builder) Strings(name string, ss ...string) *Builder {
	b.OpenArray(name)
	for i, s := range ss {
		b.String(Index(i), s)
	}
	return b.Close()
}

// Fields appends all fields of d.
func (b *Builder) Fields(d Doc) *Builder {
	for it := d.Iter(); it.Next(); {
		b.Value(it.Key, it.Value)
	}
	return b
}

// Only appends those fields of a document that have one of the names, which
// differ; of several fields with the same name the first.
func (b *Builder) Only(d Doc, names []string) *Builder {
	if !b.open {
		b.Reset(b.buf[:0])
	}
	var found NumberSet
	found.Init(len(names))
	left := len(names)
	for it := d.Iter(); left > 0 && it.Next(); {
		for i, name := range names {
			if name == it.Key {
				if !found.Has(i) {
					found.Add(i)
					left--
					b.Value(name, it.Value)
				}
				break
			}
		}
	}
	return b
}

// OpenDoc begins a nested document; fields go into it until Close.
func (b *Builder) OpenDoc(name string) *Builder { return b.nest(TypeDocument, name) }

// OpenArray begins a nested array; the names "0", "1" … (see Index) are the
// caller's to give, until Close.
func (b *Builder) OpenArray(name string) *Builder { return b.nest(TypeArray, name) }

func (b *Builder) nest(t Type, name string) *Builder {
	b.name(t, name)
	b.stack = append(b.stack, len(b.buf))
	b.buf = append(b.buf, 0, 0, 0, 0)
	return b
}

// Close ends the innermost open nested document or array.
func (b *Builder) Close() *Builder {
	at := b.stack[len(b.stack)-1]
	b.stack = b.stack[:len(b.stack)-1]
	b.seal(at)
	return b
}

func (b *Builder) seal(at int) {
	b.buf = append(b.buf, 0)
	binary.LittleEndian.PutUint32(b.buf[at:], uint32(len(b.buf)-at))
}

// Len is the number of bytes written so far of the outermost document.
func (b *Builder) Len() int { return len(b.buf) - b.base }

// Finish ends the document and returns it; the Builder gives up its buffer,
// so the result stays valid and the Builder may be used again.
func (b *Builder) Finish() Doc {
	if !b.open {
		b.Reset(nil)
	}
	for len(b.stack) > 0 {
		b.Close()
	}
	b.seal(b.base)
	d := Doc(b.buf[b.base:])
	b.buf, b.open = nil, false
	return d
}
