package pipeline

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

const (
	// hashAfter is after how many documents, each joined by a query of its own, a
	// $lookup switches to a hash join.
	hashAfter = 4096
	// maxHashed bounds the built side of a hash join, in bytes.
	maxHashed = 32 << 20
)

// hashTable is the built side of a hash join: the collection that a $lookup joins, in
// memory, by the values of foreignField.
type hashTable struct {
	data   []byte // keys and documents, one after the other
	places []hashEntry
	// slots has for a key's hash, or in the next slots, the number of its first
	// place and one more; 0 if there is none.
	slots []uint32
	seed  maphash.Seed
	key   []byte
}

// hashEntry is a document under one of its values.
type hashEntry struct {
	hash uint64
	key  [2]uint32 // the position of the value's key in data
	doc  [2]uint32 // the position of the document
	next int32     // the next place with the same key, or -1
	last int32     // of the first place with a key: the last one
}

// placeBytes is what a place and its part of slots cost.
const placeBytes = 48

// hashJoin joins d with the collection in memory. ok is false if it cannot: before that
// pays off, if the collection does not fit, for values that need more than equality,
// and for a pipeline that does more than join.
func (j *joining) hashJoin(ctx context.Context, d bson.Doc) (it Iterator, ok bool, err error) {
	l := j.l
	if j.opened++; j.opened <= hashAfter || j.noHashJoin || l.local == nil || l.let != nil || len(l.from.Pipeline.Stages) != l.from.joinAt {
		return nil, false, nil
	}
	if j.table == nil {
		foreign := strings.Split(l.foreign, ".")
		if slices.ContainsFunc(foreign, isIndex) {
			j.noHashJoin = true
			return nil, false, nil
		}
		if err := j.hash(ctx, foreign); err != nil || j.noHashJoin {
			return nil, false, err
		}
	}
	values := valuesAt(nil, bson.Document(d), l.local)
	if len(values) != 1 || !hashable(values[0]) {
		return nil, false, nil
	}
	return j.table.find(values[0], l), true, nil
}

// hashable reports whether exactly the values that equal v have its key.
func hashable(v bson.Value) bool {
	switch v.Type {
	case bson.TypeDouble, bson.TypeInt32, bson.TypeInt64, bson.TypeDecimal, bson.TypeString, bson.TypeSymbol,
		bson.TypeObjectID, bson.TypeDate, bson.TypeBool, bson.TypeBinary:
		return true
	}
	return false
}

// hash reads the collection.
func (j *joining) hash(ctx context.Context, foreign []string) error {
	meta := j.r.Meta
	defer func() { j.r.Meta = meta }()
	in, err := j.l.from.open(ctx, j.r, nil, nil)
	if err != nil {
		return err
	}
	defer in.Close()
	defer j.addStats(in)
	if h, ok := in.(interface{ Hides() bool }); ok && h.Hides() {
		j.noHashJoin = true
		return nil
	}
	t := &hashTable{seed: maphash.MakeSeed()}
	var values []bson.Value
	for {
		d, err := in.Next(ctx)
		if err != nil {
			return err
		}
		if d == nil {
			j.table = t
			return nil
		}
		if err := j.r.check(ctx); err != nil {
			return err
		}
		from := uint32(len(t.data))
		t.data = append(t.data, d...)
		values = valuesAt(values[:0], bson.Document(d), foreign)
		for _, v := range values {
			if hashable(v) {
				t.add(v, [2]uint32{from, from + uint32(len(d))}, j.l.collator)
			}
		}
		j.kept = cap(t.data) + len(t.places)*placeBytes
		if len(t.data)+len(t.places)*placeBytes > maxHashed || j.memory.Set(j.kept) != nil {
			j.noHashJoin, j.kept = true, 0
			return nil
		}
	}
}

// slot returns the slot of the current key.
func (t *hashTable) slot(hash uint64) (at int, found bool) {
	mask := len(t.slots) - 1
	for at = int(hash) & mask; t.slots[at] != 0; at = (at + 1) & mask {
		p := &t.places[t.slots[at]-1]
		if p.hash == hash && bytes.Equal(t.data[p.key[0]:p.key[1]], t.key) {
			return at, true
		}
	}
	return at, false
}

// add adds a document under a value, once for a repeated one.
func (t *hashTable) add(v bson.Value, doc [2]uint32, coll bson.Collator) {
	if 2*len(t.places) >= len(t.slots) {
		t.grow()
	}
	t.key = keystring.Append(t.key[:0], v, false, coll)
	hash, place := maphash.Bytes(t.seed, t.key), int32(len(t.places))
	at, found := t.slot(hash)
	if !found {
		from := uint32(len(t.data))
		t.data = append(t.data, t.key...)
		t.slots[at] = uint32(place) + 1
		t.places = append(t.places, hashEntry{hash, [2]uint32{from, uint32(len(t.data))}, doc, -1, place})
		return
	}
	first := &t.places[t.slots[at]-1]
	last := &t.places[first.last]
	if last.doc == doc {
		return
	}
	last.next, first.last = place, place
	t.places = append(t.places, hashEntry{doc: doc, next: -1})
}

// grow doubles the slots.
func (t *hashTable) grow() {
	old := t.slots
	t.slots = make([]uint32, max(2*len(old), firstSlots))
	mask := len(t.slots) - 1
	for _, number := range old {
		if number == 0 {
			continue
		}
		at := int(t.places[number-1].hash) & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = number
	}
}

// firstSlots is how many slots there are at first: a power of two.
const firstSlots = 1 << 10

// find returns the documents with a value.
func (t *hashTable) find(v bson.Value, l *Lookup) Iterator {
	m := &hashMatches{t: t, at: -1}
	if len(t.slots) == 0 {
		return m
	}
	t.key = keystring.Append(t.key[:0], v, false, l.collator)
	if at, found := t.slot(maphash.Bytes(t.seed, t.key)); found {
		m.at = int32(t.slots[at] - 1)
	}
	return m
}

// hashMatches returns the documents of a chain.
type hashMatches struct {
	t  *hashTable
	at int32 // the next place, or -1
}

// Next returns the next document.
func (m *hashMatches) Next(context.Context) (bson.Doc, error) {
	if m.at < 0 {
		return nil, nil
	}
	p := &m.t.places[m.at]
	m.at = p.next
	return m.t.data[p.doc[0]:p.doc[1]:p.doc[1]], nil
}

// Close ends the chain.
func (m *hashMatches) Close() { m.at = -1 }
