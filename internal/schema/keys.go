package schema

import "github.com/mayflydb/mayfly/internal/bson"

// Key is one key of a document in an index: the key string's bytes, without
// the record key, and the type bits that restore the exact values from them.
type Key struct {
	Bytes    []byte
	TypeBits []byte
}

// MultikeyPaths says, for each part of an index, at which components of its
// path arrays stand: bit i is component i, and the highest bit stands for its
// own component and all that follow. Nil means that no path holds an array.
type MultikeyPaths []uint64

const maxMultikeyBit = 63

func (m MultikeyPaths) set(part, component int) { m[part] |= 1 << min(component, maxMultikeyBit) }

// Union returns the paths of both, and whether b added any to m. Neither is
// changed.
func (m MultikeyPaths) Union(b MultikeyPaths) (MultikeyPaths, bool) {
	grown := false
	for i, bits := range b {
		if m == nil && bits != 0 || m != nil && bits&^m[i] != 0 {
			grown = true
		}
	}
	if !grown {
		return m, false
	}
	u := make(MultikeyPaths, len(b))
	copy(u, m)
	for i, bits := range b {
		u[i] |= bits
	}
	return u, true
}

// Any reports whether an array stands on any path.
func (m MultikeyPaths) Any() bool {
	for _, bits := range m {
		if bits != 0 {
			return true
		}
	}
	return false
}

// Keys appends the document's keys to dst in the order of their bytes, without
// duplicates, and returns them with the paths that hold arrays. Capacity of
// dst, and the buffers of keys beyond its length, are used again. A document
// that a partial or sparse index leaves out has none. Errors: 171 for parallel
// arrays, 16766 for arrays under a hashed index, 16746 for an ambiguous number
// in a path; none if the index is lenient.
func (ix *Index) Keys(doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	if ix.Filter != nil {
		ok, err := ix.Filter.Match(doc)
		if err != nil || !ok {
			return dst, nil, err
		}
	}
	keys, paths, err := ix.kind.keys(ix, doc, dst)
	if err != nil && ix.Lenient {
		return dst, ix.leftOut(), nil
	}
	return keys, paths, err
}

const (
	// keyBytes is what a key takes in addition to its bytes.
	keyBytes = 64
	// roomStep is after how many bytes of keys more memory is booked.
	roomStep = 64 << 10
)

// keyRoom bounds the keys of one document. A nil one is unlimited.
type keyRoom struct {
	ask         func(bytes int) error
	bytes, room int
	err         error
}

func (r *keyRoom) over() bool { return r != nil && r.err != nil }

func (r *keyRoom) made(n int) {
	if r == nil {
		return
	}
	if r.bytes += n; r.bytes > r.room {
		r.room = r.bytes + r.bytes/4 + roomStep
		r.err = r.ask(r.room)
	}
}

// KeysWithin is Keys for a document that may have very many large keys, which
// are elements of an array times the other fields: ask is told how many bytes
// they will come to, now and then while they are made, and ends it by an error,
// which full is. Then there are no keys.
func (ix *Index) KeysWithin(doc bson.Doc, dst []Key, ask func(bytes int) error) (keys []Key, paths MultikeyPaths, full, err error) {
	bounded := *ix
	bounded.room = &keyRoom{ask: ask, room: roomStep}
	keys, paths, err = bounded.Keys(doc, dst)
	if full := bounded.room.err; full != nil {
		return dst, nil, full, nil
	}
	return keys, paths, nil, err
}

// walk follows components from doc until they end or meet an array. It returns
// what it found there, Missing for nothing, and how many components it used.
func walk(doc bson.Doc, components []string) (v bson.Value, used int) {
	for i, c := range components {
		v = doc.Lookup(c)
		if v.Type != bson.TypeDocument || i == len(components)-1 {
			if v.Type != bson.TypeArray && i < len(components)-1 {
				return bson.Value{}, len(components)
			}
			return v, i + 1
		}
		doc = v.Doc()
	}
	return v, len(components)
}
